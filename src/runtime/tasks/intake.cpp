#include "runtime/tasks/intake.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include <dwell/error.hpp>

#include "runtime/device/backoff.hpp"
#include "runtime/device/sources.hpp"
#include "runtime/program/definition.hpp"

namespace dwell::runtime {

namespace {

// Returns the parts of the loop that a task with these flags needs.
std::uint32_t parts_of(std::uint32_t flags) {
  namespace part = device::part;
  std::uint32_t parts = 0;
  if ((flags & (detail::kLink | detail::kAfter)) != 0) parts |= part::links;
  return parts | source_of(flags).parts;
}

// Gives a task of one slot to the thread's recorder.
std::uint64_t record(Recorder& recorder, detail::OperatorState& op, const detail::FirstSlot& slot) {
  detail::Task task;
  task.first = slot;
  for (const Parameter& parameter : op.signature.parameters()) task.words += device::words_of(parameter);
  task.words = std::min(task.words, detail::kFirstSlotWords);  // a program is shorter than its declared parameter
  task.flags = static_cast<std::uint32_t>(slot.head >> 36U) & 0xFFFFU;
  task.groups = static_cast<std::uint32_t>(slot.head >> 16U) & 0xFFFFU;
  return recorder.record(op, task);
}

bool needs_gates(const detail::Task& task) { return task.waits != nullptr && LaunchGates::are_needed(*task.waits); }

// A task with its own list, in which gates replace launches.
struct Gated {
  explicit Gated(const detail::Task& of) : waits(*of.waits), task(of) { task.waits = &waits; }
  Gated(const Gated&) = delete;
  Gated& operator=(const Gated&) = delete;

  detail::Waits waits;
  detail::Task task;
};

}  // namespace

void Intake::check(const detail::Task& task) const {
  if ((task.flags & detail::kLevel) != 0 && !parts_.has_priorities)
    throw Error(errc::unsupported, "priority: the runtime has no priorities: open it with the option priorities");
  if (task.waits == nullptr) return;
  for (std::uint32_t i = 0; i < task.waits->count; ++i) {
    Recorder::refuse(task.waits->position[i]);
    static_cast<void>(parts_.devices.of(task.waits->position[i]));
  }
}

void Intake::check_gang(std::uint32_t groups) const {
  const std::uint32_t workers = parts_.keeper.workers();
  if (groups <= workers) return;
  throw Error(errc::invalid_argument,
              "a gang of " + std::to_string(groups) + " groups cannot run: there are " + std::to_string(workers) +
                  " workers (`info().workers`), and each runs one of them",
              {"gang", "", groups, workers});
}

template <class TrySubmit>
void Intake::retry(TrySubmit try_submit) {
  Backoff backoff(parts_.on_host);
  for (bool waited = false;;) {
    const bool done = try_submit();
    parts_.keeper.submitted();
    if (done) return;
    if (!std::exchange(waited, true)) parts_.counts.count<&Metrics::credit_waits>();
    const HostCalls::Waits waits(parts_.host_calls, parts_.queue.reaped());  // room appears when the oldest task has ended
    // Waits for many free places, but not for long: tasks submitted one by one are also fetched one by one.
    for (std::uint32_t checks = 0; checks < 8 && !parts_.queue.roomy();) {
      if (!backoff.wait()) continue;
      ++checks;
      parts_.keeper.awaited(Keeper::kRoom);
      parts_.check_open();  // the loop may have left while the ring is full, or the runtime may have been closed
      parts_.watch.check(parts_.queue.reaped());
      // Room appears when the oldest task has ended.
      if (parts_.host_calls.runs_here(parts_.queue.reaped()) && parts_.queue.tail() - parts_.queue.reaped() > parts_.queue.capacity() / 2)
        throw Error(
            errc::invalid_argument,
            "the callback of a host node has filled the ring of " + std::to_string(parts_.queue.capacity()) +
                " places (the option ring_slots) behind its own launch, which keeps its place until the callback returns: submit fewer "
                "tasks there, or make the ring larger",
            {"option", "Options::ring_slots", parts_.queue.capacity(), 0});
      if (parts_.queue.pass_over_idle()) parts_.keeper.submitted();
    }
  }
}

std::uint64_t Intake::wait_for_room(detail::OperatorState& op, detail::FirstSlot slot) {
  if (Recorder* const recorder = Recorder::of(parts_.runtime)) return record(*recorder, op, slot);
  std::uint64_t position = 0;
  retry([&] { return parts_.queue.try_submit_plain(op.alias, &slot, 1, &position) != 0; });
  return position;
}

std::uint64_t Intake::enqueue_plain(detail::OperatorState& op, const detail::FirstSlot* slots, std::size_t count, bool follows) {
  parts_.check_open();
  if (Recorder* const recorder = Recorder::of(parts_.runtime)) {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < count; ++i) last = record(*recorder, op, slots[i]);
    return last;
  }
  HostSpan span(&parts_.events, TraceEvent::Kind::submit, {}, follows);
  std::uint64_t last = 0;
  std::size_t placed = 0;
  retry([&] {
    // A partial result does not mean a full ring; only 0 does.
    for (std::size_t more = 1; placed != count && more != 0; placed += more)
      more = parts_.queue.try_submit_plain(op.alias, slots + placed, count - placed, &last);
    return placed == count;
  });
  span.id = last + 1 - count;  // contiguous, except for places of other threads in between
  span.count = static_cast<std::uint32_t>(count);
  return last;
}

