// From the name of a device to its backend and compiler.
#pragma once

#include <memory>

#include <dwell/options.hpp>

#include "backend/backend.hpp"
#include "jit/compiler.hpp"

namespace dwell::runtime {

struct OpenedDevice {
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<jit::Compiler> compiler;
};

// Opens Options::device. Throws errc::device_unavailable, errc::compiler_unavailable, errc::invalid_argument.
OpenedDevice open_device(const Options& options);

}  // namespace dwell::runtime
