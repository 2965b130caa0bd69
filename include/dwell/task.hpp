// How a task is run: further arguments of a submit call.
#pragma once

#include <cstdint>

namespace dwell {

// How a task is run, as further arguments of submit, in any order behind the operator's own.
struct Groups {
  std::uint32_t count;
};
// The task is shared by `count` groups, 1 to 65535: Group::index and Group::count tell them apart.
constexpr Groups groups(std::uint32_t count) { return Groups{count}; }

struct GangSize {
  std::uint32_t count;
};
// The task is run by a gang: `count` groups that all run at once, each on a worker of its own, with barriers among them (Group::gang).
// It begins when so many workers are free; another gang that waits begins after it, tasks of other kinds go on beside. submit throws
// errc::invalid_argument for more than RuntimeInfo::workers. A gang is no node of a graph. A gang that runs for long gives its workers back
// now and then (Gang::yield), also one of a single group.
constexpr GangSize gang(std::uint32_t count) { return GangSize{count}; }

struct Repeat {
  std::uint32_t count;
};
// Runs the task `count` times, 1 to 65535, with the same arguments, each run behind the one before and the tasks that it has made, with no
// word to the host in between. Ends early when a run fails, with that failure, and when it is cancelled: Runtime::cancel takes effect
// between runs, so some may have run. Other tasks wait for a worker no longer than one run. The task has one group and is no node of a
// graph. submit throws errc::invalid_argument for a count out of range. An operator that counts its runs keeps the count in memory.
constexpr Repeat repeat(std::uint32_t count) { return Repeat{count}; }

struct Priority {
  std::uint32_t level;
};
// How urgent the task is: from 0, the least, to 7, the most; tasks without it have 3. Of tasks that may run and wait for a worker, those of
// the highest priority begin first; one that has waited while 64 of higher ones began goes before them. A graph that is launched with it
// has it in all its nodes, and what an operator makes has its own. A worker that is inside a graph, or between tasks that an operator has
// made, goes over to more urgent ones when the operator that runs returns. Needs Options::priorities: else submit and launch throw
// errc::unsupported. They throw errc::invalid_argument for more than 7.
constexpr Priority priority(std::uint32_t level) { return Priority{level}; }

struct Link {};
// As `after` (after.hpp) with that task's ticket: the task starts only after the one that the calling thread submitted before it to the
// same runtime has succeeded, whatever other threads submit in between, as io_uring's IOSQE_IO_LINK. If that one fails or is cancelled,
// this one is cancelled: its operator is not called, and its ticket ends with errc::cancelled, which names the task that failed first. A
// thread's first task is linked to nothing. The first link in a runtime may be a `drain` too, as with `after`.
//
// A task without `link` waits for none, and begins a new chain:
//   runtime.submit(load, x);
//   runtime.submit(scale, x, link);  // behind load
//   runtime.submit(load, y);         // a new chain, which waits for neither
//   runtime.submit(scale, y, link);  // behind the second load
// A thread that goes on with several chains in turn names tickets instead (`after`).
inline constexpr Link link{};

struct HardLink {};
// The task starts only after the one that the calling thread submitted before it is complete, successful or not, as io_uring's
// IOSQE_IO_HARDLINK. `link` beside it changes nothing.
inline constexpr HardLink hard_link{};

struct Drain {};
// The task starts only after all submitted before it are complete, and none submitted after it starts before it is complete, as
// io_uring's IOSQE_IO_DRAIN.
inline constexpr Drain drain{};

}  // namespace dwell
