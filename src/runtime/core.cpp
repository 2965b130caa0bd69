#include "runtime/core.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include <dwell/device/status.hpp>

#include "base/callback.hpp"
#include "runtime/caught.hpp"
#include "runtime/device/backoff.hpp"
#include "runtime/device/blame.hpp"
#include "runtime/inspect/inspect.hpp"
#include "runtime/observe/clock_probe.hpp"
#include "runtime/option_check.hpp"

namespace dwell::runtime {

namespace {

// ns: how far the device's clock may be off the host's while it is noted how long tasks wait. A reading launches a kernel; once the drift
// is known, one lasts for a minute.
constexpr double kMostWaitError = 5000;

// The options of a runtime whose Options::warn is one of its callbacks.
Options with_callback(Options options, std::uint64_t runtime) {
  if (options.warn)
    options.warn = [runtime, warn = std::move(options.warn)](std::string_view line) {
      const Callback callback(runtime, "Options::warn");
      warn(line);
    };
  return options;
}

}  // namespace

Core::Core(Options options, std::uint64_t first_position, detail::Shell* shell)
    : warn_(options.warn),
      options_(with_callback(std::move(options), shell->lineage->runtime)),
      first_position_(first_position),
      shell_(shell),
      notifier_(options_.warn, shell->lineage->runtime) {
  check_options(options_, first_position_);
  static_cast<void>(no_memory());  // made while there is memory
  Device device = shell_->lineage->open(options_);
  backend_ = std::move(device.backend);
  device_ = backend_->info();

  const auto shift = static_cast<std::uint32_t>(std::countr_zero(options_.ring_slots));
  const std::uint32_t workers = options_.workers != 0 ? options_.workers : device_.default_workers;
  check_options(options_, device_, workers);
  const bool levels = options_.priorities.has_value();
  const device::ArenaHeader layout = device::layout_arena(shift, workers, options_.spawned_tasks, levels, device_.on_host && !levels);
  arena_ = std::make_unique<Arena>(*backend_, layout, first_position_);
  if (options_.live)
    flight_ =
        std::make_unique<FlightRecorder>(*backend_, shell_->lineage->runtime, device_.device, workers, options_.ring_slots, options_.warn);
  const bool survives = flight_ != nullptr && flight_->ring() != nullptr;
  if (!survives) ring_ = backend_->allocate_host(sizeof(device::Slot) << shift);
  auto* const slots = survives ? flight_->ring() : static_cast<device::Slot*>(ring_->host());
  completions_ = backend_->allocate_host(sizeof(device::Completion) << shift);
  report_ = backend_->allocate_host(sizeof(device::LeaseReport));
  in_flight_ = backend_->allocate_host(sizeof(device::InFlight) * workers);
  failed_nodes_ = backend_->allocate_host(sizeof(std::uint64_t) << shift);
  failed_inside_ = backend_->allocate_host(sizeof(device::Quad) << shift);

  const auto name_of = [this](std::uint32_t opcode) { return registry_->table().name_of(opcode); };
  queue_ = std::make_unique<SubmissionQueue>(slots, static_cast<device::Completion*>(completions_->host()),
                                             *static_cast<device::LeaseReport*>(report_->host()), shift, first_position_, name_of);

  // What the callback of a node has thrown, or its operator.
  const auto why_of = [this](const Exec& exec, std::uint64_t position, std::uint64_t base, std::uint32_t node) {
    std::string why = exec.why(position, node);
    return why.empty() ? backend_->thrown((base / device::kCell + node) | device::InFlight::kNode) : why;
  };
  queue_->look_up_launches({[this, why_of](std::uint64_t position, std::uint64_t head) {
                              if (head == 0) return std::pair(std::string(), backend_->thrown(static_cast<std::uint32_t>(position)));
                              const auto* const failed = static_cast<const std::uint64_t*>(failed_nodes_->host());
                              const std::uint64_t word = failed[position & (options_.ring_slots - 1)];
                              std::uint64_t base = 0;
                              const auto [exec, cell] = graphs_.find(head, &base);
                              const auto node = static_cast<std::uint32_t>(word >> 32U);
                              return exec ? std::pair(exec->node_at(node), why_of(*exec, position, base, node))
                                          : std::pair<std::string, std::string>();
                            },
                            [this](std::uint64_t head) { return title_of(graphs_.name_of(head)); },
                            [this, shift](std::uint64_t position) {
                              const auto at = static_cast<std::uint32_t>(position);
                              const auto* const all = static_cast<const device::Quad*>(failed_inside_->host());
                              const device::Quad found = device::load_quad<device::Scope::system>(all + device::index_of(at, shift));
                              Failure::Inside inside;
                              if (found.lap != device::lap_of(at, shift)) return inside;
                              const auto exec = graphs_.numbered(found.word[1]);
                              if (exec == nullptr) return inside;
                              const std::string of = exec->name().empty() ? "" : " of " + title_of(exec->name());
                              return Failure::Inside{exec->node_at(found.word[2]) + of, static_cast<std::int32_t>(found.word[0]),
                                                     exec->why(position, found.word[2])};
                            },
                            [this](std::uint64_t head, std::uint64_t begin, std::uint64_t end) {
                              const auto [exec, cell] = graphs_.find(head);
                              return exec && exec->names(begin, end);
                            }});

  Keeper::Settings settings;
  device::Lease& lease = settings.lease;
  lease = device::Lease{};
  lease.ring = reinterpret_cast<const device::Slot*>(survives ? flight_->device_ring() : ring_->device());
  lease.completions = reinterpret_cast<device::Completion*>(completions_->device());
  lease.report = reinterpret_cast<device::LeaseReport*>(report_->device());
  lease.in_flight = reinterpret_cast<device::InFlight*>(in_flight_->device());
  lease.flight = flight_ == nullptr ? nullptr : reinterpret_cast<device::Quad*>(flight_->device());
  lease.failed_nodes = reinterpret_cast<u64*>(failed_nodes_->device());
  lease.failed_inside = reinterpret_cast<device::Quad*>(failed_inside_->device());
  arena_->at_rest([&](const backend::Allocation& memory) { device::point_into_arena(&lease, layout, memory.device()); });
  if (options_.priorities) {
    const auto& order = options_.priorities->order;
    for (std::size_t i = 0; i < order.size(); ++i) lease.levels |= order[i] == QueueOrder::lifo ? 1U << i : 0;
  }
  lease.scratch_bytes = options_.scratch_bytes;
  settings.report = static_cast<device::LeaseReport*>(report_->host());
  settings.in_flight = static_cast<device::InFlight*>(in_flight_->host());
  settings.lease_time = options_.lease.count() != 0 ? options_.lease : std::chrono::nanoseconds(device_.default_lease_ns);
  settings.idle_time = options_.idle.count() != 0 ? options_.idle : std::chrono::nanoseconds(device_.default_idle_ns);
  // Longer than the clocks of all backends count means for ever.
  constexpr std::chrono::nanoseconds kLongest = std::chrono::minutes(30);
  settings.lease_time = std::min(settings.lease_time, kLongest);
  settings.idle_time = std::min(settings.idle_time, kLongest);
  settings.give_way = std::chrono::nanoseconds(device_.give_way_ns);
  settings.memory_needs_lease = device_.memory_needs_lease;
  settings.kernels_queue = device_.kernels_queue;
  settings.task_timeout = options_.task_timeout;
  settings.workers = workers;
  settings.bursts = options_.bursts;
  // No lease starts before the log is there.
  settings.woken = [this] { log_->woken(); };
  settings.settle = [this] { log_->settle(); };
  const RingView ring(slots, shift, *queue_);
  const auto launch_at = [this, ring](std::uint64_t position) {
    const std::optional<RingView::Task> task = ring.at(position);
    return title_of(task ? graphs_.name_of(task->graph) : "");
  };
  const auto details_of = [this, name_of](const live::FlightEntry& entry) {
    FlightRecorder::Details known;
    // Of others the ring and the tables tell.
    if (entry.is_node()) {
      Graphs::Place place = graphs_.place_of(entry.offset());
      // The entry may be of one that lay there before.
      if (place.exec == nullptr || (place.lease && !device::is_after(entry.lease, *place.lease))) return known;
      const std::uint32_t cell = place.cell(entry.offset());
      known = {place.exec->title_at(cell, name_of(entry.opcode())), place.exec->arguments_at(cell)};
      // It must not go here, where its memory would be given back under the keeper's lock: it goes with the next launch.
      Graphs::Flight flight;
      flight.emplace_back(0, std::move(place.exec));
      graphs_.launched(0, std::move(flight));
    }
    return known;
  };
  keeper_ = std::make_unique<Keeper>(
      *backend_, *queue_, settings, [this, name_of, launch_at, details_of](const std::string& why, const auto& holders, bool running) {
        std::string text = why + blame(holders, running, launches_ == nullptr ? "" : launches_->in_flight(), name_of, launch_at);
        if (flight_ != nullptr)
          if (const auto& path = flight_->keep(text, details_of); !path.empty())
            text += "; what each worker did last: dwell post-mortem " + path.string();
        return text;
      });
  samples_ = std::make_unique<TaskSamples>(*backend_, shift, [this] { return clock_->to_device(HostEvents::now()); });
  queue_->sample_into(*samples_);
  meters_ = std::make_unique<Meters>(*backend_, *keeper_, *samples_, *arena_);
  meters_->set(options_.metrics);
  log_ = std::make_unique<LogDrain>(
      LogDrain::Parts{*backend_, *keeper_, name_of, [this](std::uint32_t position) { return position_of(position); },
                      [this](std::uint64_t device_ns) {
                        return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(clock_->to_host(device_ns)));
                      },
                      workers, options_.warn, shell_->lineage->runtime},
      options_.log);
  Registry::Settings made{options_.compile,
                          options_.compile_threads,
                          options_.tier,
                          options_.parts,
                          options_.warn,
                          options_.limits,
                          {meters_.get(), flight_.get(), &host_events_}};
  if (device_.on_host) made.tier = Tier::relocatable;
  registry_ = std::make_unique<Registry>(std::move(device.compiler), *backend_, *keeper_, *queue_, shell_, std::move(made));
  if (options_.priorities) registry_->need(device::part::levels);
  if (options_.metrics == Metering::times) registry_->need(device::part::times);
  launches_ = std::make_unique<Launches>(*backend_);
  gates_ = std::make_unique<LaunchGates>(*queue_, *launches_, notifier_, options_.bursts);
  host_calls_ = std::make_unique<HostCalls>([this](std::uint64_t position) { return queue_->done(position) || keeper_->failed(); },
                                            shell_->lineage->runtime);
  modules_ = std::make_unique<Modules>(registry_->compiler(), *backend_, *keeper_, *launches_, shell_);
  blocks_ = std::make_unique<Blocks>(*backend_, *queue_, *keeper_);
  buffers_ = std::make_unique<Buffers>(*backend_, *queue_, *keeper_, *launches_, notifier_, *blocks_, graphs_, shell_,
                                       [this](std::uint64_t position) {
                                         // A callback of a graph would wait for the graph, or for what comes behind it.
                                         if (!host_calls_->runs_here()) wait(position, std::nullopt);
                                       });
  begun_.emplace(BegunTasks::Parts{*backend_, *arena_, ring, graphs_});
  watch_ = std::make_unique<RuntimeWatch>(RuntimeWatch::Parts{ring, *queue_, *keeper_, *registry_, *launches_, *gates_, *host_calls_,
                                                              graphs_, settings.lease_time, options_.warn},
                                          options_.stall_timeout);
  intake_.emplace(Intake::Parts{this, OpenCheck(*keeper_, *shell_), *queue_, *keeper_, *gates_, *registry_, *blocks_, *host_calls_, *watch_,
                                counts_, host_events_, device_.on_host, options_.priorities.has_value()});
  ends_.emplace(Ends::Parts{*queue_, *keeper_, *launches_, *host_calls_, notifier_, *watch_, device_.on_host});
  outcomes_.emplace(Outcomes::Parts{*queue_, *keeper_, *launches_, *host_calls_, options_.scratch_bytes,
                                    device::most_spawned(workers, options_.spawned_tasks)});
  if (options_.priorities)
    preemptor_ = std::make_unique<Preemptor>(
        ring, *queue_, *keeper_, [this](std::uint64_t position, auto deadline) { return wait(position, deadline); },
        [this] { return watch_->circumstances(); });
  DeviceClock::Read read_clock;
  if (!device_.on_host) {
    const auto probe = std::make_shared<ClockProbe>(ClockProbe::Kernels{
        *backend_, [this](const Source& source) { return compile(source, std::nullopt, {}); },
        [this](const ClockProbe::Module& module, std::span<const detail::LaunchArgument> arguments,
               const std::function<bool()>& meanwhile) {
          const std::uint64_t number =
              launch(module, 0, LaunchConfig{.grid = {1}, .block = {1}}, arguments.data(), arguments.size()) | detail::kLaunch;
          while (meanwhile() && !done(number)) {}
          wait(number, std::nullopt);
        }});
    read_clock = [probe] { return probe->read(); };
  }
  clock_ = std::make_unique<DeviceClock>(std::move(read_clock));
  timeline_ = std::make_unique<Timeline>(Timeline::Parts{*backend_, *arena_, *keeper_, *queue_, *clock_, host_events_, graphs_, workers,
                                                         device_.device, shell_->lineage->runtime, name_of});
  variables_ = std::make_unique<Variables>(*backend_, *keeper_, registry_->table());
  watches_ = std::make_unique<Watches>(options_.warn, shell_->lineage->runtime);
  align_for_waits();  // or tasks before the first snapshot would not be sampled
  if (options_.live) publish();
}

