// Takes a reading of a device's clock by a kernel that reads the host's.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "runtime/observe/device_clock.hpp"

namespace dwell::detail {
struct ModuleState;
}

namespace dwell::runtime {

class Core;

// The host writes its clock into memory that both reach, all the time, while the kernel reads that word again and again between two looks
// at its own clock. Of all reads the closest one counts: the word was read somewhere between the two looks, and written somewhere between
// it and the next. No longer way than one read of host memory enters, so the error is half of that.
//
// Kernel and memory are kept: to load and to unload a program makes leases roll, and stops the device.
class ClockProbe {
 public:
  explicit ClockProbe(Core& core) : core_(core) {}

  // One caller at a time. Compiles the kernel at the first call, which may take a second. Throws errc::device_lost, errc::compile_failed
  // and their like.
  ClockReading read();

 private:
  Core& core_;
  std::shared_ptr<detail::ModuleState> module_;
  std::unique_ptr<backend::Allocation> memory_;
};

}  // namespace dwell::runtime