std::uint64_t Intake::enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches) {
  parts_.check_open();
  if (Recorder* const recorder = Recorder::of(parts_.runtime)) return recorder->record(op, task);
  if (detail::is_of(task.flags, detail::kGang)) check_gang(task.groups);
  check(task);
  parts_.code.need(parts_of(task.flags));
  if (needs_gates(task)) {
    parts_.code.need(device::part::gates);
    Gated gated(task);
    parts_.gates.await(gated.waits);
    retry([&] { return parts_.gates.try_replace(gated.waits, op.alias); });
    return enqueue(op, gated.task, switches);
  }
  HostSpan span(&parts_.events, TraceEvent::Kind::submit);
  if (task.waits != nullptr) span.after = {task.waits->position, task.waits->count};
  span.linked = (task.flags & detail::kLink) != 0;
  if (task.words > detail::kMaxWords) return span.id = enqueue_block(op, task, switches);
  std::uint64_t& position = span.id;
  retry([&] { return parts_.queue.try_submit(op.alias, task, &position, switches) || position == SubmissionQueue::kSwitched; });
  return position;
}

std::uint64_t Intake::enqueue_block(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches) {
  std::optional<Blocks::Loan> block;
  retry([&] { return static_cast<bool>(block.emplace(parts_.blocks.take(task))); });
  std::uint64_t position = 0;
  retry([&] { return parts_.queue.try_submit(op.alias, block->task(), &position, switches) || position == SubmissionQueue::kSwitched; });
  if (position != SubmissionQueue::kSwitched) block->submitted(position);
  return position;
}

std::optional<std::uint64_t> Intake::try_enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches) {
  parts_.check_open();
  if (Recorder* const recorder = Recorder::of(parts_.runtime)) return recorder->record(op, task);
  check(task);
  parts_.code.need(parts_of(task.flags));
  if (needs_gates(task)) {
    parts_.code.need(device::part::gates);
    Gated gated(task);
    const bool replaced = parts_.gates.try_replace(gated.waits, op.alias);
    parts_.keeper.submitted();
    return replaced ? try_enqueue(op, gated.task, switches) : std::nullopt;
  }
  if (task.words > detail::kMaxWords) {
    Blocks::Loan block = parts_.blocks.take(task);
    const std::optional<std::uint64_t> position = block ? try_enqueue(op, block.task(), switches) : std::nullopt;
    if (position && *position != SubmissionQueue::kSwitched) block.submitted(*position);
    return position;
  }
  HostSpan span(&parts_.events, TraceEvent::Kind::submit);
  if (task.waits != nullptr) span.after = {task.waits->position, task.waits->count};
  span.linked = (task.flags & detail::kLink) != 0;
  std::uint64_t& position = span.id;
  const bool placed = parts_.queue.try_submit(op.alias, task, &position, switches);
  parts_.keeper.submitted();
  if (placed) return position;
  span.forget();
  return position == SubmissionQueue::kSwitched ? std::optional(position) : std::nullopt;
}

std::optional<std::uint64_t> Intake::launch_graph(const detail::Task& task, std::uint64_t switches, std::string_view name) {
  parts_.check_open();
  if (Recorder::of(parts_.runtime) != nullptr)
    throw Error(errc::unsupported, "capture: a launch of a graph cannot be captured: add its tasks, or launch it apart");
  check(task);
  parts_.code.need(parts_of(task.flags | detail::kGraph));
  if (needs_gates(task)) {
    parts_.code.need(device::part::gates);
    static const std::atomic<std::uint32_t> kNoAlias{0};
    Gated gated(task);
    parts_.gates.await(gated.waits);
    retry([&] { return parts_.gates.try_replace(gated.waits, kNoAlias); });
    return launch_graph(gated.task, switches, name);
  }
  HostSpan span(&parts_.events, TraceEvent::Kind::launch, name);
  std::uint64_t& position = span.id;
  retry([&] { return parts_.queue.try_launch(task, switches, &position) || position == SubmissionQueue::kSwitched; });
  if (position == SubmissionQueue::kSwitched) return std::nullopt;
  parts_.counts.count<&Metrics::graph_launches>();
  return position;
}

std::optional<std::uint64_t> Intake::launch_graph(std::uint32_t* words, const std::vector<std::uint32_t>& changes, std::uint32_t flags,
                                                  std::uint32_t groups, const detail::Waits* waits, std::uint64_t switches,
                                                  std::string_view name) {
  parts_.check_open();
  const detail::Task all = detail::task_of(changes.data(), static_cast<std::uint32_t>(changes.size()), flags, 1);
  std::optional<Blocks::Loan> block;
  retry([&] { return static_cast<bool>(block.emplace(parts_.blocks.take(all))); });
  const detail::Task held = block->task();
  words[3] = held.word(0);
  words[4] = held.word(1);
  detail::Task task = detail::task_of(words, 5, flags, groups);
  task.waits = waits;
  const std::optional<std::uint64_t> position = launch_graph(task, switches, name);
  if (position) block->submitted(*position);
  return position;
}

bool Intake::cancel(std::uint64_t position) {
  parts_.check_open();
  Recorder::refuse(position);
  if ((position & detail::kLaunch) != 0) return false;
  const bool asked = parts_.queue.cancel(position);
  if (asked) parts_.counts.count<&Metrics::cancels>();
  // The task may be behind unused places of a thread, and the loop off the device.
  parts_.queue.pass_over_idle();
  parts_.keeper.submitted();
  parts_.watch.moved();
  return asked;
}

}  // namespace dwell::runtime
