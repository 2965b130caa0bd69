// The parts of the loop: what it does beside running tasks of the ring that need nothing but to be run. A program carries those that it
// uses: DWELL_PARTS is the set of them that an image's loop is compiled with, all where nothing is said, as on a CPU.
#pragma once

#include "device/arena.hpp"

namespace dwell::device {

// Bits of DWELL_PARTS.
namespace part {
inline constexpr u32 wide = 1U << 0U;      // tasks of several groups
inline constexpr u32 links = 1U << 1U;     // tasks that wait for others, and drains of them; runs of linked tasks
inline constexpr u32 gates = 1U << 2U;     // gates that the host opens
inline constexpr u32 levels = 1U << 3U;    // tasks that wait by priority
inline constexpr u32 gangs = 1U << 4U;     // groups that run at once
inline constexpr u32 graphs = 1U << 5U;    // launches, nodes and chains
inline constexpr u32 host_nodes = 1U << 6U;
inline constexpr u32 spawn = 1U << 7U;     // tasks that operators make
inline constexpr u32 cancels = 1U << 8U;
inline constexpr u32 counts = 1U << 9U;    // calls, counted
inline constexpr u32 times = 1U << 10U;    // calls, timed; the timeline
inline constexpr u32 flight = 1U << 11U;   // the flight recorder
}  // namespace part

#if !defined(DWELL_PARTS)
#define DWELL_PARTS ~0U
#endif

DWELL_HOST_DEVICE bool has(u32 parts) { return (DWELL_PARTS & parts) == parts; }

// Whether several workers may share a task, or nodes of graphs come as such.
DWELL_HOST_DEVICE bool has_shares() {
  return has(part::wide) || has(part::graphs) || has(part::gangs) || has(part::spawn) || has(part::cancels);
}

// What a lease asks for, of the parts that are there.
DWELL_DEVICE bool sorts(const Lease& lease) { return has(part::levels) && lease.levels != 0; }
DWELL_DEVICE bool counts(const Lease& lease) { return has(part::counts) && lease.counts != 0; }
DWELL_DEVICE u32 timed_by(const Lease& lease) { return has(part::times) ? lease.timed : 0; }

}  // namespace dwell::device
