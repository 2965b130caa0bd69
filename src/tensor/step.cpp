#include <dwell/step.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <dwell/error.hpp>

#include "base/mutex.hpp"
#include "base/relax.hpp"
#include "tensor/device/resident_member.hpp"
#include "tensor/gang/compiled_gang.hpp"
#include "tensor/gang/noted.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/step_calls.hpp"
#include "tensor/gang/step_keeper.hpp"

namespace dwell {

namespace tensor {

namespace {

using Extent = TensorView::Extent;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kUsualLease = std::chrono::milliseconds(10);
constexpr std::chrono::nanoseconds kUsualIdle = std::chrono::milliseconds(2);
constexpr std::size_t kLine = 16;  // words: what the host writes and what it reads lie in lines of their own

std::size_t bytes_of(const Extent& memory) { return memory.end - memory.first; }
std::uint32_t words_of(const std::vector<Extent>& all) {
  std::size_t words = 0;
  for (const Extent& memory : all) words += bytes_of(memory) / sizeof(std::uint32_t);
  return static_cast<std::uint32_t>(words);
}
std::size_t in_lines(std::size_t words) { return (words + kLine - 1) / kLine * kLine; }

template <class Bytes>
void check_sizes(const char* what, std::span<const Bytes> given, const std::vector<Extent>& wanted) {
  if (given.size() != wanted.size())
    throw Error(errc::invalid_argument, std::string("a step has ") + std::to_string(wanted.size()) + " " + what + "s, " +
                                            std::to_string(given.size()) + " were given");
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i].size() != bytes_of(wanted[i]))
      throw Error(errc::invalid_argument, std::string(what) + " " + std::to_string(i) + " of a step has " +
                                              std::to_string(bytes_of(wanted[i])) + " bytes, " + std::to_string(given[i].size()) +
                                              " were given");
}

}  // namespace

// A gang on a GPU, and its calls.
class ResidentGang {
 public:
  ResidentGang(Runtime& runtime, const gang::Plan& plan, const StepSettings& settings)
      : runtime_(runtime), gang_(runtime, plan), outputs_(words_of(settings.outputs)), stream_(runtime.make_stream()) {
    const std::size_t inputs = in_lines(words_of(settings.inputs));
    host_ = runtime.allocate<std::uint64_t>(2 * kLine + inputs + outputs_, Memory::host);
    arrivals_ = runtime.allocate<std::uint64_t>(std::size_t{plan.arrived} + 1);
    const std::chrono::nanoseconds lease = settings.lease.count() != 0 ? settings.lease : kUsualLease;
    // Two kernels may follow each other, as leases of the loop.
    const std::chrono::nanoseconds of_kernel = lease * 9 / 20;
    auto* const words = reinterpret_cast<u64*>(host_.data());
    memory_ = {.control = words,
               .inputs = words + 2 * kLine,
               .outputs = words + 2 * kLine + inputs,
               .left = reinterpret_cast<std::uint32_t*>(words + kLine),
               .arrivals = reinterpret_cast<u64*>(arrivals_.data()),
               .lease_ns = static_cast<u64>(of_kernel.count()),
               .idle_ns = static_cast<u64>((settings.idle.count() != 0 ? settings.idle : kUsualIdle).count()),
               .kernel = 0,
               .unused = 0};
    std::uint64_t* const here = host_.host().data();
    calls_.emplace(gang::StepCalls::Memory{.control = here,
                                           .inputs = here + 2 * kLine,
                                           .outputs = here + 2 * kLine + inputs,
                                           .left = reinterpret_cast<const std::uint32_t*>(here + kLine)},
                   outputs_, of_kernel, [this](std::uint32_t number) { launch(number); });
    keeper_.emplace(calls_->between_looks(), [this] { return calls_->look_ahead(); });
  }
  ~ResidentGang() {
    if (process_ != getpid()) return;  // the parent's kernels
    try {
      pause();
    } catch (const Error&) {  // the device is lost, or the runtime closed: the kernels are gone
    }
  }
  ResidentGang(const ResidentGang&) = delete;
  ResidentGang& operator=(const ResidentGang&) = delete;

  void begin(std::span<const std::span<const std::byte>> inputs) {
    require_open();
    std::uint32_t word = 0;
    for (const std::span<const std::byte> input : inputs) {
      calls_->put(word, input);
      word += static_cast<std::uint32_t>(input.size() / sizeof(std::uint32_t));
    }
    calls_->begin();
  }
  bool done() { return calls_->done(); }
  void wait() {
    Clock::time_point begun;
    for (std::uint32_t round = 0; !calls_->done(); ++round) {
      relax();
      constexpr std::uint32_t kRoundsOfLook = 1U << 14U;
      if (round % kRoundsOfLook != kRoundsOfLook - 1) continue;
      if (begun == Clock::time_point()) begun = Clock::now();
      look(begun);
    }
  }
  void end(std::span<const std::span<std::byte>> outputs) const {
    std::uint32_t word = 0;
    for (const std::span<std::byte> output : outputs) {
      calls_->get(word, output);
      word += static_cast<std::uint32_t>(output.size() / sizeof(std::uint32_t));
    }
  }
  void pause() {
    if (calls_->launched() == 0) return;
    require_open();
    calls_->leave();
    last().wait();
  }

  std::uint64_t launches() const { return calls_->launched(); }
  const std::string& source() const { return gang_.source; }

