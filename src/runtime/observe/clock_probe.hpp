// Measures the offset of a device's clock with a kernel that reads the host's.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <dwell/kernel.hpp>
#include <dwell/operator.hpp>

#include "backend/backend.hpp"
#include "runtime/observe/device_clock.hpp"

namespace dwell::detail {
struct ModuleState;
}

namespace dwell::runtime {

// The host continuously writes its clock to a shared word, while the kernel repeatedly reads that word between two readings of its own
// clock. The tightest read counts: the word was read between the two readings, and written between it and the next. The error is half the
// latency of one read of host memory.
//
// Keeps kernel and memory: loading and unloading a program makes leases roll, and stops the device.
class ClockProbe {
 public:
  using Module = std::shared_ptr<detail::ModuleState>;
  struct Kernels {
    backend::Backend& backend;  // outlives the probe
    std::function<Module(const Source& source)> compile;
    // Launches the only kernel of a program, calls `meanwhile` until that returns false or the kernel has ended, and waits for it.
    std::function<void(const Module& module, std::span<const detail::LaunchArgument> arguments, const std::function<bool()>& meanwhile)>
        run;
  };
  explicit ClockProbe(Kernels kernels) : kernels_(std::move(kernels)) {}

  // Called by one thread at a time. The first call compiles the kernel, which may take a second. Throws errc::device_lost,
  // errc::compile_failed and the like.
  ClockReading read();

 private:
  const Kernels kernels_;
  Module module_;
  std::unique_ptr<backend::Allocation> memory_;
};

}  // namespace dwell::runtime
