// The interface of the module with oneTBB. Plain C, so that the module may use its own C++ library.
#pragma once

#include <cstddef>

#include "bench/graph_module.hpp"
#include "bench/tree.hpp"

namespace dwell::bench {

struct TbbModule {
  using Task = void (*)(void* context, std::size_t index);

  const char* version;
  // Opens an arena of `threads`; one of them is for the caller.
  void* (*open)(int threads);
  void (*close)(void* arena);
  // A task_group's run and wait. The thread that waits usually runs the task itself.
  void (*run_and_wait)(void* arena, Task task, void* context, std::size_t index);
  // task_arena::enqueue: another thread runs the task, without a notification.
  void (*enqueue)(void* arena, Task task, void* context, std::size_t index);
  // A task_group's run for each of 0 .. count - 1, from one thread, then wait.
  void (*run_all)(void* arena, Task task, void* context, std::size_t count);

  const GraphModule* flow_graph;
  const GraphModule* counted_graph;  // a task_group, and a count of predecessors for each node
  const TreeModule* tree;
};

}  // namespace dwell::bench

extern "C" const dwell::bench::TbbModule* dwell_bench_tbb();
