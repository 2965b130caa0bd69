#include "runtime/device/loop_memory.hpp"

#include <cstddef>

namespace dwell::runtime {

LoopMemory::LoopMemory(backend::Backend& backend, const device::ArenaHeader& layout, std::uint64_t first_position, std::uint32_t workers,
                       Ring ring)
    : shift_(layout.ring_shift),
      arena_(backend, layout, first_position),
      own_ring_(ring.slots == nullptr ? backend.allocate_host(sizeof(device::Slot) << shift_) : nullptr),
      ring_(own_ring_ == nullptr ? ring : Ring{static_cast<device::Slot*>(own_ring_->host()), own_ring_->device()}),
      completions_(backend.allocate_host(sizeof(device::Completion) << shift_)),
      report_(backend.allocate_host(sizeof(device::LeaseReport))),
      in_flight_(backend.allocate_host(sizeof(device::InFlight) * workers)),
      failed_nodes_(backend.allocate_host(sizeof(std::uint64_t) << shift_)),
      failed_inside_(backend.allocate_host(sizeof(device::Quad) << shift_)) {}

void LoopMemory::describe(device::Lease& lease) const {
  lease.ring = reinterpret_cast<const device::Slot*>(ring_.device);
  lease.completions = reinterpret_cast<device::Completion*>(completions_->device());
  lease.report = reinterpret_cast<device::LeaseReport*>(report_->device());
  lease.in_flight = reinterpret_cast<device::InFlight*>(in_flight_->device());
  lease.failed_nodes = reinterpret_cast<u64*>(failed_nodes_->device());
  lease.failed_inside = reinterpret_cast<device::Quad*>(failed_inside_->device());
  arena_.at_rest([&](const backend::Allocation& memory) { device::point_into_arena(&lease, arena_.layout(), memory.device()); });
}

std::uint32_t LoopMemory::failed_node(std::uint64_t position) const {
  const auto* const words = static_cast<const std::uint64_t*>(failed_nodes_->host());
  return static_cast<std::uint32_t>(words[device::index_of(static_cast<std::uint32_t>(position), shift_)] >> 32U);
}

std::optional<device::Quad> LoopMemory::failed_inside(std::uint64_t position) const {
  const auto at = static_cast<std::uint32_t>(position);
  const auto* const quads = static_cast<const device::Quad*>(failed_inside_->host());
  const device::Quad found = device::load_quad<device::Scope::system>(quads + device::index_of(at, shift_));
  if (found.lap != device::lap_of(at, shift_)) return std::nullopt;
  return found;
}

}  // namespace dwell::runtime