std::uint64_t Core::position_of(std::uint32_t low) const {
  const std::uint64_t tail = queue_->tail();
  return tail - (static_cast<std::uint32_t>(tail) - low);
}

Core::~Core() {
  // Threads go before what they use: those of the registry use the keeper, and the keeper's asks the other parts who may be to blame. The
  // watchdog's uses all.
  published_.reset();
  timeline_.reset();
  if (watch_ != nullptr) watch_->stop();
  registry_->close();
  notifier_.finish();
  if (host_calls_ != nullptr) host_calls_->finish();
  log_->finish();
  keeper_.reset();
}

Preemption Core::preempt(unsigned priority, std::chrono::nanoseconds timeout) {
  check_open();
  if (preemptor_ == nullptr)
    throw Error(errc::unsupported, "preempt: the runtime has no priorities: open it with Options{.priorities = Priorities{}}");
  if (Recorder::of(this) != nullptr) throw Error(errc::unsupported, "Runtime::capture: preempt asks for a worker now: call it outside");
  return preemptor_->preempt(priority, timeout);
}

std::shared_ptr<detail::ModuleState> Core::compile(const Source& source, const std::optional<CompileOptions>& options,
                                                   const std::vector<std::string>& expressions) {
  check_open();
  return modules_->compile(source, options.value_or(options_.compile), expressions);
}

