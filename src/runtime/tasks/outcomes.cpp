#include "runtime/tasks/outcomes.hpp"

#include <dwell/detail/task.hpp>
#include <dwell/device/status.hpp>

namespace dwell::runtime {

class Outcomes::HeapRoom {
 public:
  explicit HeapRoom(const std::function<std::string()>& read) : read_(read) {}
  const std::string& text() {
    if (!text_) text_ = read_();
    return *text_;
  }

 private:
  const std::function<std::string()>& read_;
  std::optional<std::string> text_;
};

int Outcomes::status_of(std::uint64_t position) {
  if ((position & detail::kLaunch) == 0) return parts_.queue.result(position).status;
  return error_of(position) ? status::lost : status::ok;
}

std::optional<Error> Outcomes::error_of(std::uint64_t position) {
  HeapRoom room(parts_.heap_room);
  return error_of(position, room);
}

std::optional<Error> Outcomes::error_of(std::uint64_t position, HeapRoom& room) {
  if ((position & detail::kLaunch) != 0) return parts_.launches.error_of(position & detail::kPosition);
  if (parts_.queue.succeeded(position)) return std::nullopt;
  const Failure failure = parts_.queue.result(position);
  if (failure.status == status::ok) return std::nullopt;
  const bool launch = !failure.graph.empty();
  const std::string task = "ticket " + std::to_string(position) + (launch ? " of " + failure.graph : " of operator " + failure.ran);
  if (failure.status == status::interrupted)
    return Error(errc::interrupted, task + " was interrupted: the runtime was closed in the middle of it, when " + failure.why,
                 {"task", failure.ran, position});
  if (failure.status != status::cancelled) {
    const std::string node = launch ? ": node " + failure.ran : "";
    const Failure::Inside& inside = failure.inside;
    std::string first;
    if (!inside.node.empty())
      first = "; the first node to fail in graphs that operators launched for it: " + inside.node +
              how_it_failed(inside.status, inside.why, nullptr);
    const std::string& why = failure.status == status::threw ? failure.why : inside.why;
    return Error(errc::task_failed, task + node + how_it_failed(failure.status, failure.why, &room) + first,
                 {launch ? "node" : "task", failure.ran, position}, parts_.host_calls.causes().of(position, why));
  }
  if (failure.asked) return Error(errc::cancelled, task + " was cancelled by `cancel`", {"task", failure.ran, position});
  if (!failure.cause) return Error(errc::cancelled, task + " was cancelled: the runtime was closed before it ran");
  const Failure::Cause& cause = *failure.cause;
  std::string text = task + " was cancelled: it was to start after ticket " + std::to_string(cause.position);
  if (!cause.graph.empty())
    text += " of " + cause.graph + (cause.ran.empty() ? ", which" : ", whose node " + cause.ran);
  else
    text += (cause.ran.empty() ? "" : " of operator " + cause.ran) + ", which";
  text += cause.status == status::ok ? " failed" : how_it_failed(cause.status, "", nullptr);
  return Error(errc::cancelled, text + "; hard_link and after_any_result go on regardless", {"task", cause.ran, cause.position});
}

std::string Outcomes::how_it_failed(int status, const std::string& why, HeapRoom* room) const {
  switch (status) {
    case status::threw: return " failed: its callback threw " + (why.empty() ? "an exception" : why);
    case status::exception: return " failed: an exception left it" + (why.empty() ? "" : ": " + why);
    case status::out_of_memory:
      return " failed: the heap had no room for what it allocates: free some, or raise the option heap.reserve" +
             (room == nullptr || room->text().empty() ? "" : "; " + room->text());
    case status::bad_free: return " failed: it freed memory that is not allocated in the heap: twice, or by a wrong reference";
    case status::bad_write:
      return " failed: the memory that it freed was written behind its end, or memory that it got was written after it was freed "
             "(HeapChecks::full)";
    case status::out_of_bounds: return " failed: it asked for " + (why.empty() ? "an element beyond a span" : why);
    case status::ring_full:
      return " failed: a ring had no room for its message; make the ring larger, read it more often, or use try_push and let the task go "
             "on "
             "later (Group::then)";
    case status::ring_closed: return " failed: it pushed a message into a ring that was closed";
    case status::ring_refused: return " failed: it pushed a message into a ring whose producers are on the host (RingOptions::producers)";
    case status::cancelled: return " was cancelled by `cancel`";
    case status::interrupted: return " was interrupted when the runtime was closed";
    case status::out_of_scratch:
      return " failed: Group::shared asked for more than the option scratch_bytes (" + std::to_string(parts_.scratch_bytes) + " bytes)";
    case status::overlap:
      return " failed: the result overlaps an input in part, and would have overwritten what was still to be read; write to memory of its "
             "own, or copy the input first";
    case status::out_of_tasks:
      return " failed: there was no room for a task that an operator was to make; let operators make their tasks as a tree, in which each "
             "makes some dozens at most, or raise the option spawned_tasks (" +
             std::to_string(parts_.most_spawned) + ")";
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
             "exec, for whose end it would have waited; let that launch end first, or instantiate the graph a second time";
    case status::no_gang:
      return " failed: Group::gang was called in a task of several groups that is no gang; submit it with gang instead of groups";
    case status::no_barrier:
      return " failed: Gang::sync was given a barrier's name beyond 7, or more groups than the gang has, which would never all arrive";
    case status::too_large:
      return " failed: it is a gang of more groups than there are workers (" + std::to_string(parts_.keeper.workers()) +
             "), so that they cannot all run at once; see `info().workers`";
    case status::index_out_of_range:
      return " failed: an index is below 0, or not below the size of the dimension that it counts along; nothing was read or written "
             "there, "
             "the other elements are done";
    default: return " failed with code " + std::to_string(status);
  }
}

void Outcomes::add_open(const Reaper::Begun& begun, detail::Shell::Ranges& open) const {
  for (std::uint64_t position = parts_.queue.reaped(); position < parts_.queue.tail(); ++position)
    if (!parts_.queue.done(position) && !begun.contains(position)) detail::Shell::add(position, open);
}

void Outcomes::add_all(detail::Shell::TaskEnds& ended, detail::Shell::Ranges& open) {
  HeapRoom room(parts_.heap_room);
  const auto note = [&](std::uint64_t position) {
    if (const std::optional<Error> error = error_of(position, room))
      ended.emplace(position, detail::Shell::TaskEnd{parts_.queue.result(position).status, *error});
  };
  for (const std::uint64_t position : parts_.queue.failed_positions()) note(position);
  for (std::uint64_t position = parts_.queue.reaped(); position < parts_.queue.tail(); ++position) {
    if (parts_.queue.done(position))
      note(position);
    else
      detail::Shell::add(position, open);
  }
  for (const auto& [number, error] : parts_.launches.errors())
    ended.emplace(number | detail::kLaunch, detail::Shell::TaskEnd{status::lost, error});
}

}  // namespace dwell::runtime
