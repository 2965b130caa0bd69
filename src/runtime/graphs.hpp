// The runtime's table of graphs: names of their nodes, and the memory they use.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "device/graph_layout.hpp"

namespace dwell::runtime {

// Returns the name of a launch in messages: "graph 'step'", "a graph" without a name.
inline std::string title_of(const std::string& graph) { return graph.empty() ? "a graph" : "graph '" + graph + "'"; }

// The interface of an exec to the rest of the runtime.
class Exec {
 public:
  virtual ~Exec() = default;
  // Returns its graph's name; empty: none. Never changes.
  virtual const std::string& name() const = 0;
  // Facts of a node by its number: the place of its record, its name ("left", empty without one), whether it calls an operator, the words
  // of its arguments at instantiation, and its title in messages: "'loop' (while)".
  struct NodeFacts {
    std::uint32_t cell;
    std::string_view name;
    bool calls;
    std::span<const std::uint32_t> words;
  };
  virtual std::uint32_t nodes() const = 0;
  // Must be called before the exec is launched or changed.
  virtual NodeFacts facts_of(std::uint32_t node) const = 0;
  virtual std::string text_of(std::uint32_t node) const = 0;
  // Describes the node whose record is in this cell: "'left' (operator add)". Empty if there is none.
  virtual std::string node_at(std::uint32_t cell) const = 0;
  // Returns only its name: "left". Empty without one.
  virtual std::string name_at(std::uint32_t cell) const = 0;
  // Returns its name, "#3" without one. Empty if there is no node.
  virtual std::string called_at(std::uint32_t cell) const = 0;
  // Returns the title of the node in this cell for a run of `op`: "left: add (version 2)", "#3: add (version 2)"; without an operator
  // "'loop' (while)". Empty if there is no node.
  virtual std::string title_at(std::uint32_t cell, const std::string& op) const = 0;
  // Formats the arguments of the node in this cell in the next launch: "(2.5, 0x7f00[1024])", with a remark if they have changed. Empty
  // without an operator. Does not wait for launches.
  virtual std::string arguments_at(std::uint32_t cell) const = 0;
  // Returns the cells of at most `most` next nodes with operators after this cell that always run if it succeeds. For kFirstRecord, the
  // first nodes.
  virtual std::vector<std::uint32_t> next_at(std::uint32_t cell, std::size_t most) const = 0;
  // The number of nodes with an operator or a callback, and an upper bound of those that are incomplete, given the cells of nodes that are
  // still to run or whose successors are.
  struct Left {
    std::uint32_t all;
    std::uint32_t nodes;
  };
  virtual Left left(std::span<const std::uint32_t> ready) const = 0;
  // Returns the exception message of the callback of the host node in this cell in the launch at `position`; empty if unknown.
  virtual std::string why(std::uint64_t position, std::uint32_t cell) const = 0;
  // Returns whether one of its nodes uses memory in [begin, end).
  virtual bool names(std::uint64_t begin, std::uint64_t end) const = 0;
};

// Execs by their byte offsets in the arena. Keeps those with launches in flight alive. Members may be called from any thread, and call
// execs without holding a lock.
class Graphs {
 public:
  // Returns the number of the next exec: unique, never 0.
  std::uint32_t next_number() { return ++last_number_; }
  // Adds an exec of this number and size at `offset`, until remove. `lease`: the last one started before. Returns it if another exec may
  // have been there.
  std::optional<std::uint32_t> add(std::uint64_t offset, std::uint64_t bytes, std::uint32_t number, const std::shared_ptr<const Exec>& exec,
                                   std::uint32_t lease) {
    const Lock lock(mutex_);
    const bool fresh = offset + bytes <= former_.first || offset >= former_.second;  // no other exec has been there
    const std::optional<std::uint32_t> since = fresh ? std::nullopt : std::optional(lease);
    // In this order: without memory, remove clears what is left of an exec that was not added.
    execs_.insert_or_assign(offset, Entry{bytes, number, exec, exec->name(), std::chrono::steady_clock::now(), since});
    numbered_.insert_or_assign(number, exec);
    return since;
  }
  void remove(std::uint64_t offset) {
    const Lock lock(mutex_);
    const auto at = execs_.find(offset);
    if (at == execs_.end()) return;
    const std::uint64_t end = offset + at->second.bytes;
    former_ = {std::min(former_.first, offset), std::max(former_.second, end)};
    numbered_.erase(at->second.number);
    execs_.erase(at);
  }
  // Null when it is gone.
  std::shared_ptr<const Exec> numbered(std::uint32_t number) const {
    const Lock lock(mutex_);
    const auto at = numbered_.find(number);
    return at == numbered_.end() ? nullptr : at->second.lock();
  }

