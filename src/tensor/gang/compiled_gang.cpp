#include "tensor/gang/compiled_gang.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <dwell/devices.hpp>

#include "tensor/device/member.hpp"
#include "tensor/gang/device_costs.hpp"
#include "tensor/gang/source.hpp"

namespace dwell::tensor::gang {

namespace {

// Shared memory of a block that a kernel may ask for, by compute capability: CUDA C++ Programming Guide, table of technical specifications.
std::uint64_t shared_bytes_of(std::string_view target) {
  constexpr std::uint64_t kKiB = 1024;
  if (target.starts_with("sm_80") || target.starts_with("sm_87")) return 163 * kKiB;
  if (target.starts_with("sm_8") || target.starts_with("sm_12")) return 99 * kKiB;
  if (target.starts_with("sm_9") || target.starts_with("sm_10") || target.starts_with("sm_11")) return 227 * kKiB;
  return target.starts_with("sm_75") ? 64 * kKiB : 48 * kKiB;
}

constexpr std::uint32_t kGroupThreadsOnCuda = 128;
constexpr unsigned kRegistersInLoop = 128;  // of a thread: they leave room for three workers a multiprocessor

// The memory of a member on a CPU, which caches hold.
constexpr std::uint64_t kLocalBytesOnCpu = std::uint64_t{1} << 20U;

}  // namespace

Limits limits_of(const DeviceSummary& device) {
  return {.most_members = device.multiprocessors, .local_bytes = shared_bytes_of(device.target), .on_cuda = true};
}

Limits limits_of(const Runtime& runtime, bool in_loop) {
  const RuntimeInfo info = runtime.info();
  const std::string& device = info.device;
  Limits limits{.local_bytes = kLocalBytesOnCpu};
  if (!device.starts_with("cuda")) return limits;
  limits.on_cuda = true;
  limits.local_bytes = shared_bytes_of("");
  for (const DeviceSummary& summary : devices()) {
    if (summary.device != device) continue;
    limits = limits_of(summary);
    limits.costs = known_costs(summary, runtime.options().warn).model;
  }
  if (!in_loop) return limits;
  limits.in_loop = true;
  limits.threads = kGroupThreadsOnCuda;
  limits.local_bytes = runtime.options().scratch_bytes;
  if (info.workers != 0) limits.most_members = std::min(limits.most_members, info.workers);
  return limits;
}

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

namespace {

Buffer<std::uint64_t> words_for(Runtime& runtime, const Plan& plan) {
  return runtime.allocate<std::uint64_t>(std::max<std::size_t>(2 * std::size_t{plan.exchanged}, 1));
}
Buffer<std::uint32_t> numbers_for(Runtime& runtime, const Plan& plan) {
  return runtime.allocate<std::uint32_t>(device::kNumbersLine + std::size_t{plan.members} * 2 * device::kNumbersOfMember);
}

}  // namespace

GangInLoop::GangInLoop(Runtime& runtime, const Plan& plan) {
  Source made = source_of(plan, Runner::loop);
  source = std::move(made.text);
  Definition how;
  how.options = options_of(runtime, true);
  if (runtime.info().device.starts_with("cuda")) how.options->max_registers = kRegistersInLoop;
  op = runtime.define_async(made.name, dwell::Source(source, "dwell/" + made.name + ".op"), how).get();
  list = runtime.allocate<std::uint32_t>(plan.list.size());
  list.write(plan.list);
  words = words_for(runtime, plan);
  numbers = numbers_for(runtime, plan);
}

CompiledGang::CompiledGang(Runtime& runtime, const Plan& plan) {
  Source made = source_of(plan, Runner::cuda);
  source = std::move(made.text);
  module = runtime.compile(dwell::Source(source, "dwell/" + made.name + ".op"), options_of(runtime, true));
  kernel = module.kernel(made.name);
  list = runtime.allocate<std::uint32_t>(plan.list.size());
  list.write(plan.list);
  words = words_for(runtime, plan);
  numbers = numbers_for(runtime, plan);
  if (passes_list(plan)) passed_list = plan.list;
  list_at = list.data();
  words_at = words.data();
  numbers_at = numbers.data();
  const std::uint64_t shared = plan.local_bytes + (passed_list.empty() ? list_bytes(plan) : 0);
  config = {.grid = {plan.members},
            .block = {plan.threads},
            .shared = static_cast<std::uint32_t>(shared),
            .cooperative = plan.members > 1,
            .exclusive = true};
}

Ticket CompiledGang::launch(std::span<const detail::LaunchArgument> arguments, void* stream) const {
  LaunchConfig in = config;
  in.stream = stream;
  return kernel.launch_list(in, arguments.data(), arguments.size());
}
PreparedLaunch CompiledGang::prepare(std::span<const detail::LaunchArgument> arguments) const {
  return kernel.prepare_list(config, arguments.data(), arguments.size());
}

detail::LaunchArgument CompiledGang::list_argument() const {
  if (passed_list.empty()) return argument_of(list_at);
  const auto bytes = static_cast<std::uint16_t>(passed_list.size() * sizeof(std::uint32_t));
  return {{Kind::structure, Kind::structure, bytes}, passed_list.data(), nullptr};
}

}  // namespace dwell::tensor::gang
