// Which memory the launches of an exec name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <dwell/detail/graph_data.hpp>

namespace dwell::graph {

// Knows what the next launch names, and what those in flight name that no later one does. What a graph came with counts on beside what
// takes its place: which argument it belonged to is not known. Not safe for several threads.
class Uses {
 public:
  using Use = detail::GraphData::Use;

  explicit Uses(std::vector<Use> all = {}) : all_(std::move(all)) {}

  // The next launch names this memory in the argument of `node` that begins with its word `first`. `reaped`: launches before it have ended.
  void set(std::uint32_t node, std::uint32_t first, std::uint64_t address, std::uint64_t reaped) {
    forget(reaped);
    const auto [at, added] = set_.try_emplace({node, first}, Set{address, launches_});
    if (added) return;
    if (at->second.launches != launches_) former_.push_back({at->second.address, last_});
    at->second = {address, launches_};
  }
  // The next launch names this memory and no other.
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
  // A launch is at `position`.
  void launched(std::uint64_t position) noexcept {
    last_ = position;
    ++launches_;
  }

  // Whether a launch in flight, or the next one, names memory in [begin, end).
  bool names(std::uint64_t begin, std::uint64_t end) const {
    const auto in = [&](std::uint64_t address) { return address >= begin && address < end; };
    return std::ranges::any_of(all_, [&](const Use& use) { return in(use.address); }) ||
           std::ranges::any_of(set_, [&](const auto& set) { return in(set.second.address); }) ||
           std::ranges::any_of(former_, [&](const Former& former) { return in(former.address); });
  }
  // What the next launch names.
  std::vector<Use> next() const {
    std::vector<Use> uses = all_;
    for (const auto& [argument, set] : set_) uses.push_back({nullptr, set.address, argument.first});
    return uses;
  }
  // Of how many places it knows.
  std::size_t size() const { return all_.size() + set_.size() + former_.size(); }

 private:
  struct Set {
    std::uint64_t address;
    std::uint64_t launches;  // so many launches were before
  };
  struct Former {
    std::uint64_t address;
    std::uint64_t until;  // position of the last launch that names it
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
