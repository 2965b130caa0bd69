// Operations that are recorded once and run again and again: a graph of the runtime's.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include <dwell/batch.hpp>
#include <dwell/graph.hpp>
#include <dwell/runtime.hpp>

#include "baked.hpp"
#include "recorded_tensors.hpp"
#include "storages.hpp"

namespace dwell::pytorch {

// What one thread's operations are while it records, and those of backward passes that it starts, on one device; afterwards what can be
// run. Keeps the memory of all tensors named.
class Recording {
 public:
  explicit Recording(Runtime& runtime);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // That of the calling thread, or of the thread for whose backward pass it works; null where there is none.
  static Recording* mine() { return started_.load(std::memory_order_relaxed) == 0 ? nullptr : found(); }
  // It is the calling thread's from now on, which has none; until that thread calls `stop`.
  void start();
  void stop();
  // From now on no thread has one, in a process that was forked off.
  static void forget_started() { started_.store(0, std::memory_order_relaxed); }

  // Adds what collect(batch) collects, as Collector::take. Throws what it throws, and as Baked::use.
  void add(std::span<const at::Tensor* const> tensors, std::size_t results, bool made, const std::function<void(Batch&)>& collect);
  // Nothing is added any more. Throws dwell::Error, and as Baked::check.
  void end();
  // Submits it, behind all that was submitted before and ahead of all that comes later. Throws as Baked::check.
  Ticket launch() const;

  bool names(c10::StorageImpl* storage) { return storages_.has(storage); }
  const Storages& storages() const { return storages_; }
  Runtime& runtime() const { return runtime_; }
  // What it has of operations that were not recorded.
  Baked& baked() { return baked_; }

 private:
  struct Mine;

  static Recording* found();
  void record();

  static inline std::atomic<int> started_{0};  // recordings that threads have

  Runtime& runtime_;
  std::shared_ptr<Mine> started_here_;
  Storages storages_;
  RecordedTensors tensors_;
  Baked baked_;
  std::optional<GraphExec> exec_;

  // Runtime::capture calls a function, and what it records comes from its thread: one that does what others hand to it.
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(Batch&)>* work_ = nullptr;
  bool over_ = false;
  bool done_ = false;
  std::exception_ptr failure_;
  std::optional<Graph> graph_;
  std::thread recorder_;
};

}  // namespace dwell::pytorch
