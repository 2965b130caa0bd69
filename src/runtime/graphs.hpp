// What the runtime knows of graphs: how their nodes are called, and which memory they name.
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

// How a launch of the graph of this name is called: "graph 'step'", "a graph" without one.
inline std::string title_of(const std::string& graph) { return graph.empty() ? "a graph" : "graph '" + graph + "'"; }

// An exec, as the rest of the runtime sees it.
class Exec {
 public:
  virtual ~Exec() = default;
  // Of its graph; empty: none. Never changes.
  virtual const std::string& name() const = 0;
  // Its nodes by their numbers: where the record of one is, its name ("left", empty without one), whether it calls an operator, and the
  // words of its arguments as it was instantiated; how messages call it: "'loop' (while)".
  struct NodeFacts {
    std::uint32_t cell;
    std::string_view name;
    bool calls;
    std::span<const std::uint32_t> words;
  };
  virtual std::uint32_t nodes() const = 0;
  // Called before the exec is launched or changed.
  virtual NodeFacts facts_of(std::uint32_t node) const = 0;
  virtual std::string text_of(std::uint32_t node) const = 0;
  // The node whose record is in this cell: "'left' (operator add)". Empty when there is none.
  virtual std::string node_at(std::uint32_t cell) const = 0;
  // Its name alone: "left". Empty without one.
  virtual std::string name_at(std::uint32_t cell) const = 0;
  // Its name, "#3" without one. Empty when there is no node.
  virtual std::string called_at(std::uint32_t cell) const = 0;
  // What the node in this cell is called when it runs `op`: "left: add (version 2)", "#3: add (version 2)"; without an operator
  // "'loop' (while)". Empty when there is none.
  virtual std::string title_at(std::uint32_t cell, const std::string& op) const = 0;
  // The arguments of the node in this cell, those of the next launch: "(2.5, 0x7f00[1024])", with a word behind when they were others
  // before. Empty when there is no operator. Waits for no launch.
  virtual std::string arguments_at(std::uint32_t cell) const = 0;
  // The cells of the nodes with operators that come next behind this cell's and run whenever it has succeeded, `most` at most. Behind
  // kFirstRecord those that come first.
  virtual std::vector<std::uint32_t> next_at(std::uint32_t cell, std::size_t most) const = 0;
  // How many nodes run an operator or a callback, and how many of them at most are not complete while these cells hold nodes that are to
  // run, or whose successors are.
  struct Left {
    std::uint32_t all;
    std::uint32_t nodes;
  };
  virtual Left left(std::span<const std::uint32_t> ready) const = 0;
  // What the callback of the host node in this cell has thrown in the launch at `position`; empty when that is not known.
  virtual std::string why(std::uint64_t position, std::uint32_t cell) const = 0;
  // Whether one of its nodes names memory in [begin, end).
  virtual bool names(std::uint64_t begin, std::uint64_t end) const = 0;
};

// Execs by where they lie in the arena, as offsets in bytes. Keeps those alive of which a launch is in flight. Members may be called from
// any thread, and call an exec without a lock of their own.
class Graphs {
 public:
  // What the next exec is known by: never 0, and no other's.
  std::uint32_t next_number() { return ++last_number_; }
  // An exec of this number and so many bytes lies at `offset`, until remove. `lease`: the last one that was started before. Returns it
  // when another exec may have lain there.
  std::optional<std::uint32_t> add(std::uint64_t offset, std::uint64_t bytes, std::uint32_t number, const std::shared_ptr<const Exec>& exec,
                                   std::uint32_t lease) {
    const Lock lock(mutex_);
    const bool fresh = offset + bytes <= former_.first || offset >= former_.second;  // nothing has lain there
    const std::optional<std::uint32_t> since = fresh ? std::nullopt : std::optional(lease);
    // In this order: what is there of an exec that is not known, for want of memory, goes with remove.
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

  // The execs of a launch, or of a task that may launch them, with its position: made before it is placed, so that nothing fails behind
  // that.
  using Flight = std::list<std::pair<std::uint64_t, std::shared_ptr<const Exec>>>;

  // The launch, or the task, of `flight` is at `position`.
  void launched(std::uint64_t position, Flight&& flight) noexcept {
    for (auto& [its, exec] : flight) its = position;
    const Lock lock(mutex_);
    in_flight_.splice(in_flight_.end(), flight);
  }
  // Lets go of those whose launches lie before `reaped`, but for one that was noted behind a later one: it goes with that.
  void collect(std::uint64_t reaped) noexcept {
    Flight ended;  // destroyed without the lock: their destructors come back here
    const Lock lock(mutex_);
    auto last = in_flight_.begin();
    while (last != in_flight_.end() && last->first < reaped) ++last;
    ended.splice(ended.end(), in_flight_, in_flight_.begin(), last);
  }

  // The positions of those whose execs name memory in [begin, end). May name one twice, and one that is complete.
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

  // The positions of launches of the exec that begins at `offset`, and of tasks that may launch it. May name one twice, and one that is
  // complete.
  std::vector<std::uint64_t> users(std::uint64_t offset) const {
    const auto [exec, cell] = find(offset);
    std::vector<std::uint64_t> positions;
    if (exec == nullptr) return positions;
    const Lock lock(mutex_);
    for (const auto& [position, its] : in_flight_)
      if (its == exec) positions.push_back(position);
    return positions;
  }

  // The name of the exec that begins at `offset`; empty without one, and when it is gone. Keeps no exec alive, whose end might come here.
  std::string name_of(std::uint64_t offset) const {
    const Lock lock(mutex_);
    const auto at = execs_.find(offset);
    return at == execs_.end() ? std::string() : at->second.name;
  }

  // Where an exec lies.
  struct Place {
    std::shared_ptr<const Exec> exec;  // null when it is gone, or never was
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t number = 0;
    // Since when. Others may have lain there before; then `lease` is the last one of which a worker may speak of these.
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
  // The exec that holds `offset`, and the cell there. Null when it is gone. `base`, if it is not null, is set to where the exec begins.
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
  std::pair<std::uint64_t, std::uint64_t> former_ DWELL_GUARDED_BY(mutex_){~0ULL, 0};  // all execs that have gone lay in here
  Flight in_flight_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
