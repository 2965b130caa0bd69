// A program of today that runs, on the CPU, a source that it has just got.
#pragma once

#include <string>

#include "jit/base/temporary_directory.hpp"

namespace dwell::bench {

// Compiles to a shared object with the C++ compiler on PATH, opens it, and calls it.
class HostPeer {
 public:
  // Throws std::runtime_error when one of the steps fails or the function returns something else.
  void compile_and_run(unsigned value) const;

 private:
  jit::TemporaryDirectory folder_;
};

}  // namespace dwell::bench
