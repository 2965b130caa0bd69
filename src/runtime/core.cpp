#include "runtime/core.hpp"

#include <algorithm>
#include <bit>

#include <dwell/device/status.hpp>

#include "runtime/caught.hpp"
#include "runtime/submit/backoff.hpp"

namespace dwell::runtime {

namespace {

using Clock = std::chrono::steady_clock;

void validate(const Options& options, std::uint64_t first_position) {
  if (!std::has_single_bit(options.ring_slots) || options.ring_slots < (1U << device::kMinRingShift) || options.ring_slots > (1U << 24U))
    throw Error(errc::invalid_argument,
                "Options::ring_slots is " + std::to_string(options.ring_slots) + ": it must be a power of two from 128 to 16777216",
                {"option", "Options::ring_slots", options.ring_slots, 1U << 24U});
  if (options.workers > device::kMaxWorkers)
    throw Error(errc::invalid_argument, "Options::workers is " + std::to_string(options.workers) + ": at most 8192 are possible",
                {"option", "Options::workers", options.workers, device::kMaxWorkers});
  if (first_position % device::kWindow != 0 || first_position >= detail::kLaunch)
    throw Error(errc::invalid_argument,
                "the first position is " + std::to_string(first_position) + ": it must be a multiple of 64 below 2^63");
  const std::pair<const char*, std::chrono::nanoseconds> times[] = {{"Options::lease", options.lease},
                                                                    {"Options::idle", options.idle},
                                                                    {"Options::task_timeout", options.task_timeout},
                                                                    {"Options::stall_timeout", options.stall_timeout}};
  for (const auto& [name, time] : times)
    if (time.count() < 0) throw Error(errc::invalid_argument, std::string(name) + " is negative: give a time, or 0", {"option", name});
  if (options.spawned_tasks > (1U << 26U))
    throw Error(errc::invalid_argument,
                "Options::spawned_tasks is " + std::to_string(options.spawned_tasks) + ": at most 67108864 are possible",
                {"option", "Options::spawned_tasks", options.spawned_tasks, 1U << 26U});
  if (options.scratch_bytes > (1U << 24U))
    throw Error(errc::invalid_argument,
                "Options::scratch_bytes is " + std::to_string(options.scratch_bytes) + ": at most 16 MiB are possible",
                {"option", "Options::scratch_bytes", options.scratch_bytes, 1U << 24U});
}

}  // namespace

Core::Core(Options options, std::uint64_t first_position, detail::Shell* shell)
    : options_(std::move(options)), first_position_(first_position), shell_(shell), notifier_(options_.warn) {
  validate(options_, first_position_);
  static_cast<void>(no_memory());  // made while there is memory
  Device device = shell_->lineage->open(options_);
  backend_ = std::move(device.backend);
  device_ = backend_->info();

  const auto shift = static_cast<std::uint32_t>(std::countr_zero(options_.ring_slots));
  const std::uint32_t workers = options_.workers != 0 ? options_.workers : device_.default_workers;
  if (options_.limits.min_workers > workers)
    throw Error(errc::invalid_argument,
                "Options::limits.min_workers is " + std::to_string(options_.limits.min_workers) + ": at most " + std::to_string(workers) +
                    " workers are possible (Options::workers)",
                {"option", "Options::limits.min_workers", options_.limits.min_workers, workers});
  const device::ArenaHeader layout = device::layout_arena(shift, workers, options_.spawned_tasks, options_.priorities.has_value());
  most_spawned_ = device::most_spawned(workers, options_.spawned_tasks);
  arena_ = backend_->allocate(layout.bytes);
  ring_ = backend_->allocate_host(sizeof(device::Slot) << shift);
  completions_ = backend_->allocate_host(sizeof(device::Completion) << shift);
  report_ = backend_->allocate_host(sizeof(device::LeaseReport));
  in_flight_ = backend_->allocate_host(sizeof(device::InFlight) * workers);
  failed_nodes_ = backend_->allocate_host(sizeof(std::uint64_t) << shift);

  const device::Control control = device::first_control(layout, first_position_);
  backend_->copy_to_device(arena_->device(), &layout, sizeof(layout));
  backend_->copy_to_device(arena_->device() + layout.control, &control, sizeof(control));

  queue_ =
      std::make_unique<SubmissionQueue>(static_cast<device::Slot*>(ring_->host()), static_cast<device::Completion*>(completions_->host()),
                                        *static_cast<device::LeaseReport*>(report_->host()), shift, first_position_,
                                        [this](std::uint32_t opcode) { return registry_->table().name_of(opcode); });

  queue_->look_up_launches({[this](std::uint64_t position, std::uint64_t head) {
                              const auto* const failed = static_cast<const std::uint64_t*>(failed_nodes_->host());
                              const std::uint64_t word = failed[position & (options_.ring_slots - 1)];
                              const auto [exec, cell] = graphs_.find(head);
                              const auto node = static_cast<std::uint32_t>(word >> 32U);
                              return exec ? std::pair(exec->node_at(node), exec->why(position, node))
                                          : std::pair<std::string, std::string>();
                            },
                            [this](std::uint64_t head, std::uint64_t begin, std::uint64_t end) {
                              const auto [exec, cell] = graphs_.find(head);
                              return exec && exec->names(begin, end);
                            }});

  Keeper::Settings settings;
  device::Lease& lease = settings.lease;
  lease = device::Lease{};
  lease.ring = reinterpret_cast<const device::Slot*>(ring_->device());
  lease.completions = reinterpret_cast<device::Completion*>(completions_->device());
  lease.report = reinterpret_cast<device::LeaseReport*>(report_->device());
  lease.in_flight = reinterpret_cast<device::InFlight*>(in_flight_->device());
  lease.failed_nodes = reinterpret_cast<u64*>(failed_nodes_->device());
  device::point_into_arena(&lease, layout, arena_->device());
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
  keeper_ = std::make_unique<Keeper>(*backend_, *queue_, settings,
                                     [this](const auto& holders, bool running) { return describe(holders, running); });
  Registry::Settings made{options_.compile, options_.compile_threads, options_.tier, options_.warn, options_.limits};
  // The CPU calls functions of shared objects: there is nothing to inline them into.
  if (device_.on_host && options_.tier == Tier::lto)
    throw Error(errc::unsupported, "Options::tier is Tier::lto: the CPU has Tier::relocatable only, as its operators are shared objects");
  if (device_.on_host) made.tier = Tier::relocatable;
  registry_ = std::make_unique<Registry>(std::move(device.compiler), *backend_, *keeper_, *queue_, shell_, std::move(made));
  launches_ = std::make_unique<Launches>(*backend_);
  gates_ = std::make_unique<LaunchGates>(*queue_, *launches_, notifier_);
  host_calls_ = std::make_unique<HostCalls>([this](std::uint64_t position) { return queue_->done(position) || keeper_->failed(); });
  modules_ = std::make_unique<Modules>(registry_->compiler(), *backend_, *keeper_, *launches_, shell_);
  blocks_ = std::make_unique<Blocks>(*backend_, *queue_, *keeper_);
  buffers_ = std::make_unique<Buffers>(*backend_, *queue_, *keeper_, *launches_, notifier_, *blocks_, graphs_, shell_,
                                       [this](std::uint64_t position) {
                                         // A callback of a graph would wait for the graph, or for what comes behind it.
                                         if (!host_calls_->runs_here()) wait(position, std::nullopt);
                                       });
  const RingView ring(static_cast<const device::Slot*>(ring_->host()), shift, *queue_);
  watch_ = std::make_unique<RuntimeWatch>(RuntimeWatch::Parts{ring, *queue_, *keeper_, *registry_, *launches_, *gates_, *host_calls_,
                                                              graphs_, settings.lease_time, options_.warn},
                                          options_.stall_timeout);
  if (options_.priorities)
    preemptor_ = std::make_unique<Preemptor>(
        ring, *queue_, *keeper_, [this](std::uint64_t position, auto deadline) { return wait(position, deadline); },
        [this] { return watch_->circumstances(); });
}

Core::~Core() {
  // Threads go before what they use: those of the registry use the keeper, and the keeper's asks the other parts who may be to blame. The
  // watchdog's uses all.
  if (watch_ != nullptr) watch_->stop();
  registry_->close();
  notifier_.finish();
  if (host_calls_ != nullptr) host_calls_->finish();
  keeper_.reset();
}

std::string Core::describe(const std::vector<Keeper::Holder>& holders, bool running) const {
  constexpr std::size_t kMost = 8;
  std::string kernels = launches_ == nullptr ? "" : launches_->in_flight();
  if (!kernels.empty()) kernels = "; kernels were in flight beside the loop, which may be to blame: " + kernels;
  if (holders.empty()) return kernels;
  std::string text = holders.size() == 1 && running ? "; it was running"
                     : running                      ? "; one of the tasks that were running is to blame:"
                               : "; no task was running, one that ended before is to blame, perhaps of these last ones:";
  for (std::size_t i = 0; i < std::min(holders.size(), kMost); ++i) {
    text += (i == 0 ? " " : ", ") + registry_->table().name_of(holders[i].opcode) + ", ticket " + std::to_string(holders[i].position) +
            ", on worker " + std::to_string(holders[i].worker);
  }
  if (holders.size() > kMost && running) text += ", and " + std::to_string(holders.size() - kMost) + " more";
  return text + kernels;
}

void Core::refuse() const {
  if (keeper_->failed()) throw keeper_->failure();
  throw Error(errc::closed, "the runtime is closed");
}

template <class TrySubmit>
void Core::retry(TrySubmit try_submit) {
  Backoff backoff(device_.on_host);
  for (;;) {
    const bool done = try_submit();
    keeper_->submitted();
    if (done) return;
    const HostCalls::Waits waits(*host_calls_, queue_->reaped());  // room comes when the oldest task has ended
    // Until many places are free, or some time has gone by: tasks that come one by one as places become free are fetched one by one too.
    for (std::uint32_t checks = 0; checks < 8 && !queue_->roomy();) {
      if (!backoff.wait()) continue;
      ++checks;
      check_open();  // the loop may have gone while the ring is full, or the runtime may have been closed
      watch_->check(queue_->reaped());
      // Room comes when the oldest task has ended.
      if (host_calls_->runs_here(queue_->reaped()) && queue_->tail() - queue_->reaped() > queue_->capacity() / 2)
        throw Error(
            errc::invalid_argument,
            "the callback of a host node has filled the ring of " + std::to_string(queue_->capacity()) +
                " places (Options::ring_slots) behind its own launch, which keeps its place until the callback returns: submit fewer "
                "tasks there, or make the ring larger",
            {"option", "Options::ring_slots", queue_->capacity(), 0});
      if (queue_->pass_over_idle()) keeper_->submitted();
    }
  }
}

std::uint64_t Core::wait_for_room(detail::OperatorState& op, detail::FirstSlot slot) {
  if (Recorder* const recorder = Recorder::of(this)) return record(*recorder, op, slot);
  std::uint64_t position = 0;
  retry([&] { return queue_->try_submit_plain(op.alias, &slot, 1, &position) != 0; });
  return position;
}

std::uint64_t Core::record(Recorder& recorder, detail::OperatorState& op, const detail::FirstSlot& slot) {
  detail::Task task;
  task.first = slot;
  for (const Parameter& parameter : op.signature.parameters()) task.words += device::words_of(parameter);
  task.flags = static_cast<std::uint32_t>(slot.head >> 36U) & 0xFFFFU;
  task.groups = static_cast<std::uint32_t>(slot.head >> 16U) & 0xFFFFU;
  return recorder.record(op, task);
}

std::uint64_t Core::enqueue_plain(detail::OperatorState& op, const detail::FirstSlot* slots, std::size_t count) {
  check_open();
  if (Recorder* const recorder = Recorder::of(this)) {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < count; ++i) last = record(*recorder, op, slots[i]);
    return last;
  }
  std::uint64_t last = 0;
  std::size_t placed = 0;
  retry([&] {
    placed += queue_->try_submit_plain(op.alias, slots + placed, count - placed, &last);
    return placed == count;
  });
  return last;
}

