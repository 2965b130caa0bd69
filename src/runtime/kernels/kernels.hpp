// Ordinary kernels of a runtime.
#pragma once

#include "runtime/kernels/launches.hpp"
#include "runtime/kernels/modules.hpp"

namespace dwell::runtime {

// Programs of kernels, and their launches in flight. The arguments of the constructor outlive it.
struct Kernels {
  Kernels(jit::Compiler& compiler, backend::Backend& backend, Keeper& keeper, detail::Shell* shell)
      : launches(backend), modules(compiler, backend, keeper, launches, shell) {}

  Launches launches;
  Modules modules;
};

}  // namespace dwell::runtime
