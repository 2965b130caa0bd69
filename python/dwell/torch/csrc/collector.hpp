// Operations of PyTorch that were taken, until they run.
//
// Each device has a collector: a runtime whose loop is on the device in bursts alone, and a batch. An operation is taken when its result
// is allocated and the batch has it; it runs with the next flush, on a GPU between what the current stream holds and what comes there
// later. Until then the storages that it names are kept.
//
// In resident contexts there is another runtime, whose loop stays: operations run while more are collected, and the host waits where
// streams would: for the stream before the first operation behind something that PyTorch has put there, and for all operations in a flush.
#pragma once

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/detail/submissions.hpp>
#include <dwell/runtime.hpp>

#include "burst_pace.hpp"
#include "interpreter.hpp"
#include "memory.hpp"
#include "recording.hpp"
#include "storages.hpp"

namespace dwell::pytorch {

// What is taken, the same for all devices. Set by the thread that enters a context; read with every operation.
struct Limits {
  std::atomic<std::int64_t> elements{1 << 15};  // of a tensor, at most
  std::atomic<std::int64_t> operations{1024};   // after which a burst starts, so that the device works while more are collected
  std::atomic<bool> resident{false};            // the loop stays
};
inline constinit Limits all_limits;
inline Limits& limits() { return all_limits; }

// Why operations were flushed.
enum class Reason : std::uint8_t { asked, full, idle, fallback, stream, kReasons };  // idle: the device has nothing to do
const char* name_of(Reason reason);

struct Counts {
  std::atomic<std::uint64_t> elsewhere{0};  // calls in resident contexts that PyTorch ran, and may have put on a stream
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Reason::kReasons)> flushed{};
};
inline constinit Counts all_counts;
inline Counts& counts() { return all_counts; }

class Collector {
 public:
  // That of a device, opened with the first call. Throws dwell::Error.
  static Collector& of(const c10::Device& device) {
    Collector* const opened = known(device);
    return opened != nullptr ? *opened : open(device);
  }
  // The same if it is opened, else null.
  static Collector* known(const c10::Device& device) {
    const std::size_t index = index_of(device);
    return index < kMostDevices ? opened_[index].load(std::memory_order_acquire) : nullptr;
  }
  // All that were opened.
  static std::vector<Collector*> all();

  explicit Collector(const c10::Device& device);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Calls collect(batch), which adds operations on these tensors: the first `results` are written, all may be read. `made`: the first was
  // allocated for its result. Any thread.
  template <class Collect>
  void take(std::span<const at::Tensor* const> tensors, std::size_t results, bool made, Collect&& collect) {
    if (Recording* const recording = recording_here()) {
      let_go_of_interpreter();  // another thread records it
      return recording->add(tensors, results, made, std::ref(collect));
    }
    const std::unique_lock lock = locked();
    keep_in_order(limits().resident.load(std::memory_order_relaxed));
    collect(loop_->batch);
    storages_.keep(tensors, at::hasCallbacks() ? 0 : results, made);  // profilers note addresses
    count_pending();
  }

  // Records the calling thread's operations from now on, instead of collecting them.
  std::shared_ptr<Recording> record();
  // Runs a recording of this device's, in the order of what is collected.
  void replay(const Recording& recording);

  // Lets what was collected run. With `wait`, and always on a CPU and in resident contexts, returns when it has.
  void flush(Reason reason, bool wait);
  // Runs what was collected, and ends the threads of its runtimes. Nothing may be taken any more. Throws nothing.
  void close();
  // What became of the operations, and how many were taken.
  BatchStats stats();
  std::uint64_t taken();
  // Whether an operation that was collected reads or writes memory of this storage.
  bool names(c10::StorageImpl* storage);
  // Whether any collector has operations that were not flushed.
  static bool any_pending() { return pending_anywhere_.load(std::memory_order_acquire) != 0; }
  // From now on none has, in a process that was forked off.
  static void forget_pending() { pending_anywhere_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMostDevices = 65;  // the CPU, and CUDA devices behind it
  static std::size_t index_of(const c10::Device& device) { return device.is_cpu() ? 0 : static_cast<std::size_t>(device.index()) + 1; }
  static Collector& open(const c10::Device& device);

  // Never closed: threads may be inside when the process ends.
  static inline constinit std::array<std::atomic<Collector*>, kMostDevices> opened_{};
  static inline constinit std::atomic<int> pending_anywhere_{0};  // collectors that have some
  // What operations are collected for.
  struct Loop {
    Loop(const c10::Device& device, bool resident, Storages& storages);
    // A batch that stores what is needed of these.
    Batch begun(Storages& storages);

    Runtime runtime;
    Batch batch;
  };

  // How often the operations after which a burst starts come, before a resident collector waits and lets go of storages.
  static constexpr std::int64_t kRounds = 64;
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  // For calls that may come straight from Python: nobody waits for the lock with the interpreter's.
  std::unique_lock<std::mutex> locked() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      let_go_of_interpreter();
      lock.lock();
    }
    return lock;
  }
  bool is_resident() const { return loop_ != &bursting_; }
  // Collects for the other loop from now on, which is the resident one or is not.
  void use(bool resident);
  // That of this thread, which may not be of another device.
  Recording* recording_here();
  void count_pending();
  // Whether the device has nothing to do, and a burst would not cost the host too much.
  bool worth_a_burst();
  // What was collected on another stream, or for the other loop, is flushed there.
  void keep_in_order(bool resident);
  void flush_locked(Reason reason, bool wait);
  void submit_locked(bool cut_short = false);

  const c10::Device device_;
  std::mutex mutex_;
  Storages storages_;
  Loop bursting_;
  std::optional<Loop> resident_;
  Loop* loop_ = &bursting_;               // that is in use
  dwell::detail::Submissions submitted_;  // bursts follow each other: hardly anything is done behind what is not
  std::int64_t pending_ = 0;
  std::uint64_t taken_ = 0;
  BurstPace pace_;
  std::optional<c10::Stream> stream_;   // of what was collected
  std::uint64_t elsewhere_ = kUnknown;  // calls that the resident loop is behind
};

// Every operation asks several times: a look at a table.
inline constexpr auto kElementTypes = [] {
  std::array<std::optional<ElementType>, static_cast<std::size_t>(at::ScalarType::NumOptions)> of{};
  const auto put = [&](at::ScalarType from, ElementType to) { of[static_cast<std::size_t>(from)] = to; };
  put(at::kFloat, ElementType::f32);
  put(at::kDouble, ElementType::f64);
  put(at::kHalf, ElementType::f16);
  put(at::kBFloat16, ElementType::bf16);
  put(at::kChar, ElementType::i8);
  put(at::kShort, ElementType::i16);
  put(at::kInt, ElementType::i32);
  put(at::kLong, ElementType::i64);
  put(at::kByte, ElementType::u8);
  put(at::kBool, ElementType::boolean);
  return of;
}();
// Nothing for types that dwell has no operations for.
constexpr std::optional<ElementType> element_type_of(at::ScalarType type) {
  const auto at = static_cast<std::size_t>(type);
  return at < kElementTypes.size() ? kElementTypes[at] : std::nullopt;
}
// The view of a tensor that dwell computes with.
TensorView view_of(const at::Tensor& tensor);

}  // namespace dwell::pytorch