std::uint64_t Core::enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches) {
  check_open();
  if (Recorder* const recorder = Recorder::of(this)) return recorder->record(op, task);
  if ((task.flags & detail::kGang) != 0) check_gang(task.groups);
  check_level(task.flags);
  if (task.waits != nullptr) check_waits(*task.waits);
  if (task.waits != nullptr && LaunchGates::are_needed(*task.waits)) {
    detail::Waits waits = *task.waits;
    detail::Task gated = task;
    gated.waits = &waits;
    retry([&] { return gates_->try_replace(waits, op.alias); });
    return enqueue(op, gated, switches);
  }
  if (task.words > detail::kMaxWords) return enqueue_block(op, task, switches);
  std::uint64_t position = 0;
  retry([&] { return queue_->try_submit(op.alias, task, &position, switches) || position == SubmissionQueue::kSwitched; });
  return position;
}

std::uint64_t Core::enqueue_block(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches) {
  std::optional<Blocks::Loan> block;
  retry([&] { return static_cast<bool>(block.emplace(blocks_->take(task))); });
  std::uint64_t position = 0;
  retry([&] { return queue_->try_submit(op.alias, block->task(), &position, switches) || position == SubmissionQueue::kSwitched; });
  if (position != SubmissionQueue::kSwitched) block->submitted(position);
  return position;
}

