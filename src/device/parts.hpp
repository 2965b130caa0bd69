// The parts of this loop. A program carries those that it uses: DWELL_PARTS is the set with which an image's loop is compiled. The default
// is all, as on a CPU.
#pragma once

#include "device/arena.hpp"
#include "device/part.hpp"

namespace dwell::device {

#if !defined(DWELL_PARTS)
#define DWELL_PARTS ~0U
#endif

DWELL_HOST_DEVICE bool has(u32 parts) { return ((DWELL_PARTS)&parts) == parts; }

// Returns whether tasks may have shares: of several workers, or nodes queued as shares.
DWELL_HOST_DEVICE bool has_shares() {
  return has(part::wide) || has(part::graphs) || has(part::gangs) || has(part::spawn) || has(part::cancels);
}

// What a lease requests, among the parts of this loop.
DWELL_DEVICE bool sorts(const Lease& lease) { return has(part::levels) && lease.levels != 0; }
DWELL_DEVICE bool counts(const Lease& lease) { return has(part::counts) && lease.counts != 0; }
DWELL_DEVICE u32 timed_by(const Lease& lease) { return has(part::times) ? lease.timed : 0; }

}  // namespace dwell::device
