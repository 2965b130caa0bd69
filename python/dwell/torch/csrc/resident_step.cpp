#include "resident_step.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include <dwell/error.hpp>

#include "dispatch_key.hpp"
#include "fallback.hpp"
#include "memory.hpp"

namespace dwell::pytorch {

// All steps.
class ResidentStep::Registry {
 public:
  static Registry& get() {
    static auto* const all = new Registry;
    return *all;
  }
  void add(const std::shared_ptr<ResidentStep>& step) {
    const std::lock_guard lock(mutex_);
    std::erase_if(steps_, [](const auto& one) { return one.expired(); });
    steps_.push_back(step);
    has_any_.store(true, std::memory_order_relaxed);
  }
  std::vector<std::shared_ptr<ResidentStep>> all() {
    std::vector<std::shared_ptr<ResidentStep>> found;
    if (!has_any_.load(std::memory_order_relaxed)) return found;
    const std::lock_guard lock(mutex_);
    for (const auto& one : steps_)
      if (auto step = one.lock()) found.push_back(std::move(step));
    return found;
  }

 private:
  std::atomic<bool> has_any_{false};
  std::mutex mutex_;
  std::vector<std::weak_ptr<ResidentStep>> steps_;
};

ResidentStep::ResidentStep(Collector& collector, const c10::Device& device, std::shared_ptr<Recording> recording)
    : collector_(collector), device_(device), recording_(std::move(recording)) {}

std::shared_ptr<ResidentStep> ResidentStep::make(Collector& collector, const c10::Device& device, std::shared_ptr<Recording> recording,
                                                 std::span<const at::Tensor> inputs, std::span<const at::Tensor> outputs,
                                                 StepSettings settings) {
  if (recording->steps() != 1 || recording->has_slices())
    throw Error(errc::unsupported, "a resident step runs its operations once a call: record without steps, each and collect");
  recording->check();
  std::shared_ptr<ResidentStep> made(new ResidentStep(collector, device, std::move(recording)));
  made->open(inputs, outputs, std::move(settings));
  Registry::get().add(made);
  return made;
}

void ResidentStep::open(std::span<const at::Tensor> inputs, std::span<const at::Tensor> outputs, StepSettings settings) {
  hold_state();
  std::vector<TensorView::Extent> excepted;
  const auto add = [&](const char* what, std::span<const at::Tensor> tensors, std::vector<TensorView::Extent>& to) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      c10::StorageImpl& storage = storage_of(tensors[i]);
      const std::string name = std::string(what) + "[" + std::to_string(i) + "]";
      if (!recording_->names(&storage))
        throw Error(errc::invalid_argument, name + " is no tensor that the recording names: pass one that the block has used, itself");
      const bool is_input = &to == &settings.inputs;
      if (is_input && recording_->makes(&storage))
        throw Error(errc::invalid_argument, name + " is a result of the recording: an input was there before the block");
      if (!is_input && !recording_->writes(&storage))
        throw Error(errc::invalid_argument, name + " is not written by the recording: an output is a result, or a state");
      const TensorView::Extent memory = view_of(tensors[i]).extent();
      if ((memory.first | memory.end) % 4 != 0)
        throw Error(errc::invalid_argument,
                    name + " does not begin and end at a multiple of 4 bytes: use a tensor of another size or type");
      constexpr std::uint64_t kMost = 48 * 1024;
      if (memory.end - memory.first > kMost)
        throw Error(errc::invalid_argument, name + " has " + std::to_string(memory.end - memory.first) + " bytes, " +
                                                std::to_string(kMost) + " at most travel with a call");
      excepted.push_back(memory);
      to.push_back(own_place(memory));
    }
  };
  add("inputs", inputs, settings.inputs);
  add("outputs", outputs, settings.outputs);
  watch(excepted);
  std::vector<MovedMemory> moves;
  for (const State& state : state_) moves.push_back({.from = state.memory, .to = state.own_first});
  memory_ = recording_->storages().extents();
  const auto needed = [this, needed = recording_->needed()](const TensorView::Extent& memory) {
    const auto is_own = [&](const State& state) {
      return memory.overlaps({state.own_first, state.own_first + (state.memory.end - state.memory.first)});
    };
    return std::ranges::any_of(state_, is_own) || needed(memory);
  };
  step_.emplace(recording_->runtime(), moves.empty() ? recording_->operations() : recording_->operations().moved(moves), needed, settings);
}

ResidentStep::~ResidentStep() {
  try {
    const std::lock_guard lock(mutex_);
    if (step_ && is_held_) pause_held();
  } catch (const std::exception&) {  // the device is lost, or the runtime closed
  }
}