void Core::check_waits(const detail::Waits& waits) {
  for (std::uint32_t i = 0; i < waits.count; ++i) check_position(waits.position[i]);
}

void Core::check_position(std::uint64_t position) {
  if ((position & detail::kCaptured) != detail::kCaptured) return;
  throw Error(
      errc::invalid_argument,
      "the ticket is of a task that was captured: it serves after() in the same capture only; use the ticket of the graph's launch");
}

std::optional<std::uint64_t> Core::launch_graph(const detail::Task& task, std::uint64_t switches) {
  check_open();
  if (Recorder::of(this) != nullptr)
    throw Error(errc::unsupported, "Runtime::capture: a launch of a graph cannot be captured: add its tasks, or launch it apart");
  check_level(task.flags);
  if (task.waits != nullptr) {
    check_waits(*task.waits);
    if (LaunchGates::are_needed(*task.waits)) {
      static const std::atomic<std::uint32_t> kNoAlias{0};
      detail::Waits waits = *task.waits;
      detail::Task gated = task;
      gated.waits = &waits;
      retry([&] { return gates_->try_replace(waits, kNoAlias); });
      return launch_graph(gated, switches);
    }
  }
  std::uint64_t position = 0;
  retry([&] { return queue_->try_launch(task, switches, &position) || position == SubmissionQueue::kSwitched; });
  if (position == SubmissionQueue::kSwitched) return std::nullopt;
  return position;
}

