// Collects operations of PyTorch until they run.
//
// Each device has a collector: a runtime whose loop is on the device in bursts alone, and a batch. To take an operation is to allocate its
// result and add it to the batch. It runs with the next flush; on a GPU in the order of the current stream. The collector keeps the
// storages that it names until then.
//
// Resident contexts use a second runtime, whose loop stays on the device: operations run while more are collected. No stream orders them:
// the host waits for the stream before the first operation after a call that PyTorch ran, and for all operations in a flush.
#pragma once

#include <ATen/core/Tensor.h>
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
#include "gil.hpp"
#include "memory.hpp"
#include "recording.hpp"
#include "storages.hpp"

namespace dwell::pytorch {

// Limits of what is taken, for all devices. The thread that enters a context sets them; every operation reads them.
struct Limits {
  std::atomic<std::int64_t> elements{1 << 15};  // of a tensor, at most
  std::atomic<std::int64_t> operations{1024};   // that are collected before a burst starts
  std::atomic<bool> resident{false};            // the loop stays on the device
};
inline constinit Limits all_limits;
inline Limits& limits() { return all_limits; }

// Why operations were flushed.
enum class FlushReason : std::uint8_t { asked, full, idle, fallback, stream, kReasons };  // idle: the device has nothing to do
const char* name_of(FlushReason reason);

struct Counts {
  std::atomic<std::uint64_t> fallbacks{0};  // calls that PyTorch ran in resident contexts, and may have put on a stream
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(FlushReason::kReasons)> flushed{};
};
inline constinit Counts all_counts;
inline Counts& counts() { return all_counts; }

// Whether this thread captures its current stream into a CUDA graph, by PyTorch.
inline thread_local constinit bool captures_here = false;

class Collector {
 public:
  // Returns the collector of a device; opens it with the first call. Throws dwell::Error.
  static Collector& of(const c10::Device& device) {
    Collector* const opened = known(device);
    return opened != nullptr ? *opened : open(device);
  }
  // Returns it if it is open, else null.
  static Collector* known(const c10::Device& device) {
    const std::size_t index = index_of(device);
    return index < kMostDevices ? opened_[index].load(std::memory_order_acquire) : nullptr;
  }
  // Returns all open collectors.
  static std::vector<Collector*> all();

  explicit Collector(const c10::Device& device);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Takes an operation: calls collect(batch), which adds it. It may read all `tensors` and writes the first `results`. The first
  // `made` were allocated for its results. Any thread may call it.
  template <class Collect>
  void take(std::span<const at::Tensor* const> tensors, std::size_t results, std::size_t made, Collect&& collect) {
    if (Recording* const recording = recording_here()) {
      release_gil();  // another thread records it
      return recording->add(tensors, results, made, std::ref(collect));
    }
    const std::unique_lock lock = locked();
    keep_in_order(limits().resident.load(std::memory_order_relaxed));
    collect(loop_->batch);
    storages_.keep(tensors, at::hasCallbacks() ? 0 : results, made);  // profilers note addresses
    count_pending();
  }

  // Makes a recording on this device. Flushes first.
  std::shared_ptr<Recording> record();
  // Submits a replay of a recording of this device, in the order of collected operations. Returns whether a flush is to run it: one that is
  // compiled is in the stream already, or, on a CPU, has run. Throws errc::unsupported in a capture if it is not compiled.
  bool replay(Recording& recording);

  // Submits collected operations. Waits for them with `wait`, on a CPU, and in resident contexts.
  void flush(FlushReason reason, bool wait);
  // Runs collected operations and closes the runtimes. Nothing may be taken afterwards. Throws nothing.
  void close();
  // Takes the resident loop off the device until its next operation, once it has run what was submitted. Returns false, with nothing done,
  // if it has had no operation since the last time.
  bool rest();
  // Counts of the batches, and of operations taken.
  BatchStats stats();
  std::uint64_t taken();
  // Returns whether a collected operation reads or writes memory of this storage.
  bool names(c10::StorageImpl* storage);
  // Returns whether any collector has operations to flush.
  static bool any_pending() { return pending_anywhere_.load(std::memory_order_acquire) != 0; }
  // Returns whether any resident loop may be on a device.
  static bool any_resident() { return resident_anywhere_.load(std::memory_order_acquire) != 0; }
  // Call in a forked child: no collector has any there.
  static void forget_pending() { pending_anywhere_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMostDevices = 65;  // the CPU, and CUDA devices behind it
  static std::size_t index_of(const c10::Device& device) { return device.is_cpu() ? 0 : static_cast<std::size_t>(device.index()) + 1; }
  static Collector& open(const c10::Device& device);

  // Never deleted: threads may be inside when the process ends.
  static inline constinit std::array<std::atomic<Collector*>, kMostDevices> opened_{};
  static inline constinit std::atomic<int> pending_anywhere_{0};   // collectors with operations to flush
  static inline constinit std::atomic<int> resident_anywhere_{0};  // collectors that are awake
  // A runtime and the batch of operations for it.
  struct Loop {
    Loop(const c10::Device& device, bool resident, Storages& storages);
    // Returns a new batch, which leaves out results that `storages` holds alone.
    Batch begun(Storages& storages);

    Runtime runtime;
    Batch batch;
  };

  // A resident collector flushes after Limits::operations times this.
  static constexpr std::int64_t kRounds = 64;
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  // Locks without holding the GIL while it waits (gil.hpp).
  std::unique_lock<std::mutex> locked() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      release_gil();
      lock.lock();
    }
    return lock;
  }
  bool is_resident() const { return loop_ != &bursting_; }
  // Flushes, and collects for the resident or the bursting loop from now on.
  void use(bool resident);
  // Returns the recording of the calling thread, if any. Throws if it is of another device.
  Recording* recording_here();
  void count_pending();
  // Returns whether the device is idle and a burst does not cost the host too much.
  bool worth_a_burst();
  // Flushes if the current stream or the loop is another than that of collected operations.
  void keep_in_order(bool resident);
  void flush_locked(FlushReason reason, bool wait);
  void submit_locked(bool cut_short = false);

  const c10::Device device_;
  std::mutex mutex_;
  Storages storages_;
  Loop bursting_;
  std::optional<Loop> resident_;
  bool awake_ = false;                    // the resident loop has had operations since the last rest
  Loop* loop_ = &bursting_;               // in use
  dwell::detail::Submissions submitted_;  // bursts follow each other: hardly anything is done behind what is not
  std::int64_t pending_ = 0;
  std::uint64_t taken_ = 0;
  BurstPace pace_;
  std::optional<c10::Stream> stream_;        // of collected operations
  std::uint64_t seen_fallbacks_ = kUnknown;  // Counts::fallbacks when the resident loop last waited for the stream
};

// Element types by PyTorch's, a table: each operation asks several times.
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
// The tensor's elements as a view.
TensorView view_of(const at::Tensor& tensor);

}  // namespace dwell::pytorch
