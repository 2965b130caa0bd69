// How a task ended.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

// The status a completion entry carries. Positive values are an operator's own (Group::fail); negative ones are dwell's.
namespace status {
DWELL_CONSTANT i32 ok = 0;
DWELL_CONSTANT i32 cancelled = -1;       // a task that it was to start after failed, or the runtime was closed before it ran
DWELL_CONSTANT i32 lost = -2;            // the device failed
DWELL_CONSTANT i32 timed_out = -3;       // a task overstayed Options::task_timeout
DWELL_CONSTANT i32 out_of_scratch = -4;  // Group::shared asked for more than Options::scratch_bytes
DWELL_CONSTANT i32 overlap = -5;         // a group was to write what it had yet to read (Group::transform)
DWELL_CONSTANT i32 out_of_tasks = -6;    // Group::spawn or Group::then found no room for another task
DWELL_CONSTANT i32 spawn_refused = -7;   // Group::spawn or Group::then in a task of several groups, or a second Group::then
DWELL_CONSTANT i32 no_gang = -8;         // Group::gang in a task of several groups that is none
DWELL_CONSTANT i32 too_large = -9;       // a gang has more groups than the lease has workers
}  // namespace status

}  // namespace dwell
