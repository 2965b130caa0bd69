// Memory that the loop and the host share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.hpp"
#include "device/arena.hpp"
#include "device/ring.hpp"
#include "runtime/device/arena.hpp"

namespace dwell::runtime {

// The arena, the ring with its completion entries, and the loop's reports to the host. Members may be called from any thread.
class LoopMemory {
 public:
  // The caller's cleared memory for the ring, which outlives this object; null: none.
  struct Ring {
    device::Slot* slots = nullptr;
    std::uint64_t device = 0;  // address on the device
  };
  // Throws errc::out_of_memory.
  LoopMemory(backend::Backend& backend, const device::ArenaHeader& layout, std::uint64_t first_position, std::uint32_t workers, Ring ring);
  LoopMemory(const LoopMemory&) = delete;
  LoopMemory& operator=(const LoopMemory&) = delete;

  // Points a lease at all of it; leaves its other members unchanged.
  void describe(device::Lease& lease) const;

  Arena& arena() { return arena_; }
  std::uint32_t ring_shift() const { return shift_; }
  device::Slot* ring() const { return ring_.slots; }
  device::Completion* completions() const { return static_cast<device::Completion*>(completions_->host()); }
  device::LeaseReport* report() const { return static_cast<device::LeaseReport*>(report_->host()); }
  device::InFlight* in_flight() const { return static_cast<device::InFlight*>(in_flight_->host()); }
  // Returns the cell of the first failed node of a failed launch.
  std::uint32_t failed_node(std::uint64_t position) const;
  // Returns the first failure inside an exec that the task at this position launched: its status, the exec's number, the node's cell.
  // Nothing if no node failed.
  std::optional<device::Quad> failed_inside(std::uint64_t position) const;
  // Describes a checked operator's access out of bounds: "element 17 of a span of 16, at bad.op:4". `of`: the low bits of a ring task's
  // position, or the cell of a node's record and device::InFlight::kNode. Empty once later tasks have overwritten it.
  std::string overrun(std::uint64_t of) const;

 private:
  const std::uint32_t shift_;
  Arena arena_;
  std::unique_ptr<backend::Allocation> own_ring_;  // null when the caller provides one
  Ring ring_;
  std::unique_ptr<backend::Allocation> completions_;
  std::unique_ptr<backend::Allocation> report_;
  std::unique_ptr<backend::Allocation> in_flight_;
  std::unique_ptr<backend::Allocation> failed_nodes_;
  std::unique_ptr<backend::Allocation> failed_inside_;
  const std::uint32_t workers_;
  std::unique_ptr<backend::Allocation> overruns_;
};

}  // namespace dwell::runtime
