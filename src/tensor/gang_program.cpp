#include <dwell/gang_program.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <dwell/devices.hpp>
#include <dwell/error.hpp>

#include "tensor/device/member.hpp"
#include "tensor/gang/noted.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/source.hpp"

namespace dwell {

namespace tensor {

struct GangState {
  Runtime* runtime = nullptr;
  std::uint32_t members = 1;
  std::uint32_t threads = 1;
  std::uint32_t steps = 0;
  std::uint32_t repeats = 1;
  std::string source;
  std::shared_ptr<const Noted> noted;  // has memory that the operations name
  Buffer<std::uint32_t> list;
  // CUDA: the words of exchanges, and the number of the last one of each member.
  Module module;
  Kernel<> kernel;
  PreparedLaunch prepared;
  LaunchConfig config;
  Buffer<std::uint64_t> words;
  Buffer<std::uint32_t> numbers;
  // Values of the kernel's arguments.
  std::vector<std::uint32_t> passed_list;  // empty: the list's address is passed
  const std::uint32_t* list_at = nullptr;
  std::uint64_t* words_at = nullptr;
  std::uint32_t* numbers_at = nullptr;
  // CPU. The function is the operator's, whose code stays as long as the runtime is open.
  Operator<> op;
  Buffer<std::uint8_t> local;
  Buffer<std::uint64_t> nothing;
  gang::FunctionOfCaller function = nullptr;
};

namespace {

// Shared memory of a block that a kernel may ask for, by compute capability: CUDA C++ Programming Guide, table of technical specifications.
std::uint64_t shared_bytes_of(std::string_view target) {
  constexpr std::uint64_t kKiB = 1024;
  if (target.starts_with("sm_80") || target.starts_with("sm_87")) return 163 * kKiB;
  if (target.starts_with("sm_8") || target.starts_with("sm_12")) return 99 * kKiB;
  if (target.starts_with("sm_9") || target.starts_with("sm_10") || target.starts_with("sm_11")) return 227 * kKiB;
  return target.starts_with("sm_75") ? 64 * kKiB : 48 * kKiB;
}

// The memory of a member on a CPU, which caches hold.
constexpr std::uint64_t kLocalBytesOnCpu = std::uint64_t{1} << 20U;

gang::Limits limits_of(const Runtime& runtime, const GangSettings& settings) {
  const std::string device = runtime.info().device;
  gang::Limits limits{.members = settings.members, .local_bytes = kLocalBytesOnCpu, .repeats = settings.repeats, .slices = settings.slices};
  if (!device.starts_with("cuda")) return limits;
  limits.on_cuda = true;
  limits.local_bytes = shared_bytes_of("");
  for (const DeviceSummary& summary : devices()) {
    if (summary.device != device) continue;
    limits.local_bytes = shared_bytes_of(summary.target);
    limits.most_members = summary.multiprocessors;
  }
  return limits;
}

// As operators that run programs: without contraction, so that elementwise steps give the bits of the batch's tasks. On a CPU also with
// the widest vectors that the processor has and that pay, and without errno and exceptions' flags, which nobody reads: these keep the bits.
CompileOptions options_of(const Runtime& runtime, bool on_cuda) {
  CompileOptions options = on_cuda ? CompileOptions{} : runtime.options().compile;
  options.contract = false;
  if (on_cuda || options.debug) return options;
  std::vector<std::string> flags{"-fno-math-errno", "-fno-trapping-math"};
#if defined(__x86_64__)
  const bool is_chosen = std::ranges::any_of(options.flags, [](const std::string& flag) { return flag.starts_with("-m"); });
  if (!is_chosen && __builtin_cpu_supports("avx2") != 0) flags.emplace_back("-mavx2");
#endif
  // The user's flags come last, and win.
  options.flags.insert(options.flags.begin(), flags.begin(), flags.end());
  return options;
}

// The arguments of the kernel: the list, the words, the numbers, and the runs of the operations. They point into the state.
std::array<detail::LaunchArgument, 4> arguments_of(const GangState& state) {
  const auto argument = [](const auto& value) {
    return detail::LaunchArgument{detail::kernel_parameter<std::remove_cvref_t<decltype(value)>>(), &value, nullptr};
  };
  detail::LaunchArgument list = argument(state.list_at);
  if (!state.passed_list.empty()) {
    const auto bytes = static_cast<std::uint16_t>(state.passed_list.size() * sizeof(std::uint32_t));
    list = {{Kind::structure, Kind::structure, bytes}, state.passed_list.data(), nullptr};
  }
  return {list, argument(state.words_at), argument(state.numbers_at), argument(state.repeats)};
}

std::uint32_t steps_of_run(const gang::Plan& plan, std::uint32_t repeats) {
  std::size_t steps = 0;
  for (std::size_t list = 0; list < plan.begins.size(); ++list) steps += gang::steps_of(plan, list).size() * (list == 1 ? repeats : 1);
  return static_cast<std::uint32_t>(steps);
}

}  // namespace

const Noted& noted_in(const OperationList& list) { return *list.state_; }

}  // namespace tensor

OperationList::OperationList() : state_(std::make_shared<tensor::Noted>()) {}
std::size_t OperationList::size() const noexcept { return state_->operations.size(); }

GangProgram::GangProgram(Runtime& runtime, const OperationList& operations, const std::function<bool(const TensorView::Extent&)>& needed,
                         const GangSettings& settings)
    : state_(std::make_unique<tensor::GangState>()) {
  using tensor::gang::Plan;
  if (settings.repeats == 0) throw Error(errc::invalid_argument, "GangSettings::repeats: a program runs its operations once at least");
  const tensor::gang::Limits limits = tensor::limits_of(runtime, settings);
  const Plan plan = tensor::gang::plan_of(*operations.state_, needed, limits);
  tensor::gang::Source source = tensor::gang::source_of(plan, limits.on_cuda ? tensor::gang::Runner::cuda : tensor::gang::Runner::cpu);
  tensor::GangState& state = *state_;
  state.runtime = &runtime;
  state.noted = operations.state_;
  state.members = plan.members;
  state.threads = plan.threads;
  state.repeats = settings.repeats;
  state.steps = tensor::steps_of_run(plan, settings.repeats);
  state.source = std::move(source.text);
  const CompileOptions options = tensor::options_of(runtime, limits.on_cuda);
  const Source text(state.source, "dwell/" + source.name + ".op");
  state.list = runtime.allocate<std::uint32_t>(plan.list.size());
  state.list.write(plan.list);
  if (limits.on_cuda) {
    state.module = runtime.compile(text, options);
    state.kernel = state.module.kernel(source.name);
    state.words = runtime.allocate<std::uint64_t>(std::max<std::size_t>(2 * std::size_t{plan.exchanged}, 1));
    state.numbers = runtime.allocate<std::uint32_t>(device::kNumbersLine + std::size_t{plan.members} * device::kNumbersOfMember);
    if (tensor::gang::passes_list(plan)) state.passed_list = plan.list;
    state.list_at = state.list.data();
    state.words_at = state.words.data();
    state.numbers_at = state.numbers.data();
    const std::uint64_t shared = plan.local_bytes + (state.passed_list.empty() ? tensor::gang::list_bytes(plan) : 0);
    state.config = {
        .grid = {plan.members}, .block = {plan.threads}, .shared = static_cast<std::uint32_t>(shared), .cooperative = plan.members > 1};
    const auto arguments = tensor::arguments_of(state);
    state.prepared = state.kernel.prepare_list(state.config, arguments.data(), arguments.size());
  } else {
    Definition how;
    how.options = options;
    state.op = runtime.define_async(source.name, text, how).get();
    state.local = runtime.allocate<std::uint8_t>(std::max<std::size_t>(plan.local_bytes, 1));
    state.nothing = runtime.allocate<std::uint64_t>(0);
    const Buffer<std::uint64_t> place = runtime.allocate<std::uint64_t>(1);
    runtime.submit(state.op, state.list, state.local, place, std::uint32_t{0}).wait();
    std::uint64_t address = 0;
    place.read(std::span(&address, 1));
    state.function = reinterpret_cast<tensor::gang::FunctionOfCaller>(address);
  }
}

GangProgram::~GangProgram() = default;
GangProgram::GangProgram(GangProgram&&) noexcept = default;
GangProgram& GangProgram::operator=(GangProgram&&) noexcept = default;

Ticket GangProgram::launch(void* stream) const {
  const tensor::GangState& state = *state_;
  if (state.op) return state.runtime->submit(state.op, state.list, state.local, state.nothing, state.repeats, drain);
  LaunchConfig config = state.config;
  config.stream = stream;
  const auto arguments = tensor::arguments_of(state);
  return state.kernel.launch_list(config, arguments.data(), arguments.size());
}

void GangProgram::enqueue(void* stream) const {
  if (state_->op) throw Error(errc::unsupported, "a program of a gang is enqueued in streams of CUDA alone: launch it");
  state_->prepared.enqueue(stream);
}

void GangProgram::run() const {
  const tensor::GangState& state = *state_;
  if (state.function == nullptr) throw Error(errc::unsupported, "a program of a gang on CUDA runs in no thread of the host: launch it");
  // Both throw once the runtime has closed, when the function is gone too: UBSan reads a function before it evaluates its arguments.
  const std::uint32_t* const list = state.list.host().data();
  std::uint8_t* const local = state.local.host().data();
  state.function(list, local, state.repeats);
}

std::uint32_t GangProgram::members() const noexcept { return state_->members; }
std::uint32_t GangProgram::steps() const noexcept { return state_->steps; }
const std::string& GangProgram::source() const noexcept { return state_->source; }

}  // namespace dwell
