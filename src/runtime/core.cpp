#include "runtime/core.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "base/callback.hpp"
#include "runtime/caught.hpp"
#include "runtime/collect/heap_operators.hpp"
#include "runtime/device/backoff.hpp"
#include "runtime/device/blame.hpp"
#include "runtime/observe/clock_probe.hpp"
#include "runtime/option_check.hpp"
#include "runtime/tasks/failed_launches.hpp"

namespace dwell::runtime {

namespace {

// Returns the options with their functions wrapped as callbacks of the runtime.
Options with_callbacks(Options options, std::uint64_t runtime) {
  if (options.warn)
    options.warn = [runtime, warn = std::move(options.warn)](std::string_view line) {
      const Callback callback(runtime, "the callback of the option warn");
      warn(line);
    };
  if (options.heap.on_pressure)
    options.heap.on_pressure = [runtime, warn = options.warn, call = std::move(options.heap.on_pressure)](const HeapStatistics& now) {
      const Callback callback(runtime, "the callback of the option heap.on_pressure");
      const std::optional<Error> failure = failure_of(errc::invalid_argument, [&] { call(now); });
      if (failure && warn) warn(std::string("the callback of the option heap.on_pressure has thrown: ") + failure->what());
    };
  return options;
}

}  // namespace

Core::Core(Options options, std::uint64_t first_position, detail::Shell* shell)
    : warn_(options.warn),
      options_(with_callbacks(std::move(options), shell->lineage->runtime)),
      first_position_(first_position),
      shell_(shell) {
  check_options(options_, first_position_);
  static_cast<void>(no_memory());  // made while there is memory
  OpenedDevice opened = shell_->lineage->open(options_);
  backend_ = std::move(opened.backend);
  info_ = backend_->info();
  const std::uint32_t workers = options_.workers != 0 ? options_.workers : info_.default_workers;
  check_options(options_, info_, workers);
  const std::uint64_t runtime = shell_->lineage->runtime;
  const auto& warn = options_.warn;
  LoopMemory::Ring ring;
  if (options_.live) {
    flight_ = std::make_unique<FlightRecorder>(*backend_, runtime, info_.device, workers, options_.ring_slots, warn);
    if (flight_->ring() != nullptr) ring = {flight_->ring(), flight_->device_ring()};
  }
  const auto name_of = [this](std::uint32_t opcode) { return registry_->table().name_of(opcode); };
  // No lease starts before all of this exists.
  devices_.add(Device::Parts{*backend_, options_, workers, first_position_, ring, flight_ == nullptr ? 0 : flight_->device(), name_of,
                             [this](const std::string& why, const auto& holders, bool running) { return describe(why, holders, running); },
                             [this] { observation_->log().woken(); }, [this] { observation_->log().settle(); },
                             [this] { return observation_->clock().to_device(HostEvents::now()); }});
  device().queue().look_up_launches(failed_launches(*backend_, device().memory(), graphs_));
  observation_ =
      std::make_unique<Observation>(Observation::Parts{*backend_, device(), graphs_, options_, runtime, warn, name_of, clock_reader()});
  heap_ = std::make_unique<HeapMemory>(*backend_, keeper(), options_.heap, workers, warn);
  Registry::Settings settings{options_.compile,
                              options_.compile_threads,
                              options_.tier,
                              options_.parts,
                              warn,
                              options_.limits,
                              {&observation_->meters(), flight_.get(), &observation_->events()},
                              [this] {
                                heap_->ensure();
                                if (collector_ != nullptr) collector_->watch();
                              }};
  if (info_.on_host) settings.tier = Tier::relocatable;
  registry_ = std::make_unique<Registry>(std::move(opened.compiler), *backend_, keeper(), queue(), shell_, std::move(settings));
  if (options_.priorities) registry_->need(device::part::levels);
  if (options_.metrics == Metering::times) registry_->need(device::part::times);
  kernels_ = std::make_unique<Kernels>(registry_->compiler(), *backend_, keeper(), shell_);
  completions_ = std::make_unique<Completions>(
      queue(), kernels_->launches, options_.bursts, [this](std::uint64_t position) { return queue().done(position) || keeper().failed(); },
      warn, runtime);
  buffers_ = std::make_unique<Buffers>(
      *backend_, queue(), keeper(), kernels_->launches, notifier(), graphs_, shell_,
      [this](std::uint64_t position) {
        // A callback of a graph would wait for its own graph, or for later tasks.
        if (!host_calls().runs_here()) wait(position, std::nullopt);
      },
      options_.device_memory);
  tasks_.emplace(Tasks::Parts{this, options_, OpenCheck(keeper(), *shell_), *backend_, devices_, device(), graphs_, *observation_,
                              *registry_, *kernels_, *completions_, *buffers_, *heap_, warn});
  collector_ = std::make_unique<Collector>(
      Collector::Parts{*backend_, *heap_, device(), graphs_, collect_kernels(), warn, options_.heap.on_pressure});
  inspector_ = std::make_unique<Inspector>(
      *backend_, keeper(), registry_->table(),
      Inspector::Tell{[this] { return metrics(); }, [this] { return info(); }, [this] { return diagnose(); }}, warn, runtime);
  observation_->align_for_waits();  // or tasks before the first snapshot would not be sampled
  if (options_.live) publish();
}

Core::~Core() {
  // Ends threads before the parts they use: the registry's use the keeper, the keeper's asks the other parts for suspects, and the
  // watchdog's uses all.
  published_.reset();
  observation_->end_timeline();
  tasks_->watch().stop();
  collector_->stop();
  collector_->finish();
  registry_->close();
  notifier().finish();
  host_calls().finish();
  observation_->log().finish();
  heap_->finish();
  device().end_keeper();
}

std::string Core::describe(const std::string& why, const std::vector<InFlightTasks::Holder>& holders, bool running) {
  const auto name_of = [this](std::uint32_t opcode) { return registry_->table().name_of(opcode); };
  const auto launch_at = [this](std::uint64_t position) {
    const std::optional<RingView::Task> task = device().ring().at(position);
    return title_of(task ? graphs_.name_of(task->graph) : "");
  };
  std::string text = why + blame(holders, running, kernels_ == nullptr ? "" : kernels_->launches.in_flight(), name_of, launch_at);
  if (flight_ == nullptr) return text;
  const auto& path = flight_->keep(text, [&](const live::FlightEntry& entry) { return details_of(entry, graphs_, name_of); });
  if (!path.empty()) text += "; what each worker did last: dwell post-mortem " + path.string();
  return text;
}

DeviceClock::Read Core::clock_reader() {
  if (info_.on_host) return {};
  const auto run = [this](const ClockProbe::Module& module, std::span<const detail::LaunchArgument> arguments,
                          const std::function<bool()>& meanwhile) {
    const std::uint64_t number =
        launch(module, 0, LaunchConfig{.grid = {1}, .block = {1}}, arguments.data(), arguments.size()) | detail::kLaunch;
    while (meanwhile() && !done(number)) {}
    wait(number, std::nullopt);
  };
  const auto probe = std::make_shared<ClockProbe>(
      ClockProbe::Kernels{*backend_, [this](const Source& source) { return compile(source, std::nullopt, {}); }, run});
  return [probe] { return probe->read(); };
}

CollectKernel::Kernels Core::collect_kernels() {
  return {*backend_, [this](const Source& source, const CompileOptions& options) { return compile(source, options, {}); },
          [this](const CollectKernel::Module& module, const LaunchConfig& config, std::span<const detail::LaunchArgument> arguments) {
            const std::uint64_t number = launch(module, 0, config, arguments.data(), arguments.size()) | detail::kLaunch;
            wait(number, std::nullopt);
            if (const std::optional<Error> failure = error_of(number)) throw Error(*failure);
          }};
}

Preemption Core::preempt(unsigned priority, std::chrono::nanoseconds timeout) {
  check_open();
  if (tasks_->preemptor() == nullptr)
    throw Error(errc::unsupported, "preempt: the runtime has no priorities: open it with the option priorities");
  if (Recorder::of(this) != nullptr) throw Error(errc::unsupported, "capture: preempt asks for a worker now: call it outside");
  return tasks_->preemptor()->preempt(priority, timeout);
}

std::shared_ptr<detail::DefinitionState> Core::heap_operator(HeapOperator which) {
  check_open();
  const auto number = static_cast<std::size_t>(which);
  const Lock lock(heap_mutex_);
  std::shared_ptr<detail::DefinitionState>& made = heap_operators_[number];
  if (made == nullptr) made = registry_->define(kHeapTexts[number].name, Source{kHeapTexts[number].text}, {});
  return made;
}

HeapCollection Core::collect_heap() {
  check_open();
  if (Recorder::of(this) != nullptr) throw Error(errc::unsupported, "capture: Heap::collect runs tasks now: call it outside");
  return collector_->collect();
}

HeapCompaction Core::compact_heap() {
  check_open();
  if (Recorder::of(this) != nullptr) throw Error(errc::unsupported, "capture: Heap::compact runs now: call it outside");
  return collector_->compact();
}

HeapStatistics Core::heap_statistics() {
  check_open();
  HeapStatistics now = heap_->statistics();
  now.collections = collector_->count();
  now.last = collector_->last();
  return now;
}

HeapVerification Core::verify_heap() {
  check_open();
  return collector_->between([this] { return heap_->verify(); });
}

HeapCensus Core::heap_census() {
  check_open();
  return collector_->between([this] { return heap_->census(); });
}

void Core::read_heap(std::uint32_t unit, std::size_t offset, std::span<std::byte> bytes) {
  check_open();
  backend_->copy_to_host(bytes.data(), heap_->address_of(unit, offset, bytes.size()), bytes.size());
}

void Core::write_heap(std::uint32_t unit, std::size_t offset, std::span<const std::byte> bytes) {
  check_open();
  backend_->copy_to_device(heap_->address_of(unit, offset, bytes.size()), bytes.data(), bytes.size());
}

std::shared_ptr<detail::ModuleState> Core::compile(const Source& source, const std::optional<CompileOptions>& options,
                                                   const std::vector<std::string>& expressions) {
  check_open();
  return modules().compile(source, options.value_or(options_.compile), expressions);
}

std::uint64_t Core::launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                           const detail::LaunchArgument* arguments, std::size_t count) {
  check_open();
  kernels_->launches.collect();
  return modules().launch(module, index, config, arguments, count);
}

