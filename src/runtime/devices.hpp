// Opens a device's backend and compiler by its name.
#pragma once

#include <memory>
#include <string_view>

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

// A component that this build lacks.
struct LeftOut {
  std::string_view why;     // "CUDA's headers were not found when it was built (...)"; empty when nothing was left out
  std::string_view remedy;  // "run script/bootstrap, ..."
};

// The CUDA backend. CMake generates the definition.
LeftOut cuda_left_out();

}  // namespace dwell::runtime
