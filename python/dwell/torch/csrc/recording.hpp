// Operations that are recorded once and replayed: a graph of the runtime, and once it is compiled a program of a gang.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/gang_program.hpp>
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
  // Waits for compilations of recordings that are gone: the compilers must not run when the process ends.
  static void wait_orphans();
  // Call in a forked child: no thread records there.
  static void forget_started() { started_.store(0, std::memory_order_relaxed); }

  // Records an operation, as Collector::take collects it. Throws what `collect` throws, and as RecordedConstants::use.
  void add(std::span<const at::Tensor* const> tensors, std::size_t results, std::size_t made, const std::function<void(Batch&)>& collect);
  // Step i of a replay has slice i of `whole` in `memory` before it, or leaves it there: an output. Called before `end`; the caller has
  // checked shapes and types.
  void add_slices(const at::Tensor& memory, const at::Tensor& whole, bool output);
  // Ends the recording, which a replay runs `steps` times. Throws dwell::Error, and as RecordedConstants::check.
  void end(std::uint32_t steps);
  // Compiles it as a whole in the background, once it has ended: `members` as GangSettings has them. A failure is kept for `refusal`.
  void compile(std::uint32_t members);
  // Or does not, as the program wants it.
  void leave_as_tasks();
  // Waits until that has ended, if it has begun.
  void wait_compiled();
  // The program of the whole; null while there is none.
  const GangProgram* whole() const { return whole_->is_there.load(std::memory_order_acquire) ? &*whole_->program : nullptr; }
  // Runs it in a stream, behind all its other runs. The stream is noted for `wait_streams`. Called by one thread at a time.
  void enqueue(const GangProgram& whole, const c10::Stream& stream, void* handle);
  // Waits until all streams have passed the runs of the program, which it must outlive.
  void wait_streams();
  // Why there will be none; empty if there is one, and while it is compiled.
  std::string refusal() const;
  // Checks that a replay would do what was recorded. Throws errc::invalid_argument, which names what has changed since.
  void check() const;
  // Submits a step of the graph, in the order of all other submissions (dwell::drain). The caller has checked.
  Ticket launch() const { return runtime_.launch(*exec_, drain); }
  std::uint32_t steps() const { return steps_; }
  // Collects the copies of the slices of a step: of inputs, or of outputs. Returns whether there are any.
  bool copy_slices(Batch& batch, std::uint32_t step, bool outputs) const;

  bool names(c10::StorageImpl* storage) { return storages_.has(storage); }
  bool writes(c10::StorageImpl* storage) const { return written_.contains(storage); }
  // Returns whether a result of the recording was allocated in this storage.
  bool makes(c10::StorageImpl* storage) const { return made_.contains(storage); }
  // Memory that it writes and has not allocated, and what overlaps it: whole storages, which do not overlap each other. Empty until the
  // recording has ended.
  const std::vector<TensorView::Extent>& state() const { return state_; }
  // Returns whether someone but the recording has memory, as of now.
  std::function<bool(const TensorView::Extent&)> needed() const;
  const OperationList& operations() const { return operations_; }
  const RecordedTensors& tensors() const { return tensors_; }
  bool has_slices() const { return !slices_.empty(); }
  const Storages& storages() const { return storages_; }
  Runtime& runtime() const { return runtime_; }
  // Results of operations that were not recorded.
  RecordedConstants& constants() { return constants_; }

 private:
  struct Mine;
  // The result of compiler_. It may outlive the recording, which waits for no compiler when it is dropped.
  struct Whole {
    std::optional<GangProgram> program;  // written before is_there
    std::atomic<bool> is_there{false};
    std::atomic<bool> has_ended{false};
    std::mutex mutex;
    std::string refusal;  // guarded by mutex
  };

  static Recording* found();
  void record();
  std::vector<TensorView::Extent> find_state() const;

  static inline std::atomic<int> started_{0};  // recordings between start and stop, of all threads

  Runtime& runtime_;
  std::shared_ptr<Mine> started_here_;
  Storages storages_;
  std::unordered_set<const c10::StorageImpl*> written_;
  std::unordered_set<const c10::StorageImpl*> made_;
  RecordedTensors tensors_;
  RecordedConstants constants_;
  std::optional<GraphExec> exec_;
  std::uint32_t steps_ = 1;
  struct Slices {
    at::Tensor memory;
    at::Tensor whole;
    bool output = false;
  };
  std::vector<Slices> slices_;
  OperationList operations_;
  std::shared_ptr<Whole> whole_;
  std::vector<c10::Stream> streams_;  // with runs of it, the last one's at the end
  std::thread compiler_;
  std::vector<TensorView::Extent> state_;

  // Runtime::capture records the thread that calls it, which is `recorder_`: it runs the functions that other threads hand over in `work_`.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(Batch&)>* work_ = nullptr;
  bool over_ = false;
  bool done_ = false;
  std::exception_ptr failure_;
  std::optional<Graph> graph_;
  std::thread recorder_;
};

}  // namespace dwell::pytorch
