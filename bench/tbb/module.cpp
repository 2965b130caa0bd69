#include "bench/tbb/module.hpp"

#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include "bench/tbb/graphs.hpp"
#include "bench/tbb/tree.hpp"

namespace {

using Task = dwell::bench::TbbModule::Task;

struct Arena {
  explicit Arena(int threads) : arena(threads) { arena.initialize(); }
  tbb::task_arena arena;
  tbb::task_group group;
};

void* open_arena(int threads) { return new Arena(threads); }

void close_arena(void* arena) { delete static_cast<Arena*>(arena); }

void run_and_wait(void* opaque, Task task, void* context, std::size_t index) {
  Arena& arena = *static_cast<Arena*>(opaque);
  arena.arena.execute([&] {
    arena.group.run([=] { task(context, index); });
    arena.group.wait();
  });
}

void enqueue(void* opaque, Task task, void* context, std::size_t index) {
  static_cast<Arena*>(opaque)->arena.enqueue([=] { task(context, index); });
}

void run_all(void* opaque, Task task, void* context, std::size_t count) {
  Arena& arena = *static_cast<Arena*>(opaque);
  arena.arena.execute([&] {
    for (std::size_t i = 0; i < count; ++i) arena.group.run([=] { task(context, i); });
    arena.group.wait();
  });
}

}  // namespace

extern "C" const dwell::bench::TbbModule* dwell_bench_tbb() {
  static const dwell::bench::TbbModule module{TBB_runtime_version(),
                                              open_arena,
                                              close_arena,
                                              run_and_wait,
                                              enqueue,
                                              run_all,
                                              &dwell::bench::kTbbFlowGraph,
                                              &dwell::bench::kTbbTaskGroup,
                                              &dwell::bench::kTbbTree};
  return &module;
}
