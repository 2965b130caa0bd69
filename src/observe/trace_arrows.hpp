// Arrows from tasks and nodes to those that wait for them, while a trace is written piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <dwell/trace.hpp>

namespace dwell::observe {

// Numbers the arrows, and knows which of them begin and end at a task. One whose first task was written before it was known has no begin,
// and is left out. Those of nodes have their numbers, and come with the event at which they end.
class TraceArrows {
 public:
  // When more than `most` wait for their ends, these are forgotten.
  explicit TraceArrows(std::size_t most = std::size_t{1} << 20U) : most_(most) {}

  void add(std::span<const TraceArrow> arrows) {
    // Tasks that never run keep theirs.
    if (waiting_ > most_) {
      begins_.clear();
      ends_.clear();
      waiting_ = 0;
    }
    of_nodes_.clear();
    for (const TraceArrow& arrow : arrows) {
      if (arrow.of_nodes) {
        of_nodes_[arrow.to].push_back(arrow.from);
      } else {
        begins_[arrow.from].push_back({++last_, arrow.to});
        ++waiting_;
      }
    }
  }
  // The numbers of those that begin at this task of the ring, which is written now, and of those that end there. Each is told once.
  std::vector<std::uint64_t> begin(std::uint64_t position) {
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, to] : taken(begins_, position)) {
      numbers.push_back(number);
      ends_[to].push_back(number);
    }
    return numbers;
  }
  std::vector<std::uint64_t> end(std::uint64_t position) {
    std::vector<std::uint64_t> numbers = taken(ends_, position);
    waiting_ -= numbers.size();
    return numbers;
  }
  // The launch at this position begins on the device, to where its end is joined; whether it is one of those, and the end is told now.
  void begin_launch(std::uint64_t position) {
    if (launches_.size() == most_) launches_.clear();  // whose ends were dropped
    launches_.insert(position);
  }
  bool end_launch(std::uint64_t position) { return launches_.erase(position) != 0; }
  // The numbers of those that end at this call of a node.
  std::vector<std::uint64_t> end_at_node(std::uint64_t call) { return taken(of_nodes_, call); }

 private:
  struct Begin {
    std::uint64_t number;
    std::uint64_t to;
  };

  template <class Value>
  static std::vector<Value> taken(std::unordered_map<std::uint64_t, std::vector<Value>>& from, std::uint64_t position) {
    const auto node = from.extract(position);
    return node.empty() ? std::vector<Value>() : std::move(node.mapped());
  }

  std::size_t most_;
  std::size_t waiting_ = 0;  // numbers in begins_ and ends_
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, std::vector<Begin>> begins_;            // by position
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> ends_;      // the same; numbers
  std::unordered_set<std::uint64_t> launches_;                              // positions
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> of_nodes_;  // by call, of this piece; numbers
};

}  // namespace dwell::observe
