#include "collector.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include <dwell/error.hpp>

namespace dwell::pytorch {

Limits& limits() {
  static Limits all;
  return all;
}
Counts& counts() {
  static Counts all;
  return all;
}
const char* name_of(Reason reason) {
  switch (reason) {
    case Reason::asked: return "asked";
    case Reason::full: return "full";
    case Reason::fallback: return "fallback";
    case Reason::stream: return "stream";
    case Reason::kReasons: break;
  }
  return "";
}

namespace {

constexpr std::size_t kMostDevices = 65;  // the CPU, and CUDA devices behind it

struct Collectors {
  std::mutex mutex;
  std::array<std::atomic<Collector*>, kMostDevices> of{};
};
// Never destroyed: threads may be inside when the process ends.
Collectors& collectors() {
  static auto* const all = new Collectors;
  return *all;
}

c10::Stream current_stream(const c10::Device& device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

// As the driver has it; PyTorch's default stream is CUDA's legacy one.
void* handle_of(const c10::Stream& stream) {
  void* const handle = stream.native_handle();
  return handle != nullptr ? handle : reinterpret_cast<void*>(std::uintptr_t{1});
}

}  // namespace

Collector& Collector::of(const c10::Device& device) {
  const std::size_t index = device.is_cpu() ? 0 : static_cast<std::size_t>(device.index()) + 1;
  std::atomic<Collector*>& at = collectors().of.at(index);
  if (Collector* const known = at.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(collectors().mutex);
  if (at.load(std::memory_order_relaxed) == nullptr) at.store(new Collector(device), std::memory_order_release);
  return *at.load(std::memory_order_relaxed);
}

std::vector<Collector*> Collector::all() {
  std::vector<Collector*> opened;
  for (const auto& at : collectors().of)
    if (Collector* const collector = at.load(std::memory_order_acquire)) opened.push_back(collector);
  return opened;
}

Collector::Collector(const c10::Device& device) : device_(device) {
  Options options;
  options.device = device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index());
  options.bursts = true;
  runtime_.emplace(options);
  batch_.emplace(*runtime_);
}

void Collector::keep_in_order() {
  if (device_.is_cpu()) return;
  const c10::Stream now = current_stream(device_);
  if (stream_ && *stream_ == now) return;
  if (pending_ != 0) flush_locked(Reason::stream, false);
  stream_ = now;
}

void Collector::flush(Reason reason, bool wait) {
  const std::lock_guard lock(mutex_);
  flush_locked(reason, wait);
}

void Collector::flush_locked(Reason reason, bool wait) {
  if (pending_ != 0) {
    // Other threads go ahead without the lock once nothing is pending, so that comes last: their results are there, or behind a burst.
    const struct Flushed {
      Collector& collector;
      ~Flushed() {
        collector.pending_ = 0;
        collector.storages_.clear();  // behind this the stream orders their next use
        pending_anywhere().fetch_sub(1, std::memory_order_release);
      }
    } flushed{*this};
    counts().flushed[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    submit_locked();
    if (device_.is_cuda()) {
      runtime_->burst(handle_of(*stream_));
      batch_->forget();  // the next burst comes behind this one
    }
    if (device_.is_cpu()) wait_locked();
  }
  if (wait) wait_locked();
  forget_done();
}

void Collector::submit_locked() {
  for (const Ticket& ticket : batch_->submit()) submitted_.push_back(ticket);
}

void Collector::end_first() {
  if (submitted_.front().status() != 0 && !failed_) failed_ = submitted_.front();
  submitted_.pop_front();
}

// Bursts follow each other, so hardly anything is done behind what is not.
void Collector::forget_done() {
  while (!submitted_.empty() && submitted_.front().done()) end_first();
}

void Collector::wait_locked() {
  while (!submitted_.empty()) end_first();
  if (failed_) std::exchange(failed_, std::nullopt)->wait();
}

void Collector::count_pending() {
  if (pending_++ == 0) pending_anywhere().fetch_add(1, std::memory_order_relaxed);
  if (pending_ >= limits().operations.load(std::memory_order_relaxed)) flush_locked(Reason::full, false);
}

Recording* Collector::recording_here() {
  Recording* const recording = Recording::mine();
  if (recording != nullptr && &recording->runtime() != &*runtime_)
    throw Error(errc::unsupported, "a recording is of one device: this operation is on " + device_.str());
  return recording;
}

std::shared_ptr<Recording> Collector::record() {
  flush(Reason::asked, false);
  return std::make_shared<Recording>(*runtime_);
}

void Collector::replay(const Recording& recording) {
  const std::lock_guard lock(mutex_);
  keep_in_order();
  submit_locked();
  submitted_.push_back(recording.launch());
  count_pending();
}

BatchStats Collector::stats() {
  const std::lock_guard lock(mutex_);
  return batch_->stats();
}

bool Collector::names(const c10::StorageImpl* storage) {
  const std::lock_guard lock(mutex_);
  return storages_.has(storage);
}

std::atomic<int>& Collector::pending_anywhere() {
  static std::atomic<int> count{0};
  return count;
}

std::optional<ElementType> element_type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return ElementType::f32;
    case at::kDouble: return ElementType::f64;
    case at::kHalf: return ElementType::f16;
    case at::kBFloat16: return ElementType::bf16;
    case at::kChar: return ElementType::i8;
    case at::kShort: return ElementType::i16;
    case at::kInt: return ElementType::i32;
    case at::kLong: return ElementType::i64;
    case at::kByte: return ElementType::u8;
    case at::kBool: return ElementType::boolean;
    default: return {};
  }
}

TensorView view_of(const at::Tensor& tensor) {
  const at::IntArrayRef sizes = tensor.sizes();
  const at::IntArrayRef strides = tensor.strides();
  return TensorView(reinterpret_cast<std::uint64_t>(tensor.const_data_ptr()), *element_type_of(tensor.scalar_type()),
                    Dims(std::span(sizes.data(), sizes.size())), Dims(std::span(strides.data(), strides.size())));
}

}  // namespace dwell::pytorch
