// The table of sources. It dispatches by source; other code does not distinguish sources.
#pragma once

#include "device/graph.hpp"
#include "device/held.hpp"
#include "device/in_flight.hpp"
#include "device/members.hpp"
#include "device/repeated.hpp"
#include "device/spawn.hpp"
#include "device/tokens.hpp"

namespace dwell::device {

// Tasks of the host without a file of their own. Gates only wait; slots to pass over end when they are fetched.
struct RingTasks : SourceVerbs {
  static constexpr u32 kSources = 1U << source::ring | 1U << source::gate | 1U << source::pass;
};

namespace sources {

template <class... S>
struct Table {
  static constexpr u32 kAll = (S::kSources | ...);
  static constexpr u32 kSum = (S::kSources + ...);

  static DWELL_DEVICE bool calls(const Header& header) {
    bool calls = true;
    static_cast<void>(((is<S>(header.source) && (calls = S::calls(header), true)) || ...));
    return calls;
  }
  static DWELL_DEVICE void take_up(const Lease& lease, Worker* worker, const Header& header, u32 word2) {
    static_cast<void>(((is<S>(header.source) && (S::take_up(lease, worker, header, word2), true)) || ...));
  }
  static constexpr u32 kAgain = ((has(S::kPart) ? S::kAgain : 0U) | ...);
  static DWELL_DEVICE bool pauses(const Lease& lease, const Header& header) {
    bool pauses = true;
    static_cast<void>((((S::kAgain >> header.source & 1U) != 0 && (pauses = S::pauses(lease, header), true)) || ...));
    return pauses;
  }
  static DWELL_DEVICE void begin_again(Worker* worker, Frame* frame) {
    static_cast<void>((((S::kAgain >> frame->header().source & 1U) != 0 && (S::begin_again(worker, frame), true)) || ...));
  }
  static DWELL_DEVICE bool goes_on(const Header& header) {
    bool goes = false;
    static_cast<void>(((is<S>(header.source) && (goes = S::goes_on(header), true)) || ...));
    return goes;
  }
  static DWELL_DEVICE Follows proceed(u32 source, const Behind& at) {
    Follows follows = kNothing;
    static_cast<void>(((is<S>(source) && (follows = S::proceed(at), true)) || ...));
    return follows;
  }
  static DWELL_DEVICE bool may_cancel(const Header& header) {
    bool may = false;
    static_cast<void>(((is<S>(header.source) && (may = S::may_cancel(header), true)) || ...));
    return may;
  }
  static DWELL_DEVICE void cancel(const Lease& lease, const Frame& frame) {
    static_cast<void>(((is<S>(frame.header().source) && (S::cancel(lease, frame), true)) || ...));
  }
  static DWELL_DEVICE Slot* record(const Lease& lease, const Header& header, u32 word2) {
    Slot* record = nullptr;
    static_cast<void>(((is<S>(header.source) && (record = S::record(lease, header, word2), true)) || ...));
    return record;
  }

 private:
  // Returns whether `source` is a number of One, and the loop has One's part.
  template <class One>
  static DWELL_DEVICE bool is(u32 source) {
    return has(One::kPart) && (One::kSources >> source & 1U) != 0;
  }
};
using All = Table<RingTasks, SpawnedTasks, GraphTasks, GangTasks, RepeatedTasks, Tokens>;
static_assert(All::kAll == All::kSum, "a number belongs to one source");

DWELL_DEVICE bool calls(const Header& header) { return All::calls(header); }
DWELL_DEVICE void take_up(const Lease& lease, Worker* worker, const Header& header, u32 word2) {
  All::take_up(lease, worker, header, word2);
}
// A bit of word 1 that only tasks of sources in kAgain have, among tasks with an operator; 0 where there are none.
inline constexpr u32 kAgainMark = All::kAgain != 0 ? 4U << Header::kSourceShift : 0U;
static_assert((All::kAgain & 0xF0FU) == 0, "these sources have the bit");
// Returns whether a task with this word 1 is of a source in kAgain.
DWELL_DEVICE bool calls_again(u32 word1) { return All::kAgain != 0 && (All::kAgain >> source_in(word1) & 1U) != 0; }
DWELL_DEVICE bool pauses(const Lease& lease, const Header& header) { return All::pauses(lease, header); }
DWELL_DEVICE void begin_again(Worker* worker, Frame* frame) { All::begin_again(worker, frame); }
DWELL_DEVICE bool goes_on(const Header& header) { return All::goes_on(header); }
DWELL_DEVICE Follows proceed(u32 source, const Behind& at) { return All::proceed(source, at); }
DWELL_DEVICE bool may_cancel(const Header& header) { return All::may_cancel(header); }
DWELL_DEVICE void cancel(const Lease& lease, const Frame& frame) { All::cancel(lease, frame); }
DWELL_DEVICE Slot* record(const Lease& lease, const Header& header, u32 word2) { return All::record(lease, header, word2); }

// Loads the slots behind the first of a task in a queue. Called by all lanes.
DWELL_DEVICE void load_rest(const Lease& lease, TaskQuads* task, const Header& header, u32 word2) {
  if (const Slot* const at = record(lease, header, word2); at != nullptr)
    graph::load_record(at, task, 1, header.slots);
  else
    load_held(lease, task, word2, 1, header.slots);
}

// Returns the counters for the shared groups of a task.
DWELL_DEVICE Wide* counters(const Lease& lease, const Header& header, u32 word2) {
  Slot* const at = record(lease, header, word2);
  return at != nullptr ? &graph::shares(at, header.slots)->groups : lease.wide + index_of(word2, lease.ring_shift);
}

}  // namespace sources

// Exchanges a token for a task of the levels, and puts that into `frame`. Called by the lanes of warp 0.
DWELL_DEVICE_COLD Follows exchange_for_task(const Lease& lease, Worker* worker, Frame* frame) {
  TaskQuads task{};
  levels::take(lease, &task);
  const u32 word0 = broadcast(task.quad[0].word[0]);
  const u32 word1 = broadcast(task.quad[0].word[1]);
  const u32 word2 = broadcast(task.quad[0].word[2]);
  const Header header = Header::from(word0, word1);
  if (header.slots > 1) sources::load_rest(lease, &task, header, word2);
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= header.slots * 4) break;
    for (u32 j = 0; j < 3; ++j) frame->word[index * 3 + j] = task.quad[i].word[j];
  }
  if (lane() == 0) {
    // Acquire: the task sees what was written before it was submitted or made ready. Pairs with complete() and the host's release.
    if ((header.flags & flag::system) != 0)
      fence<Scope::system>();
    else
      fence<Scope::device>();
    in_flight::note(worker, word0, word1, word2);
    sources::take_up(lease, worker, header, word2);
    worker->level = header.level;
    reset(&worker->context);
    worker->context.yield = 0;
  }
  sync_lanes();
  return kFrame;
}
DWELL_DEVICE Follows Tokens::proceed(const Behind& at) { return exchange_for_task(at.lease, at.worker, at.to); }

}  // namespace dwell::device
