// Tasks that operators make, as they lie in the arena.
//
// Each has a record, named by its number; so has a task of another source that has made some, its root. The record stays with the task's
// continuations, until the last of them and all their children are complete.
#pragma once

#include "device/ring.hpp"

namespace dwell::device {

struct alignas(128) Spawned {
  Slot task;    // what is to run next: the task itself, later its continuation. As in the ring; word 2 is the record's number
  u32 parent;   // number of the task whose child it is; 0: this is a root
  u32 pending;  // children that have not ended; while the operator runs, less those that it has made
  u32 status;   // first failure, of the task or of those that descend from it
  u32 shared;   // 1: workers other than one may change `pending` and `status`; so they may those of all its ancestors
  u32 next;     // number of the record below, in a list of free ones or of the overflow
  u32 follows;  // 1: `task` is a continuation
  u32 root[3];  // of a root: the first words of its task
};
static_assert(sizeof(Spawned) == 128);

// All records that no worker has at hand. Lists are named by their first record: number (32) | count of changes (32).
struct alignas(128) SpawnedLists {
  u64 free;
  u32 fresh;  // records from this number on were never used
  u32 reserved0[29];
  u64 overflow;  // tasks that may run, which a worker had no room for
  u32 reserved1[30];
};
static_assert(sizeof(SpawnedLists) == 256);

// Records for so many workers: what the recursions of all need, and some thousands for those that spread out.
DWELL_HOST_DEVICE u32 most_spawned(u32 workers) { return 4096 + 128 * workers; }

}  // namespace dwell::device
