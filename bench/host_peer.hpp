// A peer on the CPU that compiles and runs a source.
#pragma once

#include <string>

#include "jit/base/temporary_directory.hpp"

namespace dwell::bench {

// Compiles to a shared object with the C++ compiler on PATH, opens it, and calls it.
class HostPeer {
 public:
  // Throws std::runtime_error if a step fails or the function returns another value.
  void compile_and_run(unsigned value) const;

 private:
  jit::TemporaryDirectory folder_;
};

}  // namespace dwell::bench
