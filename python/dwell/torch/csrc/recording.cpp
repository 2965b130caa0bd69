#include "recording.hpp"

#include <c10/core/Event.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/tensor.hpp>

#include "collector.hpp"
#include "memory.hpp"

namespace dwell::pytorch {

namespace {

// The key of the thread-local debug info by which PyTorch passes the recording on to threads of the autograd engine. It is a number in old
// versions of PyTorch, a name in new ones.
template <class Kind = c10::DebugInfoKind>
Kind kind_of_recordings() {
  static constexpr std::string_view kName = "DWELL_RECORDING";
  if constexpr (std::is_enum_v<Kind>)
    return static_cast<Kind>(0xD3);
  else
    return Kind(&kName);
}

}  // namespace

namespace {

// Threads that compile for recordings that are gone, and whether they have ended.
struct Orphans {
  std::mutex mutex;
  std::vector<std::pair<std::thread, std::function<bool()>>> all;

  void add(std::thread thread, std::function<bool()> has_ended) {
    const std::lock_guard lock(mutex);
    std::erase_if(all, [](auto& one) {
      if (!one.second()) return false;
      one.first.join();
      return true;
    });
    all.emplace_back(std::move(thread), std::move(has_ended));
  }
};
Orphans& orphans() {
  static auto* const all = new Orphans;
  return *all;
}

}  // namespace

struct Recording::Mine : c10::DebugInfoBase {
  explicit Mine(Recording* of) : recording(of) {}
  std::atomic<Recording*> recording;  // null after stop
};

Recording* Recording::found() {
  auto* const mine = static_cast<Mine*>(c10::ThreadLocalDebugInfo::get(kind_of_recordings()));
  return mine == nullptr ? nullptr : mine->recording.load(std::memory_order_relaxed);
}

void Recording::start() {
  started_here_ = std::make_shared<Mine>(this);
  c10::ThreadLocalDebugInfo::_push(kind_of_recordings(), started_here_);
  started_.fetch_add(1, std::memory_order_relaxed);
}

void Recording::stop() {
  if (started_here_ == nullptr) return;
  started_here_->recording = nullptr;
  started_here_.reset();
  started_.fetch_sub(1, std::memory_order_relaxed);
  // If another entry lies above it, it stays, and is ignored.
  try {
    c10::ThreadLocalDebugInfo::_pop(kind_of_recordings());
  } catch (const c10::Error&) {}
}

Recording::Recording(Runtime& runtime) : runtime_(runtime), whole_(std::make_shared<Whole>()), recorder_([this] { record(); }) {}

Recording::~Recording() {
  if (compiler_.joinable()) orphans().add(std::move(compiler_), [whole = whole_] { return whole->has_ended.load(); });
  if (!recorder_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  recorder_.join();
}

void Recording::record() {
  std::exception_ptr failure;
  try {
    graph_ = runtime_.capture([this] {
      Batch batch(runtime_);
      batch.note_in(operations_);
      batch.store_only([this](const TensorView::Extent& memory) { return storages_.is_needed(memory.first); });
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return work_ != nullptr || over_; });
        if (work_ == nullptr) break;
        try {
          (*work_)(batch);
        } catch (...) {
          failure_ = std::current_exception();
        }
        work_ = nullptr;
        changed_.notify_all();
      }
      batch.submit();
    });
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure != nullptr) failure_ = failure;
  done_ = true;
  changed_.notify_all();
}

void Recording::add(std::span<const at::Tensor* const> tensors, std::size_t results, std::size_t made,
                    const std::function<void(Batch&)>& collect) {
  constants_.use(tensors, made);
  std::unique_lock lock(mutex_);
  work_ = &collect;
  changed_.notify_all();
  changed_.wait(lock, [this] { return work_ == nullptr || done_; });
  work_ = nullptr;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  storages_.keep(tensors, results, made);
  for (std::size_t i = 0; i < results; ++i) written_.insert(&storage_of(*tensors[i]));
  for (std::size_t i = 0; i < made; ++i) made_.insert(&storage_of(*tensors[i]));
  tensors_.note(tensors);
}

namespace {

// Slice i along the first dimension.
TensorView slice_of(const at::Tensor& whole, std::uint32_t i) {
  const at::IntArrayRef sizes = whole.sizes().slice(1);
  const at::IntArrayRef strides = whole.strides().slice(1);
  const std::int64_t bytes = i * whole.stride(0) * static_cast<std::int64_t>(whole.itemsize());
  return TensorView(address_of(whole) + static_cast<std::uint64_t>(bytes), *element_type_of(whole.scalar_type()),
                    Dims(std::span(sizes.data(), sizes.size())), Dims(std::span(strides.data(), strides.size())));
}

}  // namespace

