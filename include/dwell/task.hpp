// Modifiers of a task: further arguments of a submit call.
#pragma once

#include <cstdint>

namespace dwell {

// Modifiers of a task, in any order after the operator's own arguments.
struct Groups {
  std::uint32_t count;
};
// Runs the task with `count` groups, 1 to 65535: Group::index and Group::count tell them apart.
constexpr Groups groups(std::uint32_t count) { return Groups{count}; }

struct GangSize {
  std::uint32_t count;
};
// Runs the task with a gang: `count` groups that run concurrently, each on a worker of its own, with barriers among them (Group::gang).
// It begins when that many workers are free; a later gang begins after it, and other tasks run beside it. A gang may be a node of a
// graph. A long-running gang, also one of a single group, should release its workers from time to time (Gang::yield). submit throws
// errc::invalid_argument for more than RuntimeInfo::workers.
constexpr GangSize gang(std::uint32_t count) { return GangSize{count}; }

struct Repeat {
  std::uint32_t count;
};
// Runs the task `count` times, 1 to 65535, with the same arguments, without the host. Each run begins after the one before and the tasks it
// made. Ends early with the failure of a run, and when cancelled: Runtime::cancel takes effect between runs, so some may have run. Other
// tasks wait for a worker no longer than one run. The task has one group and cannot be a node of a graph. submit throws
// errc::invalid_argument for a count out of range. An operator that counts its runs keeps the count in memory.
constexpr Repeat repeat(std::uint32_t count) { return Repeat{count}; }

struct Priority {
  std::uint32_t level;
};
// Sets the priority, from 0, the least urgent, to 7; the default is 3. Of ready tasks that wait for a worker, those of the highest priority
// begin first; a task passed over 64 times goes before them. All nodes of a launched graph, and all tasks that an operator makes, inherit
// it. A worker inside a graph, or between tasks that an operator has made, switches to more urgent tasks when the running operator returns.
// Without Options::priorities submit and launch throw errc::unsupported. They throw errc::invalid_argument for more than 7.
constexpr Priority priority(std::uint32_t level) { return Priority{level}; }

struct Link {};
// Starts the task only after the calling thread's previous task in the same runtime has succeeded, whatever other threads submit in
// between, as io_uring's IOSQE_IO_LINK; equal to `after` (after.hpp) with that task's ticket. If the previous task fails or is cancelled,
// this one is cancelled: its operator is not called, and its ticket ends with errc::cancelled, which names the task that failed first. A
// thread's first task is not linked. The first link in a runtime may be a `drain` too, as with `after`.
//
// A task without `link` does not wait, and begins a new chain:
//   runtime.submit(load, x);
//   runtime.submit(scale, x, link);  // behind load
//   runtime.submit(load, y);         // a new chain, which waits for neither
//   runtime.submit(scale, y, link);  // behind the second load
// A thread with several interleaved chains uses tickets instead (`after`).
inline constexpr Link link{};

struct HardLink {};
// Starts the task only after the calling thread's previous task is complete, successful or not, as io_uring's IOSQE_IO_HARDLINK. An
// additional `link` has no effect.
inline constexpr HardLink hard_link{};

struct Drain {};
// Starts the task only after all earlier tasks are complete, and later tasks only after it is complete, as
// io_uring's IOSQE_IO_DRAIN.
inline constexpr Drain drain{};

}  // namespace dwell
