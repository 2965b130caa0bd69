// A keeper on a bench: for its own tests and for those of its users.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "runtime/device/keeper.hpp"
#include "tests/unit/bench.hpp"

namespace dwell::test {

// Settings like runtime::Core's, with short times and no task timeout. `bench` outlives the keeper.
inline runtime::Keeper::Settings keeper_settings(const Bench& bench, std::uint32_t workers) {
  runtime::Keeper::Settings settings;
  settings.lease = bench.lease;
  settings.report = bench.lease.report;
  settings.in_flight = bench.lease.in_flight;
  settings.lease_time = std::chrono::milliseconds(2);
  settings.give_way = std::chrono::nanoseconds(0);
  settings.memory_needs_lease = true;
  settings.kernels_queue = false;
  settings.idle_time = std::chrono::milliseconds(1);
  settings.task_timeout = std::chrono::nanoseconds(0);
  settings.workers = workers;
  return settings;
}

// A keeper with one worker, whose failures name no tasks.
inline std::unique_ptr<runtime::Keeper> make_keeper(backend::Backend& backend, Bench& bench) {
  return std::make_unique<runtime::Keeper>(backend, bench.queue, keeper_settings(bench, 1),
                                           [](const auto& why, const auto&, bool) { return why; });
}

}  // namespace dwell::test
