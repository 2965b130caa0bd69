#include "runtime/device/device.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

namespace dwell::runtime {

namespace {

device::ArenaHeader layout_for(const Device::Parts& parts) {
  const Options& options = parts.options;
  const bool levels = options.priorities.has_value();
  return device::layout_arena(static_cast<std::uint32_t>(std::countr_zero(options.ring_slots)), parts.workers, options.spawned_tasks,
                              levels, parts.backend.info().on_host && !levels);
}

// Returns `asked`, or the device's default. Times beyond the range of a backend's clock mean for ever.
std::chrono::nanoseconds time_for(std::chrono::nanoseconds asked, std::uint64_t by_itself_ns) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::minutes(30);
  return std::min(asked.count() != 0 ? asked : std::chrono::nanoseconds(by_itself_ns), kLongest);
}

Keeper::Settings settings_for(const Device::Parts& parts, const LoopMemory& memory, std::chrono::nanoseconds lease_time) {
  const Options& options = parts.options;
  const backend::DeviceInfo info = parts.backend.info();
  Keeper::Settings settings;
  settings.lease = device::Lease{};
  memory.describe(settings.lease);
  settings.lease.flight = reinterpret_cast<device::Quad*>(parts.flight);
  if (options.priorities) {
    const auto& order = options.priorities->order;
    for (std::size_t i = 0; i < order.size(); ++i) settings.lease.levels |= order[i] == QueueOrder::lifo ? 1U << i : 0;
  }
  settings.lease.scratch_bytes = options.scratch_bytes;
  settings.report = memory.report();
  settings.in_flight = memory.in_flight();
  settings.lease_time = lease_time;
  settings.idle_time = time_for(options.idle, info.default_idle_ns);
  settings.give_way = std::chrono::nanoseconds(info.give_way_ns);
  settings.memory_needs_lease = info.memory_needs_lease;
  settings.kernels_queue = info.kernels_queue;
  settings.task_timeout = options.task_timeout;
  settings.workers = parts.workers;
  settings.bursts = options.bursts;
  settings.woken = parts.woken;
  settings.settle = parts.settle;
  return settings;
}

}  // namespace

Device::Device(Parts parts)
    : workers_(parts.workers),
      lease_time_(time_for(parts.options.lease, parts.backend.info().default_lease_ns)),
      memory_(parts.backend, layout_for(parts), parts.first_position, parts.workers, parts.ring),
      queue_(memory_.ring(), memory_.completions(), *memory_.report(), memory_.ring_shift(), parts.first_position, parts.name_of),
      keeper_(std::make_unique<Keeper>(parts.backend, queue_, settings_for(parts, memory_, lease_time_), std::move(parts.describe))),
      samples_(parts.backend, memory_.ring_shift(), std::move(parts.clock_now)) {
  queue_.sample_into(samples_);
}

std::uint64_t Device::position_of(std::uint32_t low) const {
  const std::uint64_t tail = queue_.tail();
  return tail - (static_cast<std::uint32_t>(tail) - low);
}

void Device::move_arena() {
  const ParkGuard parked = keeper_->park_loop();
  arena().move([this](const backend::Allocation& memory) {
    keeper_->change_leases([&](device::Lease& lease) { device::move_lease(&lease, memory.bytes(), memory.device()); });
  });
}

}  // namespace dwell::runtime