std::uint64_t Core::launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                           const detail::LaunchArgument* arguments, std::size_t count) {
  check_open();
  launches_->collect();
  return modules_->launch(module, index, config, arguments, count);
}

std::shared_ptr<detail::BufferState> Core::allocate(std::size_t count, std::size_t element, Memory memory) {
  check_open();
  return with_memory([&] { return buffers_->allocate(count, element, memory); });
}

std::shared_ptr<detail::BufferState> Core::wrap(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                                std::shared_ptr<void> keep_alive) {
  check_open();
  return buffers_->wrap(pointer, count, element, alignment, std::move(keep_alive));
}

void Core::burst(void* stream) {
  check_open();
  if (!options_.bursts) throw Error(errc::unsupported, "Runtime::burst: the runtime has no bursts: open it with Options{.bursts = true}");
  for (Backoff backoff(device_.on_host); !keeper_->try_burst(stream);)
    if (backoff.wait()) check_open();
}

void Core::move_arena() {
  check_open();
  const ParkGuard parked = keeper_->park_loop();
  arena_->move([this](const backend::Allocation& memory) {
    keeper_->change_leases([&](device::Lease& lease) { device::move_lease(&lease, memory.bytes(), memory.device()); });
  });
}

void Core::park() {
  check_open();
  const HostSpan span(&host_events_, TraceEvent::Kind::park);
  keeper_->park();
  if (shell_->stage() == detail::Stage::open) return;
  keeper_->resume_all();  // close has ended the user's parks, perhaps before this one
  OpenCheck(*keeper_, *shell_).refuse();
}

