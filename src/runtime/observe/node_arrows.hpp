// Computes arrows between calls of graph nodes, call by call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_map>
#include <vector>

#include <dwell/trace.hpp>

namespace dwell::runtime {

// Numbers the calls of nodes, and joins each to those that it waited for. Not thread-safe.
//
// The rule: an arrow leads to a call from the last call of a predecessor that had ended when it began, unless an event may be missing since
// then. Times of calls added at different moments may differ by an error (set_error). A node that runs has waited for all its predecessors
// to run in the same launch, and launches of an exec do not overlap: so that last call belongs to its launch. With missing events it could
// belong to an earlier launch, so no arrow crosses a gap. Branches break the rule, since their successors may run without them: callers do
// not list successors beyond a branch.
class NodeArrows {
 public:
  static constexpr std::size_t kEach = 64;                // most arrows that begin at one call, and that end there
  static constexpr std::size_t kMostWaiting = 1U << 20U;  // open arrows; beyond it all of them are dropped
  static constexpr std::size_t kMostGaps = 4096;          // gaps; beyond it the first two are merged

  // A node: its unique number, and its successors in fixed order. Node 0 is unknown.
  struct Node {
    std::uint64_t key = 0;
    std::vector<std::uint64_t> next;
  };

  // Sets the error between the times of two calls: a call that begins this little before the end of its predecessor still follows it.
  // Launches of an exec are further apart.
  void set_error(std::int64_t error_ns) { error_ns_ = error_ns; }

  // Reports a gap: events between these times may be missing.
  void miss(std::int64_t from_ns, std::int64_t until_ns) {
    const auto first = gaps_.lower_bound(from_ns);
    auto last = first;
    for (; last != gaps_.end() && last->second <= until_ns; ++last) {
      from_ns = std::min(from_ns, last->second);
      until_ns = std::max(until_ns, last->first);
    }
    gaps_.emplace_hint(gaps_.erase(first, last), until_ns, from_ns);
    if (gaps_.size() <= kMostGaps) return;
    const auto oldest = gaps_.begin();
    std::next(oldest)->second = oldest->second;
    gaps_.erase(oldest);
  }

  // Adds a call of `node`, in the order of their ends, and the arrows that end at it.
  void add(TraceEvent& event, const Node& node, std::vector<TraceArrow>& arrows) {
    event.number = next_;
    event.arrows = static_cast<std::uint32_t>(std::min(node.next.size(), kEach));
    next_ += std::max<std::uint32_t>(event.arrows, 1);
    if (node.key == 0) return;
    end(event, node.key, arrows);
    for (std::uint32_t i = 0; i < event.arrows; ++i) begin({node.key, event.number + i, event.begin_ns + event.took_ns}, node.next[i]);
    if (count_ <= kMostWaiting) return;
    waiting_.clear();
    count_ = 0;
  }

 private:
  // An arrow that has begun.
  struct From {
    std::uint64_t key;
    std::uint64_t number;
    std::int64_t end_ns;
  };

  void end(const TraceEvent& event, std::uint64_t key, std::vector<TraceArrow>& arrows) {
    const auto at = waiting_.find(key);
    if (at == waiting_.end()) return;
    count_ -= std::erase_if(at->second, [&](const From& from) {
      if (from.end_ns > event.begin_ns + error_ns_) return false;
      const auto gap = gaps_.upper_bound(from.end_ns);
      if (gap == gaps_.end() || gap->second >= event.begin_ns) arrows.push_back({from.number, event.number, true});
      return true;  // with several groups, the first that ends has the arrow
    });
    if (at->second.empty()) waiting_.erase(at);
  }
  void begin(const From& from, std::uint64_t to) {
    std::vector<From>& waiting = waiting_[to];
    auto at = std::ranges::find(waiting, from.key, &From::key);
    // Of many predecessors keeps the last ones.
    if (at == waiting.end() && waiting.size() == kEach) at = std::ranges::min_element(waiting, {}, &From::end_ns);
    if (at != waiting.end()) {
      *at = from;
      return;
    }
    waiting.push_back(from);
    ++count_;
  }

  std::uint64_t next_ = 1;
  std::int64_t error_ns_ = 0;
  std::map<std::int64_t, std::int64_t> gaps_;                     // from end to begin; disjoint
  std::unordered_map<std::uint64_t, std::vector<From>> waiting_;  // by the node at which they end
  std::size_t count_ = 0;                                         // of all in waiting_
};

}  // namespace dwell::runtime