std::shared_ptr<detail::BufferState> Core::allocate(std::size_t count, std::size_t element, Memory memory) {
  check_open();
  return with_memory([&] { return buffers_->allocate(count, element, memory); });
}

std::shared_ptr<detail::RingState> Core::ring(const RingShape& shape, const RingOptions& options) {
  check_open();
  return with_memory([&] { return make_ring(*buffers_, shape, options); });
}

std::shared_ptr<detail::BufferState> Core::wrap(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                                std::shared_ptr<void> keep_alive) {
  check_open();
  return buffers_->wrap(pointer, count, element, alignment, std::move(keep_alive));
}

void Core::burst(void* stream) {
  check_open();
  if (!options_.bursts) throw Error(errc::unsupported, "burst: the runtime has no bursts: open it with the option bursts");
  for (Backoff backoff(info_.on_host); !keeper().try_burst(stream);)
    if (backoff.wait()) check_open();
}

void Core::move_arena() {
  check_open();
  device().move_arena();
}

void Core::park() {
  check_open();
  const HostSpan span(&host_events(), TraceEvent::Kind::park);
  keeper().park();
  if (shell_->stage() == detail::Stage::open) return;
  keeper().resume_all();  // close has ended the user's parks, possibly before this one
  OpenCheck(keeper(), *shell_).refuse();
}