void Core::close(Close how) {
  check_outside("Runtime::close");
  end_observation();
  shell_->lineage->closed.store(true);
  shell_->enter(detail::Stage::closing);
  std::optional<Error> failure;
  const auto attempt = [&](auto&& step) {
    const std::optional<Error> its = failure_of(errc::device_lost, step);
    if (!failure) failure = its;
  };
  // Nothing starts any more: what has not started is cancelled, and what has begun is interrupted.
  const auto end_loop = [&] {
    attempt([this] { keeper_->retire(); });
    if (failure) return;
    std::optional<Reaper::Begun> begun;
    static_cast<void>(failure_of(errc::device_lost, [&] { begun = begun_->find(); }));
    attempt([&] {
      const Lock lock(shell_->mutex);
      // The queue keeps the failures of the last tasks only. A ticket never lies: the shell keeps all.
      if (begun) outcomes_->add_open(*begun, shell_->cancelled);
    });
    queue_->complete_all(std::move(begun));
  };
  // Callbacks of the user's may wait for tasks: so those run, or are cancelled, before the callbacks are waited for.
  if (how == Close::now) {
    watch_->stop();
    end_loop();
  } else {
    keeper_->resume_all();
  }
  registry_->close();
  std::optional<Error> stalled;  // then all that is left ends as with Close::now
  if (how == Close::when_done) attempt([this] { ends_->wait_before(queue_->tail()); });
  if (failure && failure->kind() == errc::stalled) failure.swap(stalled);
  watch_->stop();
  attempt([this] { close_launches(); });
  if (how == Close::when_done) end_loop();
  host_calls_->finish();  // before the memory goes in which callbacks are answered
  leave(failure, detail::Stage::closed);
  notifier_.finish();  // behind leave: tickets tell what became of every task
  if (failure) throw Error(*failure);
  if (stalled) throw Error(*stalled);
}

