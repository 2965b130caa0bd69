// The optional parts of the loop, as bits. Without them it only runs simple tasks of the ring.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell::device {

// Bits of DWELL_PARTS.
namespace part {
inline constexpr u32 wide = 1U << 0U;    // tasks of several groups
inline constexpr u32 links = 1U << 1U;   // tasks that wait for others, and drains of them; runs of linked tasks
inline constexpr u32 gates = 1U << 2U;   // gates that the host opens
inline constexpr u32 levels = 1U << 3U;  // tasks that wait by priority
inline constexpr u32 gangs = 1U << 4U;   // groups that run at once
inline constexpr u32 graphs = 1U << 5U;  // launches, nodes and chains
inline constexpr u32 host_nodes = 1U << 6U;
inline constexpr u32 spawn = 1U << 7U;  // tasks that operators make
inline constexpr u32 cancels = 1U << 8U;
inline constexpr u32 counts = 1U << 9U;    // calls, counted
inline constexpr u32 times = 1U << 10U;    // calls, timed; the timeline
inline constexpr u32 flight = 1U << 11U;   // the flight recorder
inline constexpr u32 repeats = 1U << 12U;  // tasks that run several times

inline constexpr u32 all = ~0U;
// Parts of every image: most programs need them, and they cost few bytes. Cancels too: the tasks in the way of a first cancel would also
// delay a new image.
inline constexpr u32 base = wide | counts | flight | cancels;
}  // namespace part

}  // namespace dwell::device
