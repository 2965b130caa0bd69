#include "runtime/option_check.hpp"

#include <bit>
#include <chrono>
#include <string>
#include <utility>

#include <dwell/detail/task.hpp>
#include <dwell/error.hpp>

#include "device/arena.hpp"
#include "device/ring.hpp"

namespace dwell::runtime {

void check_options(const Options& options, std::uint64_t first_position) {
  if (!std::has_single_bit(options.ring_slots) || options.ring_slots < (1U << device::kMinRingShift) || options.ring_slots > (1U << 24U))
    throw Error(errc::invalid_argument,
                "the option ring_slots is " + std::to_string(options.ring_slots) + ": it must be a power of two from 128 to 16777216",
                {"option", "Options::ring_slots", options.ring_slots, 1U << 24U});
  if (options.workers > device::kMaxWorkers)
    throw Error(errc::invalid_argument, "the option workers is " + std::to_string(options.workers) + ": at most 8192 are possible",
                {"option", "Options::workers", options.workers, device::kMaxWorkers});
  if (first_position % device::kWindow != 0 || first_position > detail::kPosition)
    throw Error(errc::invalid_argument,
                "the first position is " + std::to_string(first_position) + ": it must be a multiple of 64 below 2^56");
  const std::pair<const char*, std::chrono::nanoseconds> times[] = {
      {"lease", options.lease}, {"idle", options.idle}, {"task_timeout", options.task_timeout}, {"stall_timeout", options.stall_timeout}};
  for (const auto& [name, time] : times)
    if (time.count() < 0)
      throw Error(errc::invalid_argument, std::string("the option ") + name + " is negative: give a time, or 0",
                  {"option", std::string("Options::") + name});
  if (!std::has_single_bit(options.log.ring_lines) || options.log.ring_lines < 16 || options.log.ring_lines > 65536)
    throw Error(errc::invalid_argument,
                "the option log.ring_lines is " + std::to_string(options.log.ring_lines) + ": it must be a power of two from 16 to 65536",
                {"option", "Options::log.ring_lines", options.log.ring_lines, 65536});
  if (options.spawned_tasks > (1U << 26U))
    throw Error(errc::invalid_argument,
                "the option spawned_tasks is " + std::to_string(options.spawned_tasks) + ": at most 67108864 are possible",
                {"option", "Options::spawned_tasks", options.spawned_tasks, 1U << 26U});
  if (options.scratch_bytes > (1U << 24U))
    throw Error(errc::invalid_argument,
                "the option scratch_bytes is " + std::to_string(options.scratch_bytes) + ": at most 16 MiB are possible",
                {"option", "Options::scratch_bytes", options.scratch_bytes, 1U << 24U});
}

void check_options(const Options& options, const backend::DeviceInfo& device, std::uint32_t workers) {
  if (options.limits.min_workers > workers)
    throw Error(errc::invalid_argument,
                "the option limits.min_workers is " + std::to_string(options.limits.min_workers) + ": at most " + std::to_string(workers) +
                    " workers are possible (the option workers)",
                {"option", "Options::limits.min_workers", options.limits.min_workers, workers});
  // The CPU calls functions of shared objects: there is nothing to inline them into.
  if (device.on_host && options.tier == Tier::lto)
    throw Error(errc::unsupported, "the option tier is lto: the CPU has relocatable only, as its operators are shared objects");
}

}  // namespace dwell::runtime