std::optional<std::uint64_t> Core::launch_graph(std::uint32_t* words, const std::vector<std::uint32_t>& changes, std::uint32_t flags,
                                                std::uint32_t groups, const detail::Waits* waits, std::uint64_t switches) {
  check_open();
  const detail::Task all = detail::task_of(changes.data(), static_cast<std::uint32_t>(changes.size()), flags, 1);
  std::optional<Blocks::Loan> block;
  retry([&] { return static_cast<bool>(block.emplace(blocks_->take(all))); });
  const detail::Task held = block->task();
  words[3] = held.word(0);
  words[4] = held.word(1);
  detail::Task task = detail::task_of(words, 5, flags, groups);
  task.waits = waits;
  const std::optional<std::uint64_t> position = launch_graph(task, switches);
  if (position) block->submitted(*position);
  return position;
}

void Core::check_level(std::uint32_t flags) const {
  if ((flags & detail::kLevel) == 0 || options_.priorities) return;
  throw Error(errc::unsupported, "priority(n): the runtime has no priorities: open it with Options{.priorities = Priorities{}}");
}

void Core::check_gang(std::uint32_t groups) const {
  const std::uint32_t workers = keeper_->workers();
  if (groups <= workers) return;
  throw Error(errc::invalid_argument,
              "a gang of " + std::to_string(groups) + " groups cannot run: there are " + std::to_string(workers) +
                  " workers (RuntimeInfo::workers), and each runs one of them",
              {"gang", "", groups, workers});
}