void Core::close(Close how) {
  check_outside("`close`");
  collector_->stop();
  end_observation();
  shell_->lineage->closed.store(true);
  shell_->enter(detail::Stage::closing);
  std::optional<Error> failure;
  const auto attempt = [&](auto&& step) {
    const std::optional<Error> its = failure_of(errc::device_lost, step);
    if (!failure) failure = its;
  };
  // Nothing starts any more: tasks that have not begun are cancelled, others interrupted.
  const auto end_loop = [&] {
    attempt([this] { keeper().retire(); });
    if (failure) return;
    queue().close();
    std::optional<Reaper::Begun> begun;
    static_cast<void>(failure_of(errc::device_lost, [&] { begun = tasks_->begun().find(); }));
    attempt([&] {
      const Lock lock(shell_->mutex);
      // The queue keeps the failures of the last tasks only. Tickets need all of them, so the shell keeps the rest.
      if (begun) tasks_->outcomes().add_open(*begun, shell_->cancelled);
    });
    queue().complete_all(std::move(begun));
  };
  // The user's callbacks may wait for tasks, so tasks run, or are cancelled, before the wait for callbacks.
  if (how == Close::now) {
    tasks_->watch().stop();
    end_loop();
  } else {
    keeper().resume_all();
  }
  registry_->close();
  std::optional<Error> stalled;  // then remaining tasks end as with Close::now
  if (how == Close::when_done) attempt([this] { tasks_->ends().wait_before(queue().tail()); });
  if (failure && failure->kind() == errc::stalled) failure.swap(stalled);
  tasks_->watch().stop();
  attempt([this] { close_launches(); });
  if (how == Close::when_done) end_loop();
  host_calls().finish();  // before the memory of the callbacks' answers is freed
  leave(failure, detail::Stage::closed);
  notifier().finish();  // after leave: tickets have the result of every task
  if (failure) throw Error(*failure);
  if (stalled) throw Error(*stalled);
}

