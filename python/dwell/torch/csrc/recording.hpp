// Operations that are recorded once and replayed: a graph of the runtime.
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

#include "recorded_constants.hpp"
#include "recorded_tensors.hpp"
#include "storages.hpp"

namespace dwell::pytorch {

// Records the operations of one thread, and of the backward passes that it starts, on one device; then replays them. Keeps the memory of
// all tensors that they name.
class Recording {
 public:
  explicit Recording(Runtime& runtime);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Returns the recording of the calling thread, or of the thread whose backward pass it runs; null if there is none.
  static Recording* mine() { return started_.load(std::memory_order_relaxed) == 0 ? nullptr : found(); }
  // Makes it the recording of the calling thread, which must have none, until that thread calls `stop`.
  void start();
  void stop();
  // Call in a forked child: no thread records there.
  static void forget_started() { started_.store(0, std::memory_order_relaxed); }

  // Records an operation, as Collector::take collects it. Throws what `collect` throws, and as RecordedConstants::use.
  void add(std::span<const at::Tensor* const> tensors, std::size_t results, bool made, const std::function<void(Batch&)>& collect);
  // Ends the recording. Throws dwell::Error, and as RecordedConstants::check.
  void end();
  // Submits a replay, in the order of all other submissions (dwell::drain). Throws as RecordedConstants::check.
  Ticket launch() const;

  bool names(c10::StorageImpl* storage) { return storages_.has(storage); }
  const Storages& storages() const { return storages_; }
  Runtime& runtime() const { return runtime_; }
  // Results of operations that were not recorded.
  RecordedConstants& constants() { return constants_; }

 private:
  struct Mine;

  static Recording* found();
  void record();

  static inline std::atomic<int> started_{0};  // recordings between start and stop, of all threads

  Runtime& runtime_;
  std::shared_ptr<Mine> started_here_;
  Storages storages_;
  RecordedTensors tensors_;
  RecordedConstants constants_;
  std::optional<GraphExec> exec_;

  // Runtime::capture records the thread that calls it, which is `recorder_`: it runs the functions that other threads hand over in `work_`.
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
