#include <dwell/gang_program.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/graph.hpp>

#include "tensor/gang/compiled_gang.hpp"
#include "tensor/gang/noted.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/source.hpp"

namespace dwell {

namespace tensor {

struct GangState {
  Runtime* runtime = nullptr;
  std::uint32_t members = 1;
  std::uint32_t steps = 0;
  std::uint32_t repeats = 1;
  std::shared_ptr<const Noted> noted;  // has memory that the operations name
  bool in_loop = false;
  // CUDA: a kernel; in the loop.
  std::optional<gang::CompiledGang> gang;
  PreparedLaunch prepared;
  std::optional<gang::GangInLoop> loop;
  // CPU. The function is the operator's, whose code stays as long as the runtime is open.
  std::string source;
  Operator<> op;
  Buffer<std::uint32_t> list;
  Buffer<std::uint8_t> local;
  Buffer<std::uint64_t> nothing;
  gang::FunctionOfCaller function = nullptr;
};

namespace {

// The arguments of the kernel: the list, the words, the numbers, and the runs of the operations. They point into the state.
std::array<detail::LaunchArgument, 4> arguments_of(const GangState& state) {
  const gang::CompiledGang& gang = *state.gang;
  return {gang.list_argument(), gang::argument_of(gang.words_at), gang::argument_of(gang.numbers_at), gang::argument_of(state.repeats)};
}

// The program for the loop's workers. An operator more may leave the image with fewer of them: then it is planned anew.
gang::Plan put_into_loop(GangState& state, const std::function<gang::Plan(const gang::Limits&)>& plan_of, gang::Limits limits) {
  for (;;) {
    gang::Plan plan = plan_of(limits);
    if (const std::uint64_t bytes = gang::bytes_in_loop(plan); bytes > limits.local_bytes)
      throw Error(errc::unsupported, "the program does not fit a gang: it takes " + std::to_string(bytes) +
                                         " bytes of a worker's memory; the option scratch_bytes gives it " +
                                         std::to_string(limits.local_bytes));
    state.loop.emplace(*state.runtime, plan);
    const std::uint32_t workers = state.runtime->info().workers;
    if (workers == 0 || plan.members <= workers) return plan;  // 0: no image yet; instantiate and submit check again
    limits.most_members = workers;
  }
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

OperationList OperationList::moved(std::span<const MovedMemory> moves) const {
  constexpr std::uint64_t kAlignment = 256;
  for (const MovedMemory& one : moves)
    if ((one.from.first - one.to) % kAlignment != 0)
      throw Error(errc::invalid_argument, "moved memory has the same address modulo " + std::to_string(kAlignment));
  OperationList made;
  made.state_->moved_from = state_;
  for (const tensor::NotedOperation& operation : state_->operations)
    made.state_->operations.push_back(tensor::gang::moved(operation, moves));
  return made;
}

GangProgram::GangProgram(Runtime& runtime, const OperationList& operations, const std::function<bool(const TensorView::Extent&)>& needed,
                         const GangSettings& settings)
    : state_(std::make_unique<tensor::GangState>()) {
  using tensor::gang::Plan;
  if (settings.repeats == 0) throw Error(errc::invalid_argument, "GangSettings::repeats: a program runs its operations once at least");
  tensor::gang::Limits limits = tensor::gang::limits_of(runtime, settings.in_loop);
  limits.members = settings.members;
  limits.repeats = settings.repeats;
  limits.slices = settings.slices;
  const auto plan_of = [&](const tensor::gang::Limits& its) { return tensor::gang::plan_of(*operations.state_, needed, its); };
  tensor::GangState& state = *state_;
  state.runtime = &runtime;
  state.noted = operations.state_;
  state.in_loop = settings.in_loop;
  const Plan plan = limits.on_cuda && settings.in_loop ? tensor::put_into_loop(state, plan_of, limits) : plan_of(limits);
  state.members = plan.members;
  state.repeats = settings.repeats;
  state.steps = tensor::steps_of_run(plan, settings.repeats);
  if (state.loop) return;
  if (limits.on_cuda) {
    const tensor::gang::CompiledGang& gang = state.gang.emplace(runtime, plan);
    const auto arguments = tensor::arguments_of(state);
    state.prepared = gang.prepare(arguments);
    return;
  }
  tensor::gang::Source source = tensor::gang::source_of(plan, tensor::gang::Runner::cpu);
  state.source = std::move(source.text);
  state.list = runtime.allocate<std::uint32_t>(plan.list.size());
  state.list.write(plan.list);
  Definition how;
  how.options = tensor::gang::options_of(runtime, false);
  state.op = runtime.define_async(source.name, Source(state.source, "dwell/" + source.name + ".op"), how).get();
  state.local = runtime.allocate<std::uint8_t>(std::max<std::size_t>(plan.local_bytes, 1));
  state.nothing = runtime.allocate<std::uint64_t>(0);
  const Buffer<std::uint64_t> place = runtime.allocate<std::uint64_t>(1);
  runtime.submit(state.op, state.list, state.local, place, std::uint32_t{0}).wait();
  std::uint64_t address = 0;
  place.read(std::span(&address, 1));
  state.function = reinterpret_cast<tensor::gang::FunctionOfCaller>(address);
}

GangProgram::~GangProgram() = default;
GangProgram::GangProgram(GangProgram&&) noexcept = default;
GangProgram& GangProgram::operator=(GangProgram&&) noexcept = default;

Ticket GangProgram::launch(void* stream) const {
  const tensor::GangState& state = *state_;
  if (state.in_loop && stream != nullptr)
    throw Error(errc::invalid_argument, "a program in the loop (GangSettings::in_loop) runs in no stream: launch it without one");
  if (state.loop) {
    const tensor::gang::GangInLoop& loop = *state.loop;
    if (state.members == 1) return state.runtime->submit(loop.op, loop.list, loop.words, loop.numbers, state.repeats, drain);
    return state.runtime->submit(loop.op, loop.list, loop.words, loop.numbers, state.repeats, gang(state.members), drain);
  }
  if (state.op) return state.runtime->submit(state.op, state.list, state.local, state.nothing, state.repeats, drain);
  return state.gang->launch(tensor::arguments_of(state), stream);
}

void GangProgram::enqueue(void* stream) const {
  if (!state_->gang)
    throw Error(errc::unsupported, state_->loop ? "a program in the loop (GangSettings::in_loop) is enqueued in no stream: launch it"
                                                : "a program of a gang is enqueued in streams of CUDA alone: launch it");
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
const std::string& GangProgram::source() const noexcept {
  return state_->gang ? state_->gang->source : state_->loop ? state_->loop->source : state_->source;
}

namespace tensor {
namespace {

// `name`: nothing, or the node's.
template <class... Name>
Node add_to(Graph& graph, const GangState& state, const Name&... name) {
  if (state.gang)
    throw Error(errc::invalid_argument,
                "the program of a gang is an ordinary kernel, which no graph launches: make it with GangSettings::in_loop");
  if (!state.loop) return graph.add(name..., state.op, state.list, state.local, state.nothing, state.repeats);
  const gang::GangInLoop& loop = *state.loop;
  if (state.members == 1) return graph.add(name..., loop.op, loop.list, loop.words, loop.numbers, state.repeats);
  return graph.add(name..., loop.op, loop.list, loop.words, loop.numbers, state.repeats, dwell::gang(state.members));
}

}  // namespace
}  // namespace tensor

Node Graph::add(const GangProgram& program) { return tensor::add_to(*this, *program.state_); }
Node Graph::add(std::string_view name, const GangProgram& program) { return tensor::add_to(*this, *program.state_, name); }

}  // namespace dwell