std::optional<std::uint64_t> Core::try_enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches) {
  check_open();
  if (Recorder* const recorder = Recorder::of(this)) return recorder->record(op, task);
  check_level(task.flags);
  if (task.waits != nullptr) check_waits(*task.waits);
  if (task.waits != nullptr && LaunchGates::are_needed(*task.waits)) {
    detail::Waits waits = *task.waits;
    detail::Task gated = task;
    gated.waits = &waits;
    const bool replaced = gates_->try_replace(waits, op.alias);
    keeper_->submitted();
    return replaced ? try_enqueue(op, gated, switches) : std::nullopt;
  }
  if (task.words > detail::kMaxWords) {
    Blocks::Loan block = blocks_->take(task);
    const std::optional<std::uint64_t> position = block ? try_enqueue(op, block.task(), switches) : std::nullopt;
    if (position && *position != SubmissionQueue::kSwitched) block.submitted(*position);
    return position;
  }
  std::uint64_t position = 0;
  const bool placed = queue_->try_submit(op.alias, task, &position, switches);
  keeper_->submitted();
  if (!placed && position != SubmissionQueue::kSwitched) return std::nullopt;
  return position;
}

bool Core::cancel(std::uint64_t position) {
  check_open();
  check_position(position);
  if ((position & detail::kLaunch) != 0) return false;
  const bool asked = queue_->cancel(position);
  // The task may stand behind places that a thread has and does not use, and the loop be gone.
  queue_->pass_over_idle();
  keeper_->submitted();
  watch_->moved();
  return asked;
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

bool Core::done(std::uint64_t position) {
  check_position(position);
  if ((position & detail::kLaunch) != 0) return launches_->done(position & ~detail::kLaunch);
  if (queue_->done(position)) return true;
  if (queue_->pass_over_idle()) keeper_->submitted();
  return keeper_->failed();
}

bool Core::wait(std::uint64_t position, std::optional<Clock::time_point> deadline) {
  check_position(position);
  if ((position & detail::kLaunch) != 0) return launches_->wait(position & ~detail::kLaunch, deadline);
  if (queue_->done(position)) return true;
  if (host_calls_->runs_here(position)) check_own_launch(position + 1);
  // A wait that has an end of its own stalls nobody for ever.
  const HostCalls::Waits waits(*host_calls_, deadline ? std::nullopt : std::optional(position));
  rest();
  Backoff backoff(device_.on_host);
  while (!queue_->done(position)) {
    if (!backoff.wait()) continue;
    queue_->pass_over_idle();
    keeper_->submitted();  // the loop may have left just before the task came, and the keeper be without a processor
    if (keeper_->failed()) {
      if (queue_->done(position)) return true;
      throw keeper_->failure();
    }
    if (deadline && Clock::now() >= *deadline) return queue_->done(position);
    watch_->check(position);
  }
  return true;
}

void Core::check_own_launch(std::uint64_t position) const {
  // Positions of what is not complete lie within a ring's length.
  if (!host_calls_->runs_before(position)) return;
  throw Error(errc::invalid_argument,
              "the callback of a host node waits for its own launch, which cannot end before it returns: let nodes behind the host node do "
              "what is to come, or wait outside of the graph");
}

void Core::wait_before(std::uint64_t position) {
  check_own_launch(position);
  const HostCalls::Waits waits(*host_calls_, queue_->reaped());
  rest();
  Backoff backoff(device_.on_host);
  for (;;) {
    queue_->reap_done();
    if (queue_->reaped() >= position) return;
    if (!backoff.wait()) continue;
    if (queue_->pass_over_idle()) keeper_->submitted();
    if (keeper_->failed()) throw keeper_->failure();
    watch_->check(queue_->reaped());
  }
}

void Core::wait_all() {
  const std::uint64_t launched = launches_->next();
  wait_before(queue_->tail());
  launches_->wait_before(launched);
  launches_->collect();
}

int Core::status_of(std::uint64_t position) {
  if ((position & detail::kLaunch) == 0) return queue_->result(position).status;
  return error_of(position) ? status::lost : status::ok;
}

std::optional<Error> Core::error_of(std::uint64_t position) {
  if ((position & detail::kLaunch) != 0) return launches_->error_of(position & ~detail::kLaunch);
  if (queue_->succeeded(position)) return std::nullopt;
  const Failure failure = queue_->result(position);
  if (failure.status == status::ok) return std::nullopt;
  const std::string task = "ticket " + std::to_string(position) + (failure.launch ? " of a graph" : " of operator " + failure.ran);
  if (failure.status != status::cancelled) {
    const std::string node = failure.launch ? ": node " + failure.ran : "";
    return Error(errc::task_failed, task + node + how_it_failed(failure.status, failure.why),
                 {failure.launch ? "node" : "task", failure.ran, position});
  }
  if (failure.asked) return Error(errc::cancelled, task + " was cancelled by Runtime::cancel", {"task", failure.ran, position});
  if (!failure.cause) return Error(errc::cancelled, task + " was cancelled: the runtime was closed before it ran");
  const Failure::Cause& cause = *failure.cause;
  std::string text = task + " was cancelled: it was to start after ticket " + std::to_string(cause.position);
  if (!cause.ran.empty()) text += " of operator " + cause.ran;
  text += ", which";
  text += cause.status == status::ok ? " failed" : how_it_failed(cause.status, "");
  return Error(errc::cancelled, text + "; hard_link and after_any_result go on regardless", {"task", cause.ran, cause.position});
}

std::string Core::how_it_failed(int status, const std::string& why) const {
  switch (status) {
    case status::threw: return " failed: its callback threw " + (why.empty() ? "an exception" : why);
    case status::cancelled: return " was cancelled by Runtime::cancel";
    case status::out_of_scratch:
      return " failed: Group::shared asked for more than Options::scratch_bytes (" + std::to_string(options_.scratch_bytes) + " bytes)";
    case status::overlap:
      return " failed: the result overlaps an input in part, and would have overwritten what was still to be read; write to memory of its "
             "own, or copy the input first";
    case status::out_of_tasks:
      return " failed: there was no room for a task that an operator was to make; let operators make their tasks as a tree, in which each "
             "makes some dozens at most, or raise Options::spawned_tasks (" +
             std::to_string(most_spawned_) + ")";
    case status::spawn_refused:
      return " failed: one of several groups of a task was to make another task, Group::then was called a second time, or "
             "Group::spawn_after named what is no child of the running operator or has six that follow it";
    case status::join_refused:
      return " failed: Group::arrive named a join that has had all its arrivals, or was called by a task that does not descend from the "
             "join's maker";
    case status::join_starved:
      return " failed: a join that it made got fewer arrivals than it waited for, and all that could have arrived has ended";
    case status::launch_refused:
      return " failed: Group::launch was given an Exec without a graph, or was called by a task that descends from a launch of the same "
             "exec, "
             "for whose end it would have waited; let that launch end first, or instantiate the graph a second time";
    case status::no_gang:
      return " failed: Group::gang was called in a task of several groups that is no gang; submit it with dwell::gang(n) instead of "
             "groups(n)";
    case status::no_barrier:
      return " failed: Gang::sync was given a barrier's name beyond 7, or more groups than the gang has, which would never all come";
    case status::too_large:
      return " failed: it is a gang of more groups than there are workers (" + std::to_string(keeper_->workers()) +
             "), so that they cannot all run at once; see RuntimeInfo::workers";
    default: return " failed with code " + std::to_string(status);
  }
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

bool Core::when_done(std::uint64_t position, bool or_stalled, Notifier::Callback callback) {
  check_position(position);
  const auto due = [this, position, or_stalled] { return done(position) || (or_stalled && watch_->holds(position)); };
  return notifier_.when(due, std::move(callback));
}

void Core::park() {
  check_open();
  keeper_->park();
  if (shell_->stage() == detail::Stage::open) return;
  keeper_->resume_all();  // close has ended the user's parks, perhaps before this one
  refuse();
}

void Core::close(Close how) {
  if (host_calls_->runs_here())
    throw Error(errc::invalid_argument, "Runtime::close was called by the callback of a host node, for which it would wait: close outside");
  shell_->lineage->closed.store(true);
  shell_->enter(detail::Stage::closing);
  std::optional<Error> failure;
  const auto attempt = [&](auto&& step) {
    const std::optional<Error> its = failure_of(errc::device_lost, step);
    if (!failure) failure = its;
  };
  // Nothing starts any more, and what has not started is cancelled.
  const auto end_loop = [&] {
    attempt([this] {
      keeper_->retire();
      note_cancelled();
    });
    if (!failure) queue_->complete_all(status::cancelled);
  };
  // Callbacks of the user's may wait for tasks: so those run, or are cancelled, before the callbacks are waited for.
  if (how == Close::now) {
    watch_->stop();
    end_loop();
  } else {
    keeper_->resume_all();
  }
  registry_->close();
  std::optional<Error> stalled;  // then what has not started is cancelled
  if (how == Close::when_done) attempt([this] { wait_before(queue_->tail()); });
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
  if (!keeper_->lost()) throw Error(errc::invalid_argument, "the device works: only a runtime that has lost its device is rebuilt");
  if (const std::string why = backend_->stuck(); !why.empty())
    throw Error(errc::device_lost, device_.device + " cannot be opened again: " + why);
  const Error failure = keeper_->failure();
  Options again = options_;
  again.device = device_.device;  // "auto" must not come to mean another one
  {
    const Lock lock(shell_->mutex);
    shell_->failure = failure;
    shell_->again = std::move(again);
    shell_->next_position = device::align_up(queue_->tail(), device::kWindow);
  }
  shell_->enter(detail::Stage::closing);
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

void Core::leave(std::optional<Error> failure, detail::Stage to) noexcept {
  modules_->close();
  buffers_->close();  // before the core goes: without it they would not be taken off the list
  detail::Shell::Fates ended;
  detail::Shell::Ranges lost;
  const auto unknown = failure_of(errc::out_of_memory, [&] { note_fates(ended, lost); });
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

void Core::note_cancelled() {
  // The queue keeps the failures of the last tasks only. A ticket never lies: the shell keeps all.
  const Lock lock(shell_->mutex);
  for (std::uint64_t position = queue_->reaped(); position < queue_->tail(); ++position)
    if (!queue_->done(position)) detail::Shell::add(position, shell_->cancelled);
}

void Core::note_fates(detail::Shell::Fates& ended, detail::Shell::Ranges& lost) {
  const auto note = [&](std::uint64_t position) {
    if (const std::optional<Error> error = error_of(position))
      ended.emplace(position, detail::Shell::Fate{queue_->result(position).status, *error});
  };
  for (const std::uint64_t position : queue_->failed_positions()) note(position);
  for (std::uint64_t position = queue_->reaped(); position < queue_->tail(); ++position) {
    if (queue_->done(position))
      note(position);
    else
      detail::Shell::add(position, lost);
  }
  for (const auto& [number, error] : launches_->errors()) ended.emplace(number | detail::kLaunch, detail::Shell::Fate{status::lost, error});
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