 private:
  // The host's memory is gone with the runtime. Throws errc::stale_handle.
  void require_open() const { static_cast<void>(host_.host()); }
  // Called by the caller and by the keeper's thread, one at a time (StepCalls::Launch).
  void launch(std::uint32_t number) {
    memory_.kernel = number;
    const std::array<detail::LaunchArgument, 4> arguments{gang_.list_argument(), gang::argument_of(gang_.words_at),
                                                          gang::argument_of(gang_.numbers_at), gang::argument_of(memory_)};
    const Ticket launched = gang_.launch(arguments, stream_.handle());
    {
      const Lock lock(mutex_);
      last_ = launched;
    }
    keeper_->wake();
  }
  Ticket last() const {
    const Lock lock(mutex_);
    return last_;
  }
  // Throws if the results will never come.
  void look(Clock::time_point begun) {
    require_open();
    if (const Ticket last = this->last(); !calls_->have_left() && last.done()) last.wait();  // throws the device's error
    const std::chrono::nanoseconds most = runtime_.options().task_timeout;
    if (most.count() != 0 && Clock::now() - begun > most)
      throw Error(errc::task_timeout, "a step has not ended within " +
                                          std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(most).count()) +
                                          " ms (the option task_timeout)");
  }

  Runtime& runtime_;
  const pid_t process_ = getpid();
  gang::CompiledGang gang_;
  const std::uint32_t outputs_;  // words
  Buffer<std::uint64_t> host_;   // a line of the control word, one of the last kernel that has left, inputs, outputs
  Buffer<std::uint64_t> arrivals_;
  device::StepMemory memory_{};
  std::optional<gang::StepCalls> calls_;
  Stream stream_;
  mutable Mutex mutex_;
  Ticket last_ DWELL_GUARDED_BY(mutex_);    // of the last kernel
  std::optional<gang::StepKeeper> keeper_;  // last: its thread ends before the members that it uses
};

struct StepState {
  std::vector<Extent> inputs;
  std::vector<Extent> outputs;
  std::shared_ptr<const Noted> noted;  // has memory that the operations name
  std::uint32_t members = 1;
  bool is_begun = false;
  // One of them.
  std::optional<ResidentGang> resident;
  std::optional<GangProgram> program;
  Buffer<std::uint8_t> open;  // memory that goes with the runtime, as tensors may: its `host` throws then

  void require_call(bool begun) const {
    if (is_begun != begun)
      throw Error(errc::invalid_argument, begun ? "no call of the step has begun" : "a call of the step is under way: end it first");
  }
};

}  // namespace tensor

Step::Step(Runtime& runtime, const OperationList& operations, const std::function<bool(const TensorView::Extent&)>& needed,
           const StepSettings& settings)
    : state_(std::make_unique<tensor::StepState>()) {
  using tensor::Extent;
  if (settings.lease.count() < 0 || settings.idle.count() < 0)
    throw Error(errc::invalid_argument, "a step's lease and idle time are 0, for the default, or above");
  if (settings.outputs.empty()) throw Error(errc::invalid_argument, "StepSettings::outputs: a step has one output at least");
  tensor::StepState& state = *state_;
  state.inputs = settings.inputs;
  state.outputs = settings.outputs;
  state.noted = operations.state_;
  const auto is_needed = [&](const Extent& memory) {
    return (needed != nullptr && needed(memory)) ||
           std::ranges::any_of(settings.outputs, [&](const Extent& output) { return output.overlaps(memory); });
  };
  tensor::gang::Limits limits = tensor::gang::limits_of(runtime);
  limits.members = settings.members;
  limits.on_call = true;
  std::vector<GangSlices> slices;
  for (const Extent& input : settings.inputs) slices.push_back({.memory = input});
  for (const Extent& output : settings.outputs) slices.push_back({.memory = output, .output = true});
  limits.slices = slices;
  const tensor::gang::Plan plan = tensor::gang::plan_of(*operations.state_, is_needed, limits);
  if (limits.on_cuda) {
    state.members = plan.members;
    state.resident.emplace(runtime, plan, settings);
  } else {
    state.program.emplace(runtime, operations, is_needed);
    state.open = runtime.allocate<std::uint8_t>(1);
  }
}

Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

void Step::operator()(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs) {
  tensor::check_sizes<std::span<std::byte>>("output", outputs, state_->outputs);
  begin(inputs);
  end(outputs);
}

void Step::begin(std::span<const std::span<const std::byte>> inputs) {
  tensor::StepState& state = *state_;
  state.require_call(false);
  tensor::check_sizes<std::span<const std::byte>>("input", inputs, state.inputs);
  if (state.resident) {
    state.resident->begin(inputs);
  } else {
    static_cast<void>(state.open.host());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      std::memcpy(reinterpret_cast<void*>(state.inputs[i].first), inputs[i].data(), inputs[i].size());
    state.program->run();
  }
  state.is_begun = true;
}

bool Step::done() {
  state_->require_call(true);
  return !state_->resident || state_->resident->done();
}

void Step::end(std::span<const std::span<std::byte>> outputs) {
  tensor::StepState& state = *state_;
  state.require_call(true);
  tensor::check_sizes<std::span<std::byte>>("output", outputs, state.outputs);
  if (state.resident) {
    state.resident->wait();
    state.resident->end(outputs);
  } else {
    static_cast<void>(state.open.host());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      std::memcpy(outputs[i].data(), reinterpret_cast<const void*>(state.outputs[i].first), outputs[i].size());
  }
  state.is_begun = false;
}

void Step::pause() {
  state_->require_call(false);
  if (state_->resident) state_->resident->pause();
}

std::uint32_t Step::members() const noexcept { return state_->members; }
std::uint64_t Step::launches() const noexcept { return state_->resident ? state_->resident->launches() : 0; }
const std::string& Step::source() const noexcept { return state_->resident ? state_->resident->source() : state_->program->source(); }

}  // namespace dwell
