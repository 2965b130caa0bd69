// Statuses of tasks.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

// The status a completion entry carries. Positive values are an operator's own (Group::fail); negative ones are dwell's.
namespace status {
DWELL_CONSTANT i32 ok = 0;
DWELL_CONSTANT i32 cancelled = -1;        // a predecessor failed, or the task was cancelled, or the runtime closed, before it ran
DWELL_CONSTANT i32 lost = -2;             // the device failed
DWELL_CONSTANT i32 timed_out = -3;        // a task overstayed Options::task_timeout
DWELL_CONSTANT i32 out_of_scratch = -4;   // Group::shared asked for more than Options::scratch_bytes
DWELL_CONSTANT i32 overlap = -5;          // a group would have overwritten unread input (Group::transform)
DWELL_CONSTANT i32 out_of_tasks = -6;     // an operator made a task without room for it
DWELL_CONSTANT i32 spawn_refused = -7;    // made by one of several groups; a second Group::then; Group::spawn_after of a stranger
DWELL_CONSTANT i32 no_gang = -8;          // Group::gang in a task of several groups that is no gang
DWELL_CONSTANT i32 too_large = -9;        // a gang has more groups than the lease has workers
DWELL_CONSTANT i32 threw = -10;           // the callback of a host node has thrown
DWELL_CONSTANT i32 join_refused = -11;    // Group::arrive at a join that expects none, or by a task that does not descend from its maker
DWELL_CONSTANT i32 join_starved = -12;    // a join still waited when no arrival could follow
DWELL_CONSTANT i32 no_barrier = -13;      // Gang::sync was given a name beyond 7, or more groups than the gang has
DWELL_CONSTANT i32 launch_refused = -14;  // Group::launch of no exec, or by a task that descends from a launch of the same exec
DWELL_CONSTANT i32 index_out_of_range = -15;  // an index named an element that a tensor does not have (Batch::gather and the like)
DWELL_CONSTANT i32 exception = -16;           // a C++ exception left the operator, on the CPU
DWELL_CONSTANT i32 interrupted = -17;         // the runtime was closed in the middle of it
DWELL_CONSTANT i32 out_of_bounds = -18;       // an element beyond a span, in an operator compiled with CompileOptions::debug
DWELL_CONSTANT i32 ring_full = -19;           // Ring::push without room, or of a message that is too large
DWELL_CONSTANT i32 ring_closed = -20;         // Ring::push after the ring was closed
DWELL_CONSTANT i32 ring_refused = -21;        // Ring::push by a task into a ring whose producers are on the host
DWELL_CONSTANT i32 out_of_memory = -22;       // the heap has no room for an allocation (Group::make, Group::allocate)
DWELL_CONSTANT i32 bad_free = -23;            // Group::free of what is not allocated
DWELL_CONSTANT i32 bad_write = -24;           // HeapChecks::full: memory of the heap was written behind its end, or after it was freed
}  // namespace status

}  // namespace dwell
