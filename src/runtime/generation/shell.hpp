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
//   2. Close::now: the loop leaves the device for good, tasks that have not started are cancelled, those that have begun are interrupted.
//   Close::when_done: the user's parks end.
//      The runtime's own holds do not: a hand-over ends its hold itself.
//   3. The registry closes. A hand-over under way completes; other definitions end with errc::cancelled. The registry waits for
//      compilations and for the user's callbacks; each callback runs once.
//   4. Close::when_done: waits for all tasks. Both: wait for launches; the loop leaves the device for good.
//   5. Callbacks of host nodes that run are waited for; others are not called any more. Buffers and programs lose their memory. The shell
//   notes how tasks ended, enters its last stage and drops the core.
//   6. Calls all that waits for tasks (Ticket::then, notify, co_await), and waits until it has returned.
// A failure in one step does not skip the later steps. Steps 1 to 6 wait for threads that call the program's code: so they are refused
// inside of such a call (base/callback.hpp), and a Runtime that is destroyed there is closed by a thread of its own when that returns.
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

enum class Stage : std::uint8_t { open, closing, lost, replaced, closed };

// Shared by all generations of one Runtime.
struct Lineage {
  using Open = std::function<runtime::OpenedDevice(const Options&)>;
  Lineage(std::uint64_t number, Open open_device) : runtime(number), open(std::move(open_device)) {}
  // Whether this process is a fork of the one that opened the runtime. It has none of the runtime's threads, and its locks may be held by
  // them for ever: destructors leave everything as it is.
  bool is_forked() const { return process != getpid(); }

  const std::uint64_t runtime;  // which one of this process, from 1
  const Open open;              // how its device is opened
  const pid_t process = getpid();
  std::atomic<std::uint32_t> generation{1};  // the newest
  std::atomic<bool> closed{false};           // the runtime is being closed, or has been
};

// One generation of a runtime: from the opening of its device to the device's loss or to the end of the runtime. Never freed (a few
// hundred bytes, and what became of the tasks that did not succeed), so that no handle can dangle. Members may be called from any thread,
// but hold() must not overlap others on the newest generation of a runtime, apart from core, gone and end_of.
struct Shell {
  Shell(std::shared_ptr<Lineage> of, std::uint32_t number) : lineage(std::move(of)), generation(number) { lost.reserve(1); }

  // The newest generation of a runtime, and a runtime of which `shell` is that.
  static Shell* of(const Runtime& runtime) { return runtime.shell_; }
  static Runtime handle(Shell* shell) { return Runtime(shell); }

  // Gives the shell its core. Whoever destroys the core calls released() next.
  void hold(const std::shared_ptr<runtime::Core>& core);
  void released() noexcept;

  // The core while there is one.
  std::shared_ptr<runtime::Core> core() const {
    const Lock lock(mutex);
    return open;
  }
  // The core of a runtime, of which `shell` is the newest generation, or null. Throws errc::closed, and the failure of a device that
  // could not be opened again.
  static std::shared_ptr<runtime::Core> require(const Shell* shell);

  // Why a handle of this generation leads to no core: errc::stale_handle, or the failure of a device that is not open again yet.
  // `handle` names it, "operator 'axpy'"; `again` says how to get a new one.
  Error gone(const std::string& handle, const std::string& again) const;

  // Ends a runtime whose device is lost and was not opened again. Throws the failure. Nothing to do the second time.
  void close();

  // Ranges of positions [first, last), in order. `into` takes a position above all that are in it.
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  static void add(std::uint64_t position, Ranges& into);

  // The end of a task whose core is gone.
  struct TaskEnd {
    int status;
    Error error;
  };
  using TaskEnds = std::map<std::uint64_t, TaskEnd>;  // by position
  // Nothing for one that succeeded.
  std::optional<TaskEnd> end_of(std::uint64_t position) const;

  Stage stage() const { return stage_.load(std::memory_order_relaxed); }
  // Takes a step of the table above.
  void enter(Stage next) noexcept;

  const std::shared_ptr<Lineage> lineage;
  const std::uint32_t generation;

  mutable Mutex mutex;
  std::atomic<bool> alive{false};  // whether there is a core, be it only one that another thread has not let go of yet
  std::shared_ptr<runtime::Core> open DWELL_GUARDED_BY(mutex);
  // The same without the mutex, for submitters: their caller keeps the runtime open, or they are callbacks, which close waits for.
  std::atomic<runtime::Core*> current{nullptr};
  TaskEnds ended DWELL_GUARDED_BY(mutex);                   // tasks that did not succeed
  Ranges lost DWELL_GUARDED_BY(mutex);                      // positions of tasks that the failure took
  Ranges cancelled DWELL_GUARDED_BY(mutex);                 // and of those that close cancelled; `ended` has details of the last ones
  std::optional<Error> failure DWELL_GUARDED_BY(mutex);     // of the device
  std::optional<Options> again DWELL_GUARDED_BY(mutex);     // options of the next generation, while there is none
  std::uint64_t next_position DWELL_GUARDED_BY(mutex) = 0;  // of its first ticket

 private:
  bool superseded() const { return stage() == Stage::replaced; }
  std::string belongs(const std::string& handle) const;

  alignas(64) std::atomic<Stage> stage_{Stage::open};  // read with each task: apart from what others write
};

}  // namespace dwell::detail
