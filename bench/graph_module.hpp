// The interface of a module that runs task graphs on the CPU: plain C, so that it may bring a C++ library of its own.
#pragma once

#include <cstddef>

#include "bench/dag.hpp"

namespace dwell::bench {

struct GraphModule {
  using Task = void (*)(void* context, std::size_t node);

  const char* name;
  // Threads for graphs, of which one is for the caller.
  void* (*open)(int threads);
  void (*close)(void* threads);
  // A graph whose nodes each call task(context, node). `dag` and `context` must live as long.
  void* (*make)(void* threads, const DagView* dag, Task task, void* context);
  void (*drop)(void* graph);
  // Runs every node once and returns when all are done.
  void (*run)(void* graph);
};

}  // namespace dwell::bench
