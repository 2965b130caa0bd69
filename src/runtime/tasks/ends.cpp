#include "runtime/tasks/ends.hpp"

#include <utility>

#include <dwell/detail/task.hpp>
#include <dwell/error.hpp>

#include "runtime/device/backoff.hpp"
#include "runtime/device/recorder.hpp"

namespace dwell::runtime {

bool Ends::done(std::uint64_t position) {
  Recorder::refuse(position);
  if ((position & detail::kLaunch) != 0) return parts_.launches.done(position & detail::kPosition);
  if (parts_.queue.done(position)) return true;
  if (parts_.queue.pass_over_idle()) parts_.keeper.submitted();
  return parts_.keeper.failed();
}

bool Ends::wait(std::uint64_t position, std::optional<Clock::time_point> deadline) {
  Recorder::refuse(position);
  if ((position & detail::kLaunch) != 0) return parts_.launches.wait(position & detail::kPosition, deadline);
  if (parts_.queue.done(position)) return true;
  if (parts_.host_calls.runs_here(position)) check_own_launch(position + 1);
  // A wait with a deadline cannot deadlock.
  const HostCalls::Waits waits(parts_.host_calls, deadline ? std::nullopt : std::optional(position));
  rest();
  parts_.keeper.awaited(position);
  Backoff backoff(parts_.on_host);
  while (!parts_.queue.done(position)) {
    if (!backoff.wait()) continue;
    parts_.queue.pass_over_idle();
    parts_.keeper.awaited(position);  // the loop may have left just before the task was placed, and the keeper's thread be preempted
    if (parts_.keeper.failed()) {
      if (parts_.queue.done(position)) return true;
      throw parts_.keeper.failure();
    }
    if (deadline && Clock::now() >= *deadline) return parts_.queue.done(position);
    parts_.watch.check(position);
  }
  return true;
}

void Ends::rest() {
  if (parts_.queue.rest()) parts_.keeper.submitted();
}

void Ends::check_own_launch(std::uint64_t position) const {
  // Positions of incomplete tasks are within a ring's length.
  if (!parts_.host_calls.runs_before(position)) return;
  throw Error(errc::invalid_argument,
              "the callback of a host node waits for its own launch, which cannot end before it returns: let nodes behind the host node do "
              "what is to come, or wait outside of the graph");
}

void Ends::wait_before(std::uint64_t position) {
  check_own_launch(position);
  const HostCalls::Waits waits(parts_.host_calls, parts_.queue.reaped());
  rest();
  if (parts_.queue.reaped() < position) parts_.keeper.awaited(position - 1);
  Backoff backoff(parts_.on_host);
  for (;;) {
    parts_.queue.reap_done();
    const std::uint64_t reaped = parts_.queue.reaped();
    if (reaped >= position || (reaped + 1 == position && parts_.keeper.ends_burst(reaped))) return;
    if (!backoff.wait()) continue;
    parts_.queue.pass_over_idle();
    parts_.keeper.awaited(position - 1);
    if (parts_.keeper.failed()) throw parts_.keeper.failure();
    parts_.watch.check(parts_.queue.reaped());
  }
}

void Ends::wait_all() {
  const std::uint64_t launched = parts_.launches.next();
  wait_before(parts_.queue.tail());
  parts_.launches.wait_before(launched);
  parts_.launches.collect();
}

bool Ends::when_done(std::uint64_t position, bool or_stalled, Notifier::Callback& callback) {
  Recorder::refuse(position);
  const auto due = [this, position, or_stalled] { return done(position) || (or_stalled && parts_.watch.holds(position)); };
  return parts_.notifier.when(due, callback);
}

Ends::Prepared Ends::prepare_when_done(Notifier::Callback callback) {
  auto position = std::make_shared<std::uint64_t>(0);
  auto request =
      parts_.notifier.prepare([this, position] { return done(*position) || parts_.watch.holds(*position); }, std::move(callback));
  return {std::move(position), std::move(request)};
}

bool Ends::when_done(std::uint64_t position, Prepared& prepared) {
  Recorder::refuse(position);
  *prepared.position = position;
  return parts_.notifier.when(prepared.request);
}

}  // namespace dwell::runtime
