// Takes a reading of a device's clock by a kernel that reads the host's.
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

// The host writes its clock into memory that both reach, all the time, while the kernel reads that word again and again between two looks
// at its own clock. Of all reads the closest one counts: the word was read somewhere between the two looks, and written somewhere between
// it and the next. No longer way than one read of host memory enters, so the error is half of that.
//
// Kernel and memory are kept: to load and to unload a program makes leases roll, and stops the device.
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

  // One caller at a time. Compiles the kernel at the first call, which may take a second. Throws errc::device_lost, errc::compile_failed
  // and their like.
  ClockReading read();

 private:
  const Kernels kernels_;
  Module module_;
  std::unique_ptr<backend::Allocation> memory_;
};

}  // namespace dwell::runtime