void Core::give_up() {
  check_outside("Runtime::rebuild");
  if (!keeper_->lost()) throw Error(errc::invalid_argument, "the device works: only a runtime that has lost its device is rebuilt");
  if (const std::string why = backend_->stuck(); !why.empty())
    throw Error(errc::device_lost, device_.device + " cannot be opened again: " + why);
  const Error failure = keeper_->failure();
  Options again = options_;
  again.device = device_.device;  // "auto" must not come to mean another one
  again.warn = warn_;
  {
    const Lock lock(shell_->mutex);
    shell_->failure = failure;
    shell_->again = std::move(again);
    shell_->next_position = device::align_up(queue_->tail(), device::kWindow);
  }
  shell_->enter(detail::Stage::closing);
  end_observation();
  watch_->stop();
  registry_->close();
  static_cast<void>(failure_of(errc::device_lost, [this] { close_launches(); }));
  host_calls_->finish();
  leave(failure, detail::Stage::lost);
  notifier_.finish();
}

void Core::close_launches() {
  const std::string left = launches_->close(options_.task_timeout);
  if (left.empty()) return;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options_.task_timeout);
  const Error failure(errc::task_timeout, "the runtime was closed, and for " + std::to_string(limit.count()) +
                                              " ms (Options::task_timeout) none of these kernels has ended: " + left);
  keeper_->give_up(failure);  // a lease may be waiting for their multiprocessors
  launches_->close({});       // who asks for them is told from now on that the device was given up
  throw Error(failure);
}

void Core::check_outside(const char* call) const {
  if (const char* const what = Callback::inside(shell_->lineage->runtime); what != nullptr)
    throw Error(errc::invalid_argument, std::string(call) + " was called by " + what +
                                            ", for which it would wait: call it outside, or drop the last owner of the runtime there, "
                                            "which closes it when the callback has returned");
}

