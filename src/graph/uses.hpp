// Memory that the launches of an exec use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <dwell/detail/graph_data.hpp>

namespace dwell::graph {

// Tracks the memory of the next launch, and former memory of launches in flight. The graph's original memory stays counted even after an
// argument was replaced: its argument is unknown. Not thread-safe.
class Uses {
 public:
  using Use = detail::GraphData::Use;

  explicit Uses(std::vector<Use> all = {}) : all_(std::move(all)) {}

  // Sets the memory of the argument of `node` that begins with its word `first`, for the next launch. `reaped`: launches before it have
  // ended.
  void set(std::uint32_t node, std::uint32_t first, std::uint64_t address, std::uint64_t reaped) {
    forget(reaped);
    const auto [at, added] = set_.try_emplace({node, first}, Set{address, launches_});
    if (added) return;
    if (at->second.launches != launches_) former_.push_back({at->second.address, last_});
    at->second = {address, launches_};
  }
  // Sets all memory of the next launch.
  void set_all(std::vector<Use> all, std::uint64_t reaped) {
    forget(reaped);
    former_.reserve(former_.size() + all_.size() + set_.size());  // from here on nothing fails
    if (all_launches_ != launches_)
      for (const Use& use : all_) former_.push_back({use.address, last_});
    for (const auto& [argument, set] : set_)
      if (set.launches != launches_) former_.push_back({set.address, last_});
    set_.clear();
    all_ = std::move(all);
    all_launches_ = launches_;
  }
  // Records a launch at `position`.
  void launched(std::uint64_t position) noexcept {
    last_ = position;
    ++launches_;
  }

  // Returns whether a launch in flight, or the next one, uses memory in [begin, end).
  bool names(std::uint64_t begin, std::uint64_t end) const {
    const auto in = [&](std::uint64_t address) { return address >= begin && address < end; };
    return std::ranges::any_of(all_, [&](const Use& use) { return in(use.address); }) ||
           std::ranges::any_of(set_, [&](const auto& set) { return in(set.second.address); }) ||
           std::ranges::any_of(former_, [&](const Former& former) { return in(former.address); });
  }
  // Returns the memory of the next launch.
  std::vector<Use> next() const {
    std::vector<Use> uses = all_;
    for (const auto& [argument, set] : set_) uses.push_back({nullptr, set.address, argument.first});
    return uses;
  }
  // Returns the number of tracked places.
  std::size_t size() const { return all_.size() + set_.size() + former_.size(); }

 private:
  struct Set {
    std::uint64_t address;
    std::uint64_t launches;  // launches before
  };
  struct Former {
    std::uint64_t address;
    std::uint64_t until;  // position of the last launch that uses it
  };

  void forget(std::uint64_t reaped) {
    std::erase_if(former_, [&](const Former& former) { return former.until < reaped; });
  }

  std::vector<Use> all_;
  std::uint64_t all_launches_ = 0;  // as Set::launches
  std::map<std::pair<std::uint32_t, std::uint32_t>, Set> set_;
  std::vector<Former> former_;
  std::uint64_t last_ = 0;
  std::uint64_t launches_ = 0;
};

}  // namespace dwell::graph