void Recording::add_slices(const at::Tensor& memory, const at::Tensor& whole, bool output) {
  const std::array<const at::Tensor*, 2> tensors{output ? &whole : &memory, output ? &memory : &whole};
  storages_.keep(tensors, 1, 0);
  tensors_.note(tensors);
  slices_.push_back({memory, whole, output});
}

bool Recording::copy_slices(Batch& batch, std::uint32_t step, bool outputs) const {
  bool any = false;
  for (const Slices& slices : slices_) {
    if (slices.output != outputs) continue;
    const TensorView slice = slice_of(slices.whole, step);
    const TensorView memory = view_of(slices.memory);
    batch.assign(outputs ? slice : memory, Expression(outputs ? memory : slice));
    any = true;
  }
  return any;
}

void Recording::end(std::uint32_t steps) {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  recorder_.join();
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  constants_.end();
  constants_.check();
  steps_ = steps;
  exec_.emplace(runtime_.instantiate(*graph_));
  graph_.reset();
  tensors_.settle();
  state_ = find_state();
}

std::function<bool(const TensorView::Extent&)> Recording::needed() const {
  return [unneeded = storages_.unneeded()](const TensorView::Extent& memory) {
    const auto behind = std::ranges::upper_bound(unneeded, memory.first, {}, [](const auto& extent) { return extent.first; });
    return behind == unneeded.begin() || std::prev(behind)->second < memory.end;
  };
}

std::vector<TensorView::Extent> Recording::find_state() const {
  std::vector<TensorView::Extent> joined;
  for (const TensorView::Extent& one : storages_.extents()) {
    if (!joined.empty() && one.first < joined.back().end)
      joined.back().end = std::max(joined.back().end, one.end);
    else
      joined.push_back(one);
  }
  std::erase_if(joined, [&](const TensorView::Extent& one) {
    return std::ranges::none_of(written_, [&](const c10::StorageImpl* storage) {
      const auto address = reinterpret_cast<std::uint64_t>(memory_of(const_cast<c10::StorageImpl&>(*storage)));
      return !made_.contains(storage) && one.first <= address && address < one.end;
    });
  });
  return joined;
}

void Recording::compile(std::uint32_t members) {
  // Looks for memory that nobody can read before the thread starts: the caller may drop tensors while it compiles.
  GangSettings settings{.members = members, .repeats = steps_};
  for (const Slices& slices : slices_)
    settings.slices.push_back({.memory = view_of(slices.memory).extent(),
                               .first = address_of(slices.whole),
                               .stride = slices.whole.stride(0) * static_cast<std::int64_t>(slices.whole.itemsize()),
                               .output = slices.output});
  compiler_ =
      std::thread([whole = whole_, &runtime = runtime_, operations = operations_, settings = std::move(settings), needed = needed()] {
        // One at a time: a program with many recordings needs its processors.
        static auto* const turn = new std::mutex;
        const std::lock_guard lock(*turn);
        try {
          whole->program.emplace(runtime, operations, needed, settings);
          whole->is_there.store(true, std::memory_order_release);
        } catch (const std::exception& error) {
          const std::lock_guard told(whole->mutex);
          whole->refusal = error.what();
        }
        whole->has_ended = true;
      });
}

void Recording::leave_as_tasks() {
  const std::lock_guard lock(whole_->mutex);
  whole_->refusal = "it was recorded with whole=False";
}

void Recording::wait_compiled() {
  // Several threads may wait.
  const std::lock_guard lock(mutex_);
  if (compiler_.joinable()) compiler_.join();
}

void Recording::wait_orphans() {
  std::vector<std::pair<std::thread, std::function<bool()>>> all;
  {
    const std::lock_guard lock(orphans().mutex);
    all.swap(orphans().all);
  }
  for (auto& [thread, has_ended] : all) thread.join();
}

void Recording::enqueue(const GangProgram& whole, const c10::Stream& stream, void* handle) {
  // Runs that overlap would take each other's words for their own.
  if (!streams_.empty() && streams_.back() != stream) {
    c10::Event event(stream.device_type());
    event.record(streams_.back());
    event.block(stream);
  }
  std::erase(streams_, stream);
  streams_.push_back(stream);
  whole.enqueue(handle);
}

void Recording::wait_streams() {
  for (const c10::Stream& stream : std::exchange(streams_, {})) stream.synchronize();
}

std::string Recording::refusal() const {
  const std::lock_guard lock(whole_->mutex);
  return whole_->refusal;
}

void Recording::check() const {
  if (!exec_) throw Error(errc::invalid_argument, "the recording has not ended");
  constants_.check();
  if (!storages_.are_in_place())
    throw Error(errc::invalid_argument,
                "a tensor that the recording names has been resized, and has other memory now: record anew, or keep the tensors' sizes");
  if (const auto moved = tensors_.moved())
    throw Error(errc::invalid_argument, *moved +
                                            " that the recording names has been given other memory, by set_ or .data, say: record anew, or "
                                            "copy into the tensor's own memory (copy_)");
}

}  // namespace dwell::pytorch
