// Collections of the heap, as the host leads them (device/heap_collect.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <dwell/device/group.hpp>
#include <dwell/heap.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/collect/collect_kernel.hpp"
#include "runtime/collect/handles.hpp"
#include "runtime/device/device.hpp"
#include "runtime/graphs.hpp"
#include "runtime/memory/heap_memory.hpp"

namespace dwell::runtime {

// Leads collections: one when it is asked for, and one when the heap has grown beyond a threshold, on a thread of its own, which also
// compacts a sparse heap when the loop rests. On a GPU all work on the heap is done by kernels beside the loop, on the CPU by the thread
// that collects. Members may be called from any thread.
class Collector {
 public:
  struct Parts {
    backend::Backend& backend;  // these outlive it
    HeapMemory& heap;
    Device& device;
    Graphs& graphs;
    CollectKernel::Kernels kernels;
    std::function<void(std::string_view)> warn;
    std::function<void(const HeapStatistics&)> on_pressure;  // HeapOptions::on_pressure
  };
  explicit Collector(Parts parts);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Collects, and returns when everything that was unreachable at the call is freed. Waits for running tasks. Throws as Runtime::submit.
  HeapCollection collect();
  // Collects, then moves objects out of slabs of which little is used, and gives back the pages of empty slabs. Returns when all that is
  // done. Throws as Runtime::submit.
  HeapCompaction compact();
  // Calls `work` while no collection runs.
  template <class Work>
  auto between(Work work) {
    const Lock lock(mutex_);
    return work();
  }
  // Starts the thread that collects when the heap is full, unless it runs.
  void watch();
  // Lets no collection begin any more, and cuts off the one under way between two of its tasks.
  void stop() noexcept { stopped_.store(true); }
  // Waits for the thread's end, after stop.
  void finish() noexcept;

  // The entries of the table of handles. Makes the heap.
  std::shared_ptr<Handles> handles();
  // The cell of the root of this name, made by `make` at the first call.
  struct RootCell {
    std::uint32_t unit;
    std::shared_ptr<void> entry;
  };
  Ref<void> root(const std::string& name, const std::function<RootCell()>& make) {
    const Lock lock(roots_mutex_);
    auto at = roots_.find(name);
    if (at == roots_.end()) at = roots_.emplace(name, make()).first;
    return Ref<void>::at(at->second.unit);
  }
  // The number of collections so far, and the last one.
  std::uint64_t count() const { return count_.load(); }
  HeapCollection last() const {
    const Lock lock(last_mutex_);
    return last_;
  }

 private:
  // The result of a part of a collection.
  struct Told {
    std::uint64_t left = 0;
    std::uint64_t marked = 0;
    std::uint64_t freed = 0;
    std::uint64_t freed_bytes = 0;
    std::uint64_t used = 0;     // pages
    std::uint64_t top = 0;      // page behind the last one that was ever in use
    std::uint64_t leaving = 0;  // slabs that objects leave
    std::uint64_t moved = 0;
    std::uint64_t moved_bytes = 0;
    std::uint64_t movable = 0;  // 1: there is a type whose objects move
    std::uint64_t types = 0;
  };

  HeapCollection collect_locked() DWELL_REQUIRES(mutex_);
  HeapCollection collect_now() DWELL_REQUIRES(mutex_);
  // Moves objects out of slabs of whose slots `hundredths` are used at most; of those, out of every `every`-th at most.
  void move_objects(std::uint32_t hundredths, std::uint32_t every) DWELL_REQUIRES(mutex_);
  void finish_moving() DWELL_REQUIRES(mutex_);
  // Says when the next collection begins by itself, with so many pages in use now.
  void set_threshold(std::uint64_t used) DWELL_REQUIRES(mutex_);
  HeapCompaction compact_now(const HeapCollection& collected) DWELL_REQUIRES(mutex_);
  // Collects and compacts if the heap has changed since the last time, and a fifth of it is not used.
  void compact_at_rest();
  bool is_sparse() const;
  // Collects, if there are objects, and tells when the heap fills up all the same.
  void make_room();
  void watch_heap(const std::stop_token& stop);
  // Compiles the kernel before it is needed: a heap may fill within that second.
  void prepare();
  // Runs a part of a collection (heap::verb) in `groups` groups, and waits for it.
  Told part(std::uint32_t what, std::uint64_t first, std::uint64_t end, std::uint32_t groups, std::span<const std::uint32_t> units = {})
      DWELL_REQUIRES(mutex_);
  // The same on the CPU, by the calling thread, and on a GPU.
  Told part_here(const CollectKernel::Part& part) DWELL_REQUIRES(mutex_);
  Told part_there(const CollectKernel::Part& part, std::uint32_t groups) DWELL_REQUIRES(mutex_);
  void enter(std::uint32_t next) DWELL_REQUIRES(mutex_);
  // Waits until all tasks that run now have ended.
  void handshake();
  void walk(std::uint32_t what, std::span<const std::uint32_t> units = {}) DWELL_REQUIRES(mutex_);
  void clear_handles() DWELL_REQUIRES(mutex_);
  // Marks what handles and arguments name; while objects move, makes it stay.
  void mark_roots() DWELL_REQUIRES(mutex_);
  void visit_all() DWELL_REQUIRES(mutex_);
  std::uint32_t groups() const;
  // Throws errc::closed after stop.
  void check() const;

  const Parts parts_;
  std::atomic<bool> stopped_{false};
  Mutex mutex_;  // held during a collection
  CollectKernel kernel_ DWELL_GUARDED_BY(mutex_);
  CollectKernel mover_ DWELL_GUARDED_BY(mutex_);
  bool moving_ DWELL_GUARDED_BY(mutex_) = false;  // a move has begun that is not finished
  std::unique_ptr<device::Context> context_ DWELL_GUARDED_BY(mutex_);
  std::uint32_t slices_ DWELL_GUARDED_BY(mutex_) = 0;
  std::uint64_t changes_ DWELL_GUARDED_BY(mutex_) = 0;  // allocations and frees until the heap was looked at when the loop rested
  std::atomic<std::uint64_t> count_{0};
  mutable Mutex last_mutex_;
  HeapCollection last_ DWELL_GUARDED_BY(last_mutex_);
  Mutex handles_mutex_;
  std::shared_ptr<Handles> handles_ DWELL_GUARDED_BY(handles_mutex_);
  Mutex roots_mutex_;
  std::map<std::string, RootCell> roots_ DWELL_GUARDED_BY(roots_mutex_);
  Mutex thread_mutex_;
  std::jthread thread_ DWELL_GUARDED_BY(thread_mutex_);
};

}  // namespace dwell::runtime