void Core::leave(std::optional<Error> failure, detail::Stage to) noexcept {
  log_->finish();
  modules_->close();
  buffers_->close();  // before the core goes: without it they would not be taken off the list
  detail::Shell::Fates ended;
  detail::Shell::Ranges lost;
  const auto unknown = failure_of(errc::out_of_memory, [&] { outcomes_->add_all(ended, lost); });
  graphs_.collect(~0ULL);
  const Lock lock(shell_->mutex);
  shell_->ended = std::move(ended);
  if (unknown) {
    // A ticket never lies: of which nothing is noted, it says so.
    if (!failure) failure = unknown;
    shell_->lost.assign(1, {first_position_, queue_->tail()});  // has room for one
  } else {
    shell_->lost = std::move(lost);
  }
  shell_->failure = failure;
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
  all.device = device_.device;
  align_for_waits();
  try {
    meters_->read(all);
  } catch (const Error& error) {
    throw keeper_->explain(error);
  }
  if (all.metering == Metering::times) all.clock_error_ns = clock_->error_ns();
  log_->read(all);
  all.submitted = queue_->submitted();
  queue_->reap_done();
  const std::uint64_t reaped = queue_->reaped();  // before the tail, which only grows
  all.in_flight_slots = queue_->tail() - reaped;
  all.ring_slots = queue_->capacity();
  all.credit_waits = counts_.credit_waits.load(std::memory_order_relaxed);
  all.leases = keeper_->leases();
  all.parks = keeper_->wakes() - std::min<std::uint64_t>(keeper_->wakes(), 1);
  all.pauses = keeper_->pauses();
  const ImageTable& table = registry_->table();
  all.hand_overs_relocatable = table.images(Tier::relocatable);
  all.hand_overs_lto = table.images(Tier::lto);
  all.images = all.hand_overs_relocatable + all.hand_overs_lto;
  const jit::CompileCounts compiled = registry_->compiler().counts();
  all.compiled = compiled.compiled;
  all.linked = compiled.linked;
  all.cache_hits = compiled.cache_hits;
  all.arena_bytes = arena_->bytes();
  std::tie(all.buffers, all.buffer_bytes) = buffers_->count();
  all.graph_launches = counts_.graph_launches.load(std::memory_order_relaxed);
  all.batch_flushes = counts_.batch_flushes.load(std::memory_order_relaxed);
  all.batch_operations = counts_.batch_operations.load(std::memory_order_relaxed);
  all.batch_tasks = counts_.batch_tasks.load(std::memory_order_relaxed);
  return all;
}

void Core::align_for_waits() {
  if (meters_->metering() != Metering::times || keeper_->parked()) return;
  // Without a reading nothing is noted of how long tasks wait, and all else is right.
  queue_->set_sampling(!failure_of(errc::device_lost, [this] { clock_->align(kMostWaitError); }).has_value());
}

void Core::set_metrics(Metering metering) {
  check_open();
  if (metering != Metering::times)
    queue_->set_sampling(false);
  else
    registry_->need(device::part::times);
  meters_->set(metering);
  align_for_waits();
  // Those that run go on as they began; with a task that runs long, longer than anybody wants to wait for figures.
  keeper_->outlast_tasks(std::chrono::seconds(1));
}

Logs Core::logs(std::chrono::nanoseconds wait) {
  check_open();
  log_->flush();
  return Logs(log_->memory(), wait);
}

void Core::set_log_level(level from) {
  check_open();
  log_->set_level(from);
  keeper_->outlast_tasks(std::chrono::seconds(1));  // as set_metrics
}

Inspection Core::inspect(std::string_view name) {
  check_open();
  // A structure's name before a variable's, which its operator's name tells apart.
  if (is_structure(name)) return *runtime::inspect(name, {metrics(), info(), diagnose()});
  try {
    if (std::optional<Inspection> found = variables_->read(name)) return *std::move(found);
  } catch (const Error& error) {
    throw keeper_->explain(error);
  }
  const Metrics counts = metrics();
  if (std::optional<Inspection> found = runtime::inspect(name, {counts, info(), {}})) return *std::move(found);
  std::string names = structure_names();
  for (const OperatorMetrics& op : counts.operators)
    if (names.find(", " + op.name) == std::string::npos) names += ", " + op.name;
  for (const std::string& variable : variables_->names()) names += ", " + variable;
  throw Error(errc::invalid_argument, "nothing is called '" + std::string(name) + "': there are " + names, {"name", std::string(name)});
}

