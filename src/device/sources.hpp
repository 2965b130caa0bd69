// The table of sources. Whoever must know what is done for tasks of some source asks here; nobody else tells one source from another.
#pragma once

#include "device/graph.hpp"
#include "device/held.hpp"
#include "device/members.hpp"
#include "device/repeated.hpp"
#include "device/spawn.hpp"
#include "device/tokens.hpp"

namespace dwell::device {

// Tasks of the host without a file of their own: gates only wait, and slots to pass over end where they are fetched.
struct RingTasks : SourceVerbs {
  static constexpr u32 kSources = 1U << source::ring | 1U << source::gate | 1U << source::pass;
};

namespace sources {

template <class... S>
struct Table {
  // Calls f(S{}) for the source with this number, if this loop has its part.
  template <class F>
  static DWELL_DEVICE void with(u32 source, F f) {
    static_cast<void>(((has(S::kPart) && (S::kSources >> source & 1U) != 0 && (f(S{}), true)) || ...));
  }
  static constexpr u32 kAll = (S::kSources | ...);
  static constexpr u32 kSum = (S::kSources + ...);
};
using All = Table<RingTasks, SpawnedTasks, GraphTasks, GangTasks, RepeatedTasks, Tokens>;
static_assert(All::kAll == All::kSum, "a number belongs to one source");

DWELL_DEVICE bool calls(const Header& header) {
  bool calls = true;
  All::with(header.source, [&](auto its) { calls = its.calls(header); });
  return calls;
}
DWELL_DEVICE void take_up(const Lease& lease, Worker* worker, const Header& header, u32 word2) {
  All::with(header.source, [&](auto its) { its.take_up(lease, worker, header, word2); });
}
DWELL_DEVICE bool goes_on(const Header& header) {
  bool goes = false;
  All::with(header.source, [&](auto its) { goes = its.goes_on(header); });
  return goes;
}
DWELL_DEVICE Follows proceed(u32 source, const Behind& at) {
  Follows follows = kNothing;
  All::with(source, [&](auto its) { follows = its.proceed(at); });
  return follows;
}
DWELL_DEVICE bool may_cancel(const Header& header) {
  bool may = false;
  All::with(header.source, [&](auto its) { may = its.may_cancel(header); });
  return may;
}
DWELL_DEVICE void cancel(const Frame& frame) {
  All::with(frame.header().source, [&](auto its) { its.cancel(frame); });
}
DWELL_DEVICE Slot* record(const Header& header, u32 word2) {
  Slot* record = nullptr;
  All::with(header.source, [&](auto its) { record = its.record(header, word2); });
  return record;
}

// Loads the slots behind the first of a task in a queue. Called by all lanes.
DWELL_DEVICE void load_rest(const Lease& lease, TaskQuads* task, const Header& header, u32 word2) {
  if (const Slot* const at = record(header, word2); at != nullptr)
    graph::load_record(at, task, 1, header.slots);
  else
    load_held(lease, task, word2, 1, header.slots);
}

// The counters of those who share the groups of a task.
DWELL_DEVICE Wide* counters(const Lease& lease, const Header& header, u32 word2) {
  Slot* const at = record(header, word2);
  return at != nullptr ? &graph::shares(at, header.slots)->groups : lease.wide + index_of(word2, lease.ring_shift);
}

}  // namespace sources

}  // namespace dwell::device
