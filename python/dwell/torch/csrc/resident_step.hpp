// Steps of recordings: dwell::Step, whose weights and state are tensors that PyTorch may change between calls.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dwell/step.hpp>

#include "collector.hpp"
#include "recorded_tensors.hpp"
#include "recording.hpp"

namespace dwell::pytorch {

// A step of a recording. It has two phases: paused, when the recording's tensors hold the state, and held, when the step has the state in
// memory of its own, to which a kernel that leaves the device stores it. So no store of a kernel meets one of PyTorch's.
//
// A call needs the mutex. Threads take it and wait for it without the GIL, or try it.
class ResidentStep {
 public:
  // Compiles. Inputs and outputs are contiguous tensors that the recording names; of the settings members, lease and idle are used. Throws
  // as Step, errc::unsupported for a recording with slices or several steps, and errc::invalid_argument for tensors that it does not name.
  static std::shared_ptr<ResidentStep> make(Collector& collector, const c10::Device& device, std::shared_ptr<Recording> recording,
                                            std::span<const at::Tensor> inputs, std::span<const at::Tensor> outputs, StepSettings settings);
  // Pauses, and drops errors.
  ~ResidentStep();
  ResidentStep(const ResidentStep&) = delete;
  ResidentStep& operator=(const ResidentStep&) = delete;

  // Has all steps that use this memory read it anew. `own`: those of this recording pause first.
  static void pause_steps_of(const Recording& own);
  static void note_written(std::span<const TensorView::Extent> memory);
  // Pauses all steps, before the runtimes close. Drops errors.
  static void pause_all();

  std::mutex& mutex() { return mutex_; }
  // The following need the mutex. Returns whether the step has seen all changes of the tensors.
  bool is_fresh() const;
  // Waits for the current stream, and has the next call see all changes. Call it without the GIL. Throws dwell::Error, and as
  // Recording::check.
  void refresh();
  Step& step() { return *step_; }
  bool is_on_cpu() const { return device_.is_cpu(); }

  // Takes the mutex. Waits for the current stream and for the step to leave the device; then the recording's tensors hold the state, but
  // for those that PyTorch has changed since the step began to hold it, which stay as they are. Call it without the GIL.
  void pause();

  std::uint32_t members() const { return step_->members(); }
  std::uint64_t launches() const { return step_->launches(); }
  const std::string& source() const { return step_->source(); }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  // State: a piece of the recording's memory, and where the step has it.
  struct State {
    TensorView::Extent memory;
    c10::DataPtr own;
    std::uint64_t own_first = 0;
    at::Tensor theirs;  // bytes of `memory`
    at::Tensor ours;
  };
  // A tensor that PyTorch may change.
  struct Watched {
    c10::VariableVersion version;  // disabled for inference tensors
    std::uint32_t seen = 0;
    c10::StorageImpl* storage = nullptr;  // the recording keeps it
    const void* data = nullptr;
    c10::TensorImpl* tensor = nullptr;
    RecordedTensors::Weak weak;
    std::size_t state = kNone;  // that it lies in

    bool has_changed() const { return version.enabled() && version.current_version() != seen; }
    bool has_moved() const {
      return memory_of(*storage) != data || (!weak.expired() && tensor->unsafe_storage().unsafeGetStorageImpl() != storage);
    }
  };
  class Registry;

  ResidentStep(Collector& collector, const c10::Device& device, std::shared_ptr<Recording> recording);
  void open(std::span<const at::Tensor> inputs, std::span<const at::Tensor> outputs, StepSettings settings);
  void hold_state();
  void watch(std::span<const TensorView::Extent> excepted);
  TensorView::Extent own_place(const TensorView::Extent& memory) const;
  void copy(const at::Tensor& to, const at::Tensor& from) const;
  void await_others() const;
  std::vector<bool> changed_state() const;
  void pause_held();

  Collector& collector_;
  const c10::Device device_;
  const std::shared_ptr<Recording> recording_;
  std::vector<TensorView::Extent> memory_;  // that it reads or writes
  std::vector<State> state_;
  std::vector<Watched> watched_;
  std::optional<Step> step_;
  std::mutex mutex_;
  bool is_held_ = false;
  std::atomic<bool> is_stale_{false};  // a replay has written its memory
};

}  // namespace dwell::pytorch
