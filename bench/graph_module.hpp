// The interface of a module that runs task graphs on the CPU. Plain C, so that the module may use its own C++ library.
#pragma once

#include <cstddef>

#include "bench/dag.hpp"

namespace dwell::bench {

struct GraphModule {
  using Task = void (*)(void* context, std::size_t node);

  const char* name;
  // Opens threads for graphs; one of them is for the caller.
  void* (*open)(int threads);
  void (*close)(void* threads);
  // Makes a graph whose nodes call task(context, node). `dag` and `context` must outlive it.
  void* (*make)(void* threads, const DagView* dag, Task task, void* context);
  void (*drop)(void* graph);
  // Runs every node once and returns when all are done.
  void (*run)(void* graph);
};

}  // namespace dwell::bench