  // The execs of a launch, or of a task that may launch them, with its position: allocated before it is placed, so that nothing fails
  // afterwards.
  using Flight = std::list<std::pair<std::uint64_t, std::shared_ptr<const Exec>>>;

  // Records the position of the launch, or the task, of `flight`.
  void launched(std::uint64_t position, Flight&& flight) noexcept {
    for (auto& [its, exec] : flight) its = position;
    const Lock lock(mutex_);
    in_flight_.splice(in_flight_.end(), flight);
  }
  // Releases the execs of launches before `reaped`; one recorded after a later launch is released with that.
  void collect(std::uint64_t reaped) noexcept {
    Flight ended;  // destroyed without the lock: their destructors call this object
    const Lock lock(mutex_);
    auto last = in_flight_.begin();
    while (last != in_flight_.end() && last->first < reaped) ++last;
    ended.splice(ended.end(), in_flight_, in_flight_.begin(), last);
  }

  // Returns the positions of launches whose execs use memory in [begin, end). May contain duplicates and complete ones.
  std::vector<std::uint64_t> naming(std::uint64_t begin, std::uint64_t end) const {
    Flight all;
    {
      const Lock lock(mutex_);
      all = in_flight_;
    }
    std::vector<std::uint64_t> positions;
    for (const auto& [position, exec] : all)
      if (exec->names(begin, end)) positions.push_back(position);
    return positions;
  }

  // Returns the positions of launches of the exec at `offset`, and of tasks that may launch it. May contain duplicates and complete ones.
  std::vector<std::uint64_t> users(std::uint64_t offset) const {
    const auto [exec, cell] = find(offset);
    std::vector<std::uint64_t> positions;
    if (exec == nullptr) return positions;
    const Lock lock(mutex_);
    for (const auto& [position, its] : in_flight_)
      if (its == exec) positions.push_back(position);
    return positions;
  }

  // Returns the name of the exec at `offset`; empty without one, and when it no longer exists. Keeps no exec alive: its destructor must not
  // run here.
  std::string name_of(std::uint64_t offset) const {
    const Lock lock(mutex_);
    const auto at = execs_.find(offset);
    return at == execs_.end() ? std::string() : at->second.name;
  }

  // Returns where execs lie: their offsets in the arena, and their bytes.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places() const {
    const Lock lock(mutex_);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    all.reserve(execs_.size());
    for (const auto& [offset, entry] : execs_) all.emplace_back(offset, entry.bytes);
    return all;
  }

  // The place of an exec.
  struct Place {
    std::shared_ptr<const Exec> exec;  // null when there is none
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t number = 0;
    // When it was added. If others may have been there before, `lease` is the last one whose workers may still refer to these.
    std::chrono::steady_clock::time_point since;
    std::optional<std::uint32_t> lease;

    bool holds(std::uint64_t at) const { return at - offset < bytes; }
    std::uint32_t cell(std::uint64_t at) const { return static_cast<std::uint32_t>((at - offset) / device::kCell); }
  };
  // Returns the place of the exec that holds `offset` now.
  Place place_of(std::uint64_t offset) const {
    const Lock lock(mutex_);
    auto at = execs_.upper_bound(offset);
    if (at == execs_.begin()) return {};
    const auto& [begin, entry] = *--at;
    if (offset - begin >= entry.bytes) return {};
    return {entry.exec.lock(), begin, entry.bytes, entry.number, entry.since, entry.lease};
  }
  // Returns the exec that contains `offset`, and the cell there. Null if it no longer exists. Sets `base`, unless null, to the exec's
  // begin.
  std::pair<std::shared_ptr<const Exec>, std::uint32_t> find(std::uint64_t offset, std::uint64_t* base = nullptr) const {
    Place place = place_of(offset);
    if (place.bytes == 0) return {};
    if (base != nullptr) *base = place.offset;
    return {std::move(place.exec), place.cell(offset)};
  }

 private:
  struct Entry {
    std::uint64_t bytes;
    std::uint32_t number;
    std::weak_ptr<const Exec> exec;
    std::string name;
    std::chrono::steady_clock::time_point since;
    std::optional<std::uint32_t> lease;
  };
  std::atomic<std::uint32_t> last_number_{0};
  mutable Mutex mutex_;
  std::map<std::uint64_t, Entry> execs_ DWELL_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::weak_ptr<const Exec>> numbered_ DWELL_GUARDED_BY(mutex_);
  std::pair<std::uint64_t, std::uint64_t> former_ DWELL_GUARDED_BY(mutex_){~0ULL, 0};  // contains all places of removed execs
  Flight in_flight_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
