// Tasks that operators make, as they lie in the arena.
//
// Each has a record, named by its number; so has a task of another source that has made some, its root. The record stays with the task's
// continuations, until the last of them and all their children are complete.
#pragma once

#include "device/ring.hpp"

namespace dwell::device {

struct alignas(128) Spawned {
  Slot task;     // what is to run next: the task itself, later its continuation. As in the ring; word 2 is the record's number
  u32 parent;    // number of the task whose child it is; 0: this is a root; kNobody: the record is free
  u32 pending;   // children that have not ended, less joins that wait; while the operator runs, less those that it has made
  u32 status;    // first failure, of the task or of those that descend from it
  u32 shared;    // 1: workers other than one may change the counts and the status of it, of its children, and of all its ancestors
  u32 next;      // of a bundle of tasks, or of free records: number of the next one, or 0
  u32 behind;    // what there is to do when all children have ended: the following
  u32 joins;     // kHasJoins: number of its newest join. Of the first of a bundle in a list: of the first of the bundle below
  u32 beside;    // kIsJoin: number of the join before, of the same parent, or 0
  u64 arrivals;  // rounds of waiting that are over (32) | arrivals to come before the task may start (32)
  u32 words[6];  // of a root: the first three of its task; of a child: numbers of its followers, which wait for it

  // In `behind`.
  static constexpr u32 kContinues = 1;  // `task` is a continuation
  static constexpr u32 kHasJoins = 2;
  static constexpr u32 kIsJoin = 4;    // its parent gives the record back
  static constexpr u32 kFollower = 8;  // as often as there are followers
  static constexpr u32 kMostFollowers = 6;

  static constexpr u32 kNobody = ~0U;
};
static_assert(sizeof(Spawned) == 128);

// Records that no worker has at hand. Lists of bundles are named by the first record of the topmost: number (32) | count of changes (32).
struct alignas(128) SpawnedLists {
  u64 free;   // others lie at seats (Seat::records)
  u32 fresh;  // records from this number on were never used
  u32 reserved0[29];
  u64 overflow;  // tasks that may run, which a worker had no room for
  u32 reserved1[30];
};
static_assert(sizeof(SpawnedLists) == 256);

inline constexpr u32 kFreeRecords = 64;  // that a worker has at hand at most, and about as many may lie at its seat

// Tasks that there may be at once, for so many asked for. For 0: recursions in which each worker makes a thousand at a level, and some
// thousands for those that spread out.
DWELL_HOST_DEVICE u32 most_spawned(u32 workers, u32 tasks) {
  if (tasks == 0) return 4096 + 2048 * workers;
  return tasks > 64 * workers ? tasks : 64 * workers;
}
// Records for these, number 0 included, and beyond those that others have at hand.
DWELL_HOST_DEVICE u32 spawned_records(u32 workers, u32 tasks) { return most_spawned(workers, tasks) + 2 * kFreeRecords * workers + 1; }

}  // namespace dwell::device
