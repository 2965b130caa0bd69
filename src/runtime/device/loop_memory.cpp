#include "runtime/device/loop_memory.hpp"

#include <bit>
#include <cstddef>
#include <span>

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
      failed_inside_(backend.allocate_host(sizeof(device::Quad) << shift_)),
      workers_(workers),
      overruns_(backend.allocate_host(sizeof(device::Overruns) * workers)) {}

void LoopMemory::describe(device::Lease& lease) const {
  lease.ring = reinterpret_cast<const device::Slot*>(ring_.device);
  lease.completions = reinterpret_cast<device::Completion*>(completions_->device());
  lease.report = reinterpret_cast<device::LeaseReport*>(report_->device());
  lease.in_flight = reinterpret_cast<device::InFlight*>(in_flight_->device());
  lease.failed_nodes = reinterpret_cast<u64*>(failed_nodes_->device());
  lease.failed_inside = reinterpret_cast<device::Quad*>(failed_inside_->device());
  lease.overruns = reinterpret_cast<device::Overruns*>(overruns_->device());
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

namespace {

// Reads an overrun unless it is missing or being written. A complete task's is stable until a later one overwrites it.
std::optional<device::Overrun> read(const std::uint32_t (&from)[device::kOverrunWords]) {
  // Pairs with the stores of write_overrun, in reverse order.
  std::uint32_t words[device::kOverrunWords];
  for (std::size_t i = device::kOverrunWords; i-- > 0;) words[i] = device::load<device::Order::acquire, device::Scope::system>(&from[i]);
  const auto overrun = std::bit_cast<device::Overrun>(words);
  const bool stays = device::load<device::Order::acquire, device::Scope::system>(&from[device::kOverrunWords - 1]) == overrun.line;
  return stays && overrun.line != 0 ? std::optional(overrun) : std::nullopt;
}

}  // namespace

std::string LoopMemory::overrun(std::uint64_t of) const {
  const bool node = (of & device::InFlight::kNode) != 0;
  device::Overrun found{};
  for (const device::Overruns& worker : std::span(static_cast<const device::Overruns*>(overruns_->host()), workers_)) {
    for (const auto& words : worker.last) {
      const std::optional<device::Overrun> overrun = read(words);
      if (!overrun) continue;
      const device::Header header = device::Header::from(overrun->task[0], overrun->task[1]);
      const bool asked = overrun->task[2] == static_cast<std::uint32_t>(of) && header.is_node() == node && !header.is_spawned();
      if (asked && overrun->when > found.when) found = *overrun;
    }
  }
  if (found.line == 0) return {};
  const std::string elements = found.count == 1 ? "element " + std::to_string(static_cast<std::int64_t>(found.first))
                                                : std::to_string(found.count) + " elements from " + std::to_string(found.first) + " on";
  return elements + " of a span of " + std::to_string(found.size) + ", at " + found.file + ":" + std::to_string(found.line);
}

}  // namespace dwell::runtime
