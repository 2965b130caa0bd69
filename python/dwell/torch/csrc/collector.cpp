#include "collector.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include <dwell/error.hpp>

namespace dwell::pytorch {

const char* name_of(FlushReason reason) {
  switch (reason) {
    case FlushReason::asked: return "asked";
    case FlushReason::full: return "full";
    case FlushReason::idle: return "idle";
    case FlushReason::fallback: return "fallback";
    case FlushReason::stream: return "stream";
    case FlushReason::kReasons: break;
  }
  return "";
}

namespace {

c10::Stream current_stream(const c10::Device& device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

// The driver's handle. PyTorch's default stream is CUDA's legacy stream.
void* handle_of(const c10::Stream& stream) {
  void* const handle = stream.native_handle();
  return handle != nullptr ? handle : reinterpret_cast<void*>(std::uintptr_t{1});
}

}  // namespace

Collector& Collector::open(const c10::Device& device) {
  release_gil();  // until the runtime is there
  static auto* const mutex = new std::mutex;
  std::atomic<Collector*>& at = opened_.at(index_of(device));
  const std::lock_guard lock(*mutex);
  if (at.load(std::memory_order_relaxed) == nullptr) at.store(new Collector(device), std::memory_order_release);
  return *at.load(std::memory_order_relaxed);
}

std::vector<Collector*> Collector::all() {
  std::vector<Collector*> opened;
  for (const auto& at : opened_)
    if (Collector* const collector = at.load(std::memory_order_acquire)) opened.push_back(collector);
  return opened;
}

namespace {

Options options_for(const c10::Device& device, bool resident) {
  Options options;
  options.device = device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index());
  options.bursts = !resident;
  return options;
}

}  // namespace

Collector::Loop::Loop(const c10::Device& device, bool resident, Storages& storages)
    : runtime(options_for(device, resident)), batch(begun(storages)) {}

Batch Collector::Loop::begun(Storages& storages) {
  Batch batch(runtime);
  batch.store_only([&storages](const TensorView::Extent& memory) { return storages.is_needed(memory.first); });
  return batch;
}

// Guards CPU storages alone: the host reads results on a GPU by copies, and passes addresses on without reading memory there.
Collector::Collector(const c10::Device& device) : device_(device), storages_(device.is_cpu()), bursting_(device, false, storages_) {}

void Collector::use(bool resident) {
  flush_locked(FlushReason::asked, true);
  if (resident && !resident_) resident_.emplace(device_, true, storages_);
  loop_ = resident ? &*resident_ : &bursting_;
  seen_fallbacks_ = kUnknown;
}

void Collector::keep_in_order(bool resident) {
  if (resident != is_resident()) use(resident);
  if (device_.is_cpu()) return;
  const c10::Stream now = current_stream(device_);
  if (!stream_ || *stream_ != now) {
    if (pending_ != 0) flush_locked(FlushReason::stream, false);
    stream_ = now;
    seen_fallbacks_ = kUnknown;
  }
  if (!resident) return;
  const std::uint64_t calls = counts().fallbacks.load(std::memory_order_relaxed);
  if (calls == seen_fallbacks_) return;
  release_gil();
  now.synchronize();
  seen_fallbacks_ = calls;
}

void Collector::flush(FlushReason reason, bool wait) {
  const std::lock_guard lock(mutex_);
  flush_locked(reason, wait);
}

void Collector::flush_locked(FlushReason reason, bool wait) {
  release_gil();
  if (pending_ != 0) {
    // Decrement pending_anywhere_ last: other threads go on without the lock once it is 0, and need the results, or the burst.
    const struct Flushed {
      Collector& collector;
      ~Flushed() {
        collector.pending_ = 0;
        collector.storages_.clear();  // the stream orders their next use
        pending_anywhere_.fetch_sub(1, std::memory_order_release);
      }
    } flushed{*this};
    counts().flushed[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    if (!storages_.are_in_place()) {
      loop_->batch = loop_->begun(storages_);
      throw Error(
          errc::invalid_argument,
          "the memory of a tensor was replaced, past PyTorch's dispatcher, while operations on it were collected: they are dropped, and "
          "their results have no values: call dwell.torch.flush(sync=True) before what replaces it");
    }
    submit_locked(reason == FlushReason::idle);
    if (device_.is_cuda() && !is_resident()) {
      const auto start = BurstPace::Clock::now();
      loop_->runtime.burst(handle_of(*stream_));
      pace_.took(BurstPace::Clock::now() - start);
      loop_->batch.forget();  // the stream orders bursts
    } else {
      submitted_.wait();
    }
  }
  if (wait) submitted_.wait();
  submitted_.drop_done();
}

void Collector::close() {
  const std::lock_guard lock(mutex_);
  const auto attempt = [](auto&& step) {
    try {
      step();
    } catch (const std::exception&) {  // the process ends
    }
  };
  attempt([this] { flush_locked(FlushReason::asked, true); });
  attempt([this] { bursting_.runtime.close(); });
  if (resident_) attempt([this] { resident_->runtime.close(); });
}

bool Collector::rest() {
  const std::lock_guard lock(mutex_);
  if (!awake_) return false;
  if (is_resident()) flush_locked(FlushReason::asked, true);
  awake_ = false;
  resident_anywhere_.fetch_sub(1, std::memory_order_release);
  release_gil();
  resident_->runtime.park();
  resident_->runtime.resume();
  return true;
}

void Collector::submit_locked(bool cut_short) {
  for (const Ticket& ticket : loop_->batch.submit(cut_short)) submitted_.add(ticket);
}

void Collector::count_pending() {
  ++taken_;
  if (pending_++ == 0) {
    pending_anywhere_.fetch_add(1, std::memory_order_relaxed);
    if (device_.is_cuda()) pace_.begins(BurstPace::Clock::now());
    if (is_resident() && !awake_) {
      awake_ = true;
      resident_anywhere_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  const std::int64_t most = limits().operations.load(std::memory_order_relaxed);
  if (!is_resident() || pending_ >= most * kRounds) {
    if (pending_ >= most)
      flush_locked(FlushReason::full, false);
    else if (pending_ % BurstPace::kLook == 0 && worth_a_burst())
      flush_locked(FlushReason::idle, false);
  } else if (pending_ % most == 0) {
    release_gil();
    submit_locked();
    submitted_.drop_done();
  }
}

bool Collector::worth_a_burst() {
  // On a CPU a flush waits.
  if (!device_.is_cuda() || !pace_.worth(BurstPace::Clock::now())) return false;
  submitted_.drop_done();
  return submitted_.empty();
}

Recording* Collector::recording_here() {
  Recording* const recording = Recording::mine();
  if (recording != nullptr && &recording->runtime() != &bursting_.runtime)
    throw Error(errc::unsupported, "a recording is of one device: this operation is on " + device_.str());
  return recording;
}

std::shared_ptr<Recording> Collector::record() {
  flush(FlushReason::asked, false);
  return std::make_shared<Recording>(bursting_.runtime);
}

bool Collector::replay(Recording& recording) {
  const std::lock_guard lock(mutex_);
  keep_in_order(false);
  recording.check();
  if (const GangProgram* const whole = recording.whole()) {
    if (device_.is_cuda()) {
      if (pending_ != 0) flush_locked(FlushReason::asked, false);
      if (captures_here)
        whole->enqueue(handle_of(*stream_));  // the caller orders the graph's launches
      else
        recording.enqueue(*whole, *stream_, handle_of(*stream_));
      return false;
    }
    // In this thread: another one would take some microseconds to begin, and a flush waits on a CPU.
    flush_locked(FlushReason::asked, true);
    whole->run();
    return false;
  }
  if (captures_here && device_.is_cuda()) {
    const std::string why = recording.refusal();
    throw Error(errc::unsupported, "a recording that runs as tasks cannot be captured into a CUDA graph: " +
                                       (why.empty() ? "it is being compiled: wait for that (compile()) before the capture" : why));
  }
  submit_locked();
  for (std::uint32_t step = 0; step < recording.steps(); ++step) {
    if (recording.copy_slices(loop_->batch, step, false)) submit_locked();
    submitted_.add(recording.launch());
    if (recording.copy_slices(loop_->batch, step, true)) submit_locked();
  }
  storages_.keep(recording.storages());  // so that reading one of them flushes
  count_pending();
  return true;
}

BatchStats Collector::stats() {
  const std::lock_guard lock(mutex_);
  BatchStats all = bursting_.batch.stats();
  if (resident_) {
    const BatchStats more = resident_->batch.stats();
    all.operations += more.operations;
    all.tasks += more.tasks;
    all.programs += more.programs;
    all.compiled += more.compiled;
  }
  return all;
}

std::uint64_t Collector::taken() {
  const std::lock_guard lock(mutex_);
  return taken_;
}

bool Collector::names(c10::StorageImpl* storage) {
  const std::unique_lock lock = locked();
  return storages_.has(storage);
}

TensorView view_of(const at::Tensor& tensor) {
  const at::IntArrayRef sizes = tensor.sizes();
  const at::IntArrayRef strides = tensor.strides();
  return TensorView(address_of(tensor), *element_type_of(tensor.scalar_type()), Dims(std::span(sizes.data(), sizes.size())),
                    Dims(std::span(strides.data(), strides.size())));
}

}  // namespace dwell::pytorch