void Core::give_up() {
  check_outside("`rebuild`");
  if (!keeper().lost()) throw Error(errc::invalid_argument, "the device works: only a runtime that has lost its device is rebuilt");
  if (const std::string why = backend_->stuck(); !why.empty())
    throw Error(errc::device_lost, info_.device + " cannot be opened again: " + why);
  const Error failure = keeper().failure();
  Options again = options_;
  again.device = info_.device;  // "auto" must not select another one
  again.warn = warn_;
  {
    const Lock lock(shell_->mutex);
    shell_->failure = failure;
    shell_->again = std::move(again);
    shell_->next_position = device::align_up(queue().tail(), device::kWindow);
  }
  shell_->enter(detail::Stage::closing);
  collector_->stop();
  end_observation();
  tasks_->watch().stop();
  registry_->close();
  static_cast<void>(failure_of(errc::device_lost, [this] { close_launches(); }));
  host_calls().finish();
  leave(failure, detail::Stage::lost);
  notifier().finish();
}

void Core::close_launches() {
  const std::string left = kernels_->launches.close(options_.task_timeout);
  if (left.empty()) return;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options_.task_timeout);
  const Error failure(errc::task_timeout, "the runtime was closed, and for " + std::to_string(limit.count()) +
                                              " ms (the option task_timeout) none of these kernels has ended: " + left);
  keeper().give_up(failure);     // a lease may be waiting for their multiprocessors
  kernels_->launches.close({});  // from now on queries report that the device was given up
  throw Error(failure);
}

void Core::check_outside(const char* call) const {
  if (const char* const what = Callback::inside(shell_->lineage->runtime); what != nullptr)
    throw Error(errc::invalid_argument, std::string(call) + " was called by " + what +
                                            ", for which it would wait: call it outside, or drop the last owner of the runtime there, "
                                            "which closes it when the callback has returned");
}

void Core::leave(std::optional<Error> failure, detail::Stage to) noexcept {
  collector_->finish();
  observation_->log().finish();
  modules().close();
  buffers_->close();  // before the core is destroyed: without it they would stay on the list
  queue().close();    // a task behind those of add_all would pass for a success
  detail::Shell::TaskEnds ended;
  detail::Shell::Ranges lost;
  const auto unknown = failure_of(errc::out_of_memory, [&] { tasks_->outcomes().add_all(ended, lost); });
  graphs_.collect(~0ULL);
  const Lock lock(shell_->mutex);
  assert(failure || unknown || lost.empty());  // the failure is what tickets of lost tasks report
  shell_->ended = std::move(ended);
  if (unknown) {
    // Outcome unknown: tickets report their tasks as lost.
    if (!failure) failure = unknown;
    shell_->lost.assign(1, {first_position_, queue().tail()});  // has room for one
  } else {
    shell_->lost = std::move(lost);
  }
  shell_->failure = std::move(failure);
  shell_->enter(to);
  shell_->current.store(nullptr, std::memory_order_relaxed);
  shell_->open.reset();
}

Metrics Core::metrics() {
  check_open();
  Metrics all;
  all.at = std::chrono::steady_clock::now();
  all.runtime = shell_->lineage->runtime;
  all.generation = shell_->generation;
  all.device = info_.device;
  try {
    observation_->read(all);
  } catch (const Error& error) {
    throw keeper().explain(error);
  }
  all.submitted = queue().submitted();
  queue().reap_done();
  const std::uint64_t reaped = queue().reaped();  // before the tail, which only grows
  all.in_flight_slots = queue().tail() - reaped;
  all.ring_slots = queue().capacity();
  all.leases = keeper().leases();
  all.parks = keeper().wakes() - std::min<std::uint64_t>(keeper().wakes(), 1);
  all.pauses = keeper().pauses();
  const ImageTable& table = registry_->table();
  all.hand_overs_relocatable = table.images(Tier::relocatable);
  all.hand_overs_lto = table.images(Tier::lto);
  all.images = all.hand_overs_relocatable + all.hand_overs_lto;
  all.tasks_relocatable = table.tasks(Tier::relocatable);
  all.tasks_lto = table.tasks(Tier::lto);
  all.last_hand_over_ns = static_cast<std::uint64_t>(table.last_hand_over().count());
  const jit::CompileCounts compiled = registry_->compiler().counts();
  all.compiled = compiled.compiled;
  all.linked = compiled.linked;
  all.cache_hits = compiled.cache_hits;
  all.last_cache_hit_ns = static_cast<std::uint64_t>(compiled.last_hit.count());
  all.arena_bytes = arena().bytes();
  std::tie(all.buffers, all.buffer_bytes) = buffers_->count();
  add_heap(all);
  return all;
}

