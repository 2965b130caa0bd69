// The state of a runtime that outlives its generations: handles point to it. And the end of a generation.
//
// Stages of a generation. Only calls of the runtime's owner (close, the destructor, rebuild) change them, which do not overlap.
//
//   open ──close──▶ closing ──────────────▶ closed
//   open ──rebuild──▶ closing ──▶ lost ──close──▶ closed
//                                  └──rebuild──▶ replaced
//
//   open       has a core. The failure of the device does not end the stage: every call throws it until close or rebuild
//   closing    has a core, which refuses new tasks, launches, definitions, versions and buffers. Tickets can be waited for, buffers read
//   lost       no core: the device has failed, the next generation is not open yet
//   replaced   no core: the next generation is open
//   closed     no core, no next generation
//
// Closing, in this order (Core::close; modelled in tests/model/close.pml):
//   1. Stage closing. New requests throw errc::closed or errc::stale_handle.
//   2. Close::now: the loop leaves the device for good, the ring gives no more places, tasks that have not started are cancelled, those
//   that have begun are interrupted. Callbacks may be in the middle of a submission, behind its check of the stage. Close::when_done: the
//   user's parks end.
//      The runtime's own holds do not: a hand-over ends its hold itself.
//   3. The registry closes. A hand-over under way completes; other definitions end with errc::cancelled. The registry waits for
//      compilations and for the user's callbacks; each callback runs once.
//   4. Close::when_done: waits for all tasks. Both: wait for launches; the loop leaves the device for good, the ring gives no more places.
//   5. Waits for running callbacks of host nodes; calls no others. Frees the memory of buffers and programs. The shell records how tasks
//   ended, enters its last stage and drops the core.
//   6. Calls all pending callbacks of tasks (Ticket::then, notify, co_await), and waits until they have returned.
// A failure in one step does not skip the later steps. Steps 1 to 6 wait for threads that run the program's callbacks, so close is refused
// inside a callback (base/callback.hpp). A Runtime destroyed inside a callback is closed by a new thread once the callback has returned.
//
// Lifetimes:
//   Shell                  is never freed: no handle can dangle
//   Core                   is owned by its shell until step 5, and by each thread that calls a handle for the time of the call. The last
//                          owner destroys it, so a call never loses a part of it
//   keeper, compile pool,  ~Core joins their threads before it destroys anything that they use. Steps 3, 5 and 6 join the pool's, the host
//   host calls, notifier   calls' and the notifier's already, so a thread of a core is never its last owner
//   a user's stop token    may call back at any time: the registry admits no such thread after step 3, and waits for those inside
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/options.hpp>
#include <dwell/runtime.hpp>

#include "base/mutex.hpp"
#include "runtime/devices.hpp"

namespace dwell::runtime {
class Core;
}

namespace dwell::detail {

// Returns the name of a ticket's task or launch in messages: "ticket 5", "launch 5", "ticket 5 of device 1" beyond device 0.
std::string name_of_ticket(std::uint64_t word);

enum class Stage : std::uint8_t { open, closing, lost, replaced, closed };

// Shared by all generations of one Runtime.
struct Lineage {
  using Open = std::function<runtime::OpenedDevice(const Options&)>;
  Lineage(std::uint64_t number, Open open_device) : runtime(number), open(std::move(open_device)) {}
  // Whether this process is a fork of the one that opened the runtime. It has none of the runtime's threads, and these may hold its locks
  // for ever: destructors do nothing.
  bool is_forked() const { return process != getpid(); }

  const std::uint64_t runtime;  // its number in this process, from 1
  const Open open;              // opens its device
  const pid_t process = getpid();
  std::atomic<std::uint32_t> generation{1};  // the newest
  std::atomic<bool> closed{false};           // the runtime is being closed, or has been
};

// One generation of a runtime: from the opening of its device to the device's loss or to the end of the runtime. Never freed (a few hundred
// bytes, and the results of tasks that did not succeed), so that no handle can dangle. Members may be called from any thread, but hold()
// must not overlap others on the newest generation of a runtime, apart from core, gone and end_of.
struct Shell {
  Shell(std::shared_ptr<Lineage> of, std::uint32_t number) : lineage(std::move(of)), generation(number) { lost.reserve(1); }

  // Returns the newest generation of a runtime, or a runtime with the newest generation `shell`.
  static Shell* of(const Runtime& runtime) { return runtime.shell_; }
  static Runtime handle(Shell* shell) { return Runtime(shell); }
  // Returns a ticket with this word (dwell/ticket.hpp).
  static Ticket ticket(Shell* shell, std::uint64_t word) { return {shell, word}; }

  // Gives the shell its core. Whoever destroys the core calls released() next.
  void hold(const std::shared_ptr<runtime::Core>& core);
  void released() noexcept;

  // Returns the core; null if there is none.
  std::shared_ptr<runtime::Core> core() const {
    const Lock lock(mutex);
    return open;
  }
  // Returns the core of a runtime by its newest generation `shell` (may be null). Throws errc::closed, and the failure of a device that
  // could not be reopened.
  static std::shared_ptr<runtime::Core> require(const Shell* shell);

  // Returns why this generation has no core: errc::stale_handle, or the failure of a device that is not reopened yet. `handle` names the
  // handle, "operator 'axpy'"; `again` says how to get a new one.
  Error gone(const std::string& handle, const std::string& again) const;

  // Ends a runtime whose device is lost and was not reopened. Throws the failure. A second call does nothing.
  void close();

  // Sorted ranges of tickets' words [first, last), which are positions on device 0. add() takes a word above all in `into`.
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  static void add(std::uint64_t word, Ranges& into);

  // The end of a task whose core is gone.
  struct TaskEnd {
    int status;
    Error error;
  };
  using TaskEnds = std::map<std::uint64_t, TaskEnd>;  // by the ticket's word
  // Returns the end of a task; nothing if it succeeded.
  std::optional<TaskEnd> end_of(std::uint64_t word) const;

  Stage stage() const { return stage_.load(std::memory_order_relaxed); }
  // Enters the next stage of the table above.
  void enter(Stage next) noexcept;

  const std::shared_ptr<Lineage> lineage;
  const std::uint32_t generation;

  mutable Mutex mutex;
  std::atomic<bool> alive{false};  // a core exists, possibly only in another thread that still uses it
  std::shared_ptr<runtime::Core> open DWELL_GUARDED_BY(mutex);
  // The core for submitters, without the mutex: their caller keeps the runtime open, or they are callbacks, for which close waits.
  std::atomic<runtime::Core*> current{nullptr};
  TaskEnds ended DWELL_GUARDED_BY(mutex);                   // tasks that did not succeed
  Ranges lost DWELL_GUARDED_BY(mutex);                      // tasks lost in the failure
  Ranges cancelled DWELL_GUARDED_BY(mutex);                 // tasks that close cancelled; `ended` has details of the last ones
  std::optional<Error> failure DWELL_GUARDED_BY(mutex);     // of the device
  std::optional<Options> again DWELL_GUARDED_BY(mutex);     // options for the next generation, until it exists
  std::uint64_t next_position DWELL_GUARDED_BY(mutex) = 0;  // of its first ticket

 private:
  bool superseded() const { return stage() == Stage::replaced; }
  std::string belongs(const std::string& handle) const;

  alignas(64) std::atomic<Stage> stage_{Stage::open};  // read with each task: on its own cache line
};

}  // namespace dwell::detail
