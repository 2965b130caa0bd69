#include "runtime/tasks/tasks.hpp"

#include "device/arena.hpp"

namespace dwell::runtime {

Tasks::Tasks(const Parts& parts)
    : events_(parts.observation.events()),
      watch_(
          RuntimeWatch::Parts{parts.device.ring(), parts.device.queue(), parts.device.keeper(), parts.registry, parts.kernels.launches,
                              parts.completions.gates, parts.completions.host_calls, parts.graphs, parts.device.lease_time(), parts.warn},
          parts.options.stall_timeout),
      intake_(Intake::Parts{parts.runtime, parts.check_open, parts.devices, parts.device.queue(), parts.device.keeper(),
                            parts.completions.gates, parts.registry, parts.buffers.blocks(), parts.completions.host_calls, watch_,
                            parts.observation.counts(), parts.observation.events(), parts.backend.info().on_host,
                            parts.options.priorities.has_value()}),
      ends_(Ends::Parts{parts.device.queue(), parts.device.keeper(), parts.kernels.launches, parts.completions.host_calls,
                        parts.completions.notifier, watch_, parts.backend.info().on_host}),
      outcomes_(Outcomes::Parts{parts.device.queue(), parts.device.keeper(), parts.kernels.launches, parts.completions.host_calls,
                                parts.options.scratch_bytes, device::most_spawned(parts.device.workers(), parts.options.spawned_tasks),
                                [&heap = parts.heap] { return heap.room(); }}),
      begun_(BegunTasks::Parts{parts.backend, parts.device.arena(), parts.device.ring(), parts.graphs}) {
  if (parts.options.priorities)
    preemptor_ = std::make_unique<Preemptor>(
        parts.device.ring(), parts.device.queue(), parts.device.keeper(),
        [this](std::uint64_t position, auto deadline) { return wait(position, deadline); }, [this] { return watch_.circumstances(); });
}

}  // namespace dwell::runtime
