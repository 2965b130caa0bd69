// Recorded operations that stay on the device and run each time that the host calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dwell/gang_program.hpp>
#include <dwell/runtime.hpp>
#include <dwell/tensor.hpp>

namespace dwell {

namespace tensor {
struct StepState;
}

struct StepSettings {
  // Memory that the operations name, whose numbers come with each call, and go back to the caller. Addresses and sizes are multiples of 4
  // bytes; each has 48 KiB at most. One output at least.
  std::vector<TensorView::Extent> inputs = {};
  std::vector<TensorView::Extent> outputs = {};
  std::uint32_t members = 0;  // as GangSettings
  // Bound on the wait of other CUDA calls (cudaFree, cudaDeviceSynchronize) for the gang to leave, as Options::lease. 0: 10 ms.
  std::chrono::nanoseconds lease{0};
  // How long the gang waits for a call before it leaves the device. A later call launches it again: about 10 us more. 0: 2 ms.
  std::chrono::nanoseconds idle{0};
};

// Runs operations on numbers of the host, with results in the host's memory, without a call of the driver: the gang polls for the caller's
// words, and the caller for the gang's. It keeps weights and state on the device between calls, in its own memory.
//
//   Step step(runtime, operations, {}, {.inputs = {x.extent()}, .outputs = {y.extent()}});
//   step(std::span<const float>(state), std::span(action));
//
// While a gang is on the device it knows nothing of what others write to the memory that the operations name, nor do others see its state
// there. Both change hands at `pause`. Whoever has written to that memory on the device waits for that before the next call.
//
// While calls keep coming, a thread of the step launches the gang anew before its lease ends, which costs no call any time. It sleeps when
// the gang has left.
//
// On a CPU a call runs the operations in the calling thread. Used by one thread at a time; the runtime must not be closed during a call.
class Step {
 public:
  // Plans and compiles, as GangProgram; `needed`: whether someone may read this memory behind a pause; null: nobody reads but outputs and
  // state. Throws as GangProgram; errc::invalid_argument for inputs, outputs and times that are not as StepSettings says.
  Step(Runtime& runtime, const OperationList& operations, const std::function<bool(const TensorView::Extent&)>& needed,
       const StepSettings& settings);
  // Pauses, and drops errors.
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // Runs the operations once: all inputs and outputs in the order of the settings, each as large as its memory. Returns when the results
  // are there. Throws errc::invalid_argument, and as the launch of a kernel; errc::task_timeout if the results do not come within
  // Options::task_timeout, and the call stays under way, for `end` to wait again; errc::stale_handle once the runtime is closed.
  void operator()(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs);
  // With one input and one output.
  template <class In, class Out>
  void operator()(std::span<const In> input, std::span<Out> output) {
    const std::span<const std::byte> from = std::as_bytes(input);
    const std::span<std::byte> to = std::as_writable_bytes(output);
    (*this)(std::span(&from, 1), std::span(&to, 1));
  }

  // The same in parts: `begin` returns at once, `done` tells whether the results are there, and `end` waits for them. One call at a time:
  // else begin and end throw errc::invalid_argument.
  void begin(std::span<const std::span<const std::byte>> inputs);
  bool done();
  void end(std::span<const std::span<std::byte>> outputs);

  // Has the gang leave the device, and waits for that: its state is in the memory that the operations name then. The next call launches it
  // again, and it loads weights and state anew. Throws errc::invalid_argument during a call, errc::device_lost.
  void pause();

  std::uint32_t members() const noexcept;
  // How often the gang has been launched.
  std::uint64_t launches() const noexcept;
  // The C++ text that was compiled. Valid as long as the step.
  const std::string& source() const noexcept;

 private:
  std::unique_ptr<tensor::StepState> state_;
};

}  // namespace dwell