void ResidentStep::hold_state() {
  const c10::DeviceGuard guard(device_);
  const auto bytes_at = [&](std::uint64_t first, std::uint64_t bytes) {
    const std::int64_t size = static_cast<std::int64_t>(bytes);
    return at::for_blob(reinterpret_cast<void*>(first), size)
        .options(at::TensorOptions(at::kByte).device(device_))
        .target_device(device_)
        .make_tensor();
  };
  for (const TensorView::Extent& memory : recording_->state()) {
    // Plans know what addresses are multiples of.
    constexpr std::uint64_t kAlignment = 256;
    const std::uint64_t bytes = memory.end - memory.first;
    State state{.memory = memory, .own = c10::GetAllocator(device_.type())->allocate(bytes + kAlignment)};
    const auto begin = reinterpret_cast<std::uint64_t>(state.own.get());
    state.own_first = begin + (memory.first - begin) % kAlignment;
    state.theirs = bytes_at(memory.first, bytes);
    state.ours = bytes_at(state.own_first, bytes);
    state_.push_back(std::move(state));
  }
}

TensorView::Extent ResidentStep::own_place(const TensorView::Extent& memory) const {
  for (const State& state : state_)
    if (state.memory.overlaps(memory))
      return {state.own_first + (memory.first - state.memory.first), state.own_first + (memory.end - state.memory.first)};
  return memory;
}

void ResidentStep::watch(std::span<const TensorView::Extent> excepted) {
  recording_->tensors().for_each([&](c10::TensorImpl& impl, const RecordedTensors::Weak& weak) {
    const at::Tensor tensor(weak.lock());
    if (!tensor.defined() || tensor.numel() == 0 || recording_->makes(&storage_of(tensor)) || !element_type_of(tensor.scalar_type()))
      return;
    const TensorView::Extent memory = view_of(tensor).extent();
    if (std::ranges::any_of(excepted, [&](const auto& one) { return one.first <= memory.first && memory.end <= one.end; }) &&
        std::ranges::none_of(state_, [&](const State& state) { return state.memory.overlaps(memory); }))
      return;
    Watched one{.storage = &storage_of(tensor), .data = memory_of(storage_of(tensor)), .tensor = &impl, .weak = weak};
    if (!tensor.is_inference()) one.version = impl.version_counter();
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (state_[i].memory.overlaps(memory)) one.state = i;
    watched_.push_back(std::move(one));
  });
}

bool ResidentStep::is_fresh() const {
  return is_held_ && !is_stale_.load(std::memory_order_relaxed) &&
         std::ranges::none_of(watched_, [](const Watched& one) { return one.has_changed() || one.has_moved(); });
}

// Past autograd and dwell's own key: whatever context the calling thread is in.
void ResidentStep::copy(const at::Tensor& to, const at::Tensor& from) const {
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard without(the_key.both() | c10::DispatchKeySet(c10::DispatchKey::Python) |
                                                   c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot));
  to.copy_(from, true);
}

// Waits for what others have put on the current stream, and for what was collected.
void ResidentStep::await_others() const {
  collector_.flush(FlushReason::asked, true);
  if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
}

std::vector<bool> ResidentStep::changed_state() const {
  std::vector<bool> changed(state_.size(), false);
  for (const Watched& one : watched_)
    if (one.state != kNone && one.has_changed()) changed[one.state] = true;
  return changed;
}

void ResidentStep::refresh() {
  try {
    recording_->check();
  } catch (const Error&) {
    if (is_held_) step_->pause();  // it must not use memory that is gone
    throw;
  }
  const bool was_held = is_held_;
  const std::vector<bool> changed = changed_state();
  // First: what changes from here on is seen by the next call.
  is_stale_ = false;
  for (Watched& one : watched_)
    if (one.version.enabled()) one.seen = one.version.current_version();
  try {
    await_others();
    if (was_held) step_->pause();
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (!was_held || changed[i]) copy(state_[i].ours, state_[i].theirs);
    if (!state_.empty()) await_others();
  } catch (...) {
    is_stale_ = true;
    throw;
  }
  is_held_ = true;
}

void ResidentStep::pause() {
  const std::lock_guard lock(mutex_);
  if (is_held_) pause_held();
}

void ResidentStep::pause_held() {
  const std::vector<bool> changed = changed_state();
  await_others();
  step_->pause();
  for (std::size_t i = 0; i < state_.size(); ++i)
    if (!changed[i]) copy(state_[i].theirs, state_[i].ours);
  // Others may have read these tensors.
  for (Watched& one : watched_)
    if (one.state != kNone && !changed[one.state] && one.version.enabled()) one.version.bump();
  if (!state_.empty()) await_others();
  is_held_ = false;
}

void ResidentStep::pause_steps_of(const Recording& own) {
  for (const auto& step : Registry::get().all())
    if (step->recording_.get() == &own) step->pause();
}

void ResidentStep::note_written(std::span<const TensorView::Extent> memory) {
  for (const auto& step : Registry::get().all())
    if (std::ranges::any_of(memory, [&](const auto& written) {
          return std::ranges::any_of(step->memory_, [&](const auto& used) { return used.overlaps(written); });
        }))
      step->is_stale_ = true;
}

void ResidentStep::pause_all() {
  for (const auto& step : Registry::get().all()) {
    try {
      step->pause();
    } catch (const std::exception&) {  // the process ends
    }
  }
}

}  // namespace dwell::pytorch