Watch Core::watch(std::string name, std::chrono::nanoseconds every, std::function<void(const Inspection&)> callback) {
  if (every < std::chrono::microseconds(1)) throw Error(errc::invalid_argument, "Runtime::watch: look each microsecond at most");
  if (!callback) throw Error(errc::invalid_argument, "Runtime::watch: the callback is empty");
  static_cast<void>(inspect(name));
  return Watch(watches_->start([this, name = std::move(name)] { return inspect(name); }, every, std::move(callback)));
}

void Core::assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes) {
  check_open();
  if (!options_.inspect_writes)
    throw Error(errc::unsupported, "Runtime::assign: set Options::inspect_writes, without which variables can be read alone");
  try {
    if (variables_->write(name, type, count, bytes)) return;
  } catch (const Error& error) {
    throw keeper_->explain(error);
  }
  std::string names;
  for (const std::string& variable : variables_->names()) names += (names.empty() ? "" : ", ") + variable;
  throw Error(errc::invalid_argument,
              "no operator shows a variable '" + std::string(name) + "' with DWELL_INSPECT" + (names.empty() ? "" : ": there are " + names),
              {"name", std::string(name)});
}

void Core::start_trace(std::shared_ptr<TraceWriter> writer) {
  check_open();
  if (writer == nullptr) throw Error(errc::invalid_argument, "Runtime::start_trace: the writer is null");
  registry_->need(device::part::times);
  const Lock lock(trace_mutex_);
  timeline_->start([writer](const Trace& piece) { writer->write(piece); });
  trace_ = std::move(writer);
}

void Core::stop_trace() {
  const Lock lock(trace_mutex_);
  if (trace_ == nullptr) return;
  const auto writer = std::exchange(trace_, nullptr);
  timeline_->stop();
  writer->finish();
}

void Core::trace(std::chrono::nanoseconds duration, std::shared_ptr<TraceWriter> writer) {
  start_trace(std::move(writer));
  const auto until = std::chrono::steady_clock::now() + duration;
  while (!timeline_->over() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_until(std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  stop_trace();
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
    std::vector<LogRecord> records = log_->memory()->page(after, most);
    *next = after;
    return records;
  };
  source.inspect = [this](std::string_view name) { return to_string(inspect(name)); };
  published_ = std::make_unique<live::Published>(std::move(source), options_.warn);
}

void Core::end_observation() noexcept {
  published_.reset();
  watches_->stop_all();
  // What the writer throws is of no interest to who closes the runtime.
  static_cast<void>(failure_of(errc::io_failed, [this] { stop_trace(); }));
}

RuntimeInfo Core::info() const {
  RuntimeInfo info;
  info.runtime = shell_->lineage->runtime;
  info.generation = shell_->generation;
  info.device = device_.device;
  info.device_name = device_.name;
  info.compiler = registry_->compiler().identity();
  info.workers = keeper_->workers();
  info.crew = keeper_->crew();
  const jit::Resources resources = registry_->table().resources();
  info.registers = resources.registers;
  info.stack_bytes = resources.stack_bytes;
  info.shared_bytes = resources.shared_bytes;
  info.constant_bytes = resources.constant_bytes;
  info.barriers = resources.barriers;
  info.submitted = queue_->submitted();
  info.leases = keeper_->leases();
  const jit::CompileCounts counts = registry_->compiler().counts();
  info.compiled = counts.compiled;
  info.linked = counts.linked;
  info.cache_hits = counts.cache_hits;
  info.last_cache_hit = counts.last_hit;
  info.tier = registry_->table().tier();
  info.tasks_relocatable = registry_->table().tasks(Tier::relocatable);
  info.tasks_lto = registry_->table().tasks(Tier::lto);
  info.images = registry_->table().images();
  info.last_hand_over = registry_->table().last_hand_over();
  return info;
}

}  // namespace dwell::runtime
