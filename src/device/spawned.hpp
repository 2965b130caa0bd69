// Spawned tasks: the layout in the arena of tasks that operators make.
//
// Each has a record, named by its number. So has its root: a task of another source that has made some. A record stays with the task's
// continuations until the last of them and all their children are complete.
#pragma once

#include "device/ring.hpp"

namespace dwell::device {

struct alignas(128) Spawned {
  Slot task;     // what runs next: the task itself, later its continuation. As in the ring; word 2 is the record's number
  u32 parent;    // number of the parent task; 0: this is a root; kNobody: the record is free
  u32 pending;   // children that have not ended, without joins that wait and, while the operator runs, without those that it has made
  u32 status;    // first failure, of the task or of those that descend from it
  u32 shared;    // 1: workers other than one may change the counts and the status of it, of its children, and of all its ancestors
  u32 next;      // of a bundle of tasks, or of free records: number of the next one, or 0
  u32 behind;    // the work left when all children have ended: the bits below
  u32 joins;     // kHasJoins: number of its newest join. Of the first of a bundle in a list: of the first of the bundle below
  u32 beside;    // kIsJoin: number of the join before, of the same parent, or 0
  u64 arrivals;  // rounds of waiting that are over (32) | arrivals to come before the task may start (32)
  u32 words[6];  // of a root: the first three of its task; of a child: numbers of its followers, which wait for it

  // In `behind`.
  static constexpr u32 kContinues = 1;  // `task` is a continuation
  static constexpr u32 kHasJoins = 2;
  static constexpr u32 kIsJoin = 4;    // its parent frees the record
  static constexpr u32 kFollower = 8;  // once for each follower
  static constexpr u32 kMostFollowers = 6;

  static constexpr u32 kNobody = ~0U;
};
static_assert(sizeof(Spawned) == 128);

// Records that no worker caches. The head of a list of bundles: first record of the topmost bundle (32) | count of changes (32).
struct alignas(128) SpawnedLists {
  u64 free;   // others lie at seats (Seat::records)
  u32 fresh;  // records from this number on were never used
  u32 reserved0[29];
  u64 overflow;  // tasks that may run, for which a worker had no room
  u32 reserved1[30];
};
static_assert(sizeof(SpawnedLists) == 256);

inline constexpr u32 kFreeRecords = 64;  // most that a worker caches; about as many may lie at its seat

// Returns the most tasks at once, for `tasks` requested. For 0: enough for recursions in which each worker makes a thousand at a level, and
// some thousands for wide ones.
DWELL_HOST_DEVICE u32 most_spawned(u32 workers, u32 tasks) {
  if (tasks == 0) return 4096 + 2048 * workers;
  return tasks > 64 * workers ? tasks : 64 * workers;
}
// Returns the records for these, number 0 included, and beyond those that workers cache.
DWELL_HOST_DEVICE u32 spawned_records(u32 workers, u32 tasks) { return most_spawned(workers, tasks) + 2 * kFreeRecords * workers + 1; }

}  // namespace dwell::device