void Core::add_heap(Metrics& to) {
  if (!heap_->is_made()) return;
  try {
    const HeapStatistics heap = heap_statistics();
    to.heap_bytes = heap.used;
    to.heap_mapped_bytes = heap.mapped;
    to.heap_live_bytes = heap.live_bytes() + heap.large_bytes;
    to.heap_collections = heap.collections;
    to.heap_failures = heap.failures();
  } catch (const Error& error) {
    throw keeper().explain(error);
  }
}

void Core::set_metrics(Metering metering) {
  check_open();
  if (metering == Metering::times) registry_->need(device::part::times);
  observation_->set_metering(metering);
}

Logs Core::logs(std::chrono::nanoseconds wait) {
  check_open();
  observation_->log().flush();
  return Logs(observation_->log().memory(), wait);
}

void Core::set_log_level(level from) {
  check_open();
  observation_->set_log_level(from);
}

Inspection Core::inspect(std::string_view name) {
  check_open();
  return inspector_->inspect(name);
}

Watch Core::watch(std::string name, std::chrono::nanoseconds every, std::function<void(const Inspection&)> callback) {
  check_open();
  return Watch(inspector_->watch(std::move(name), every, std::move(callback)));
}

void Core::assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes) {
  check_open();
  if (!options_.inspect_writes)
    throw Error(errc::unsupported, "assign: set the option inspect_writes, without which variables can be read alone");
  inspector_->assign(name, type, count, bytes);
}

void Core::start_trace(std::shared_ptr<TraceWriter> writer) {
  check_open();
  if (writer == nullptr) throw Error(errc::invalid_argument, "start_trace: the writer is null");
  registry_->need(device::part::times);
  observation_->start_trace(std::move(writer));
}

void Core::trace(std::chrono::nanoseconds duration, std::shared_ptr<TraceWriter> writer) {
  check_open();
  registry_->need(device::part::times);
  observation_->trace(duration, std::move(writer));
}

void Core::publish() {
  // The writer belongs to the server, which finishes it.
  class Forward : public TraceWriter {
   public:
    explicit Forward(TraceWriter& to) : to_(to) {}
    void write(const Trace& piece) override { to_.write(piece); }
    void finish() override {}

   private:
    TraceWriter& to_;
  };
  live::Source source;
  source.runtime = shell_->lineage->runtime;
  source.metrics = [this] { return metrics(); };
  source.diagnose = [this] { return diagnose(); };
  source.trace = [this](std::chrono::nanoseconds duration, TraceWriter& writer) { trace(duration, std::make_shared<Forward>(writer)); };
  source.logs = [this](std::uint64_t after, std::size_t most, std::uint64_t* next) {
    std::vector<LogRecord> records = observation_->log().memory()->page(after, most);
    *next = after;
    return records;
  };
  source.heap = [this] { return heap_->is_made() ? heap_statistics() : HeapStatistics{}; };
  source.census = [this] { return heap_->is_made() ? heap_census() : HeapCensus{}; };
  source.verify = [this] { return heap_->is_made() ? verify_heap() : HeapVerification{}; };
  source.inspect = [this](std::string_view name) { return to_string(inspect(name)); };
  published_ = std::make_unique<live::Published>(std::move(source), options_.warn);
}

void Core::end_observation() noexcept {
  published_.reset();
  inspector_->stop_watches();
  // close ignores exceptions of the writer.
  static_cast<void>(failure_of(errc::io_failed, [this] { stop_trace(); }));
}

RuntimeInfo Core::info() {
  RuntimeInfo info;
  info.runtime = shell_->lineage->runtime;
  info.generation = shell_->generation;
  info.device = info_.device;
  info.device_name = info_.name;
  info.compiler = registry_->compiler().identity();
  info.workers = keeper().workers() != 0 ? keeper().workers() : keeper().most_workers();
  info.crew = keeper().crew();
  const jit::Resources resources = registry_->table().resources();
  info.registers = resources.registers;
  info.stack_bytes = resources.stack_bytes;
  info.shared_bytes = resources.shared_bytes;
  info.constant_bytes = resources.constant_bytes;
  info.barriers = resources.barriers;
  info.tier = registry_->table().tier();
  return info;
}

}  // namespace dwell::runtime
