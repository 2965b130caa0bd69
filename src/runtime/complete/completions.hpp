// Completions that the device does not report itself.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/complete/host_calls.hpp"
#include "runtime/complete/launch_gates.hpp"
#include "runtime/complete/notifier.hpp"

namespace dwell::runtime {

// Callbacks of tickets, gates that wait for kernels, and callbacks of graphs. The constructor's arguments outlive it.
struct Completions {
  // `bursts`: Options::bursts. `runtime`: as of Callback.
  Completions(SubmissionQueue& queue, Launches& launches, bool bursts, HostCalls::Done done, Notifier::Warn warn, std::uint64_t runtime)
      : notifier(std::move(warn), runtime), gates(queue, launches, notifier, bursts), host_calls(std::move(done), runtime) {}

  Notifier notifier;
  LaunchGates gates;
  HostCalls host_calls;
};

}  // namespace dwell::runtime
