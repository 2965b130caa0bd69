// Callbacks of host nodes: the device requests them, threads of the runtime run them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "runtime/complete/causes.hpp"

namespace dwell::runtime {

// A call that the device requests for a host node (device/host_nodes.hpp).
struct HostCall {
  std::uint32_t number;  // of the host node in its exec
  std::uint32_t launch;  // position of the launch, modulo 2^32
};

// An exec with host nodes.
class HostCaller {
 public:
  virtual ~HostCaller() = default;
  // Dequeues the device's next call, if any. Called by one thread at a time.
  virtual std::optional<HostCall> next() = 0;
  // Returns the calls that next() would return. Called as next().
  virtual std::vector<HostCall> waiting() = 0;
  // Returns the host node's name. May be called from any thread.
  virtual std::string name(std::uint32_t number) const = 0;
  // Runs the callback, records its exception, and then answers the device. May be called from any thread.
  virtual void answer(const HostCall& call, Causes& causes) noexcept = 0;
};

// Runs the calls of execs with launches in flight. The first prepare() starts its thread. One thread at a time *leads*: it polls for calls
// and runs callbacks. A callback that is about to wait for the runtime makes a Waits, and another thread leads from then on; so callbacks
// may wait for tasks that need other callbacks. There is at most one thread more than waiting callbacks. The leader sleeps while no such
// launch is in flight; otherwise it polls, first without a pause, then after an eighth of the time that it has waited, 5 us to 1 ms.
// Members may be called from any thread, except that no callback may call finish.
class HostCalls {
 public:
  // Whether the task at a position is complete, or never will be.
  using Done = std::function<bool(std::uint64_t position)>;

  // `runtime`: as of Callback.
  explicit HostCalls(Done done, std::uint64_t runtime = 0) : done_(std::move(done)), runtime_(runtime) {}
  ~HostCalls() { finish(); }
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  // Starts the thread unless it runs. Throws errc::out_of_memory, errc::closed.
  void prepare();
  // Announces a launch of `caller`; placed() must follow. Polls the caller from now on, and keeps it alive until its last launch is
  // complete. Throws std::bad_alloc.
  void launches(std::shared_ptr<HostCaller> caller);
  // Reports the position of the announced launch; nothing if it was not placed. Launches end in the order of these calls. `of_task`: it is
  // a task that may launch the exec, and ends at any time.
  void placed(const HostCaller& caller, std::optional<std::uint64_t> position, bool of_task = false) noexcept;
  // Stops taking calls, and waits for running callbacks. A second call does nothing.
  void finish() noexcept;

  // Marks the calling thread as waiting for the runtime of `at` while this lives: if it runs a callback and leads, another thread leads
  // from now on. `task`: the task it waits for, without a time limit. Throws errc::out_of_memory when no thread can be started for it.
  class Waits {
   public:
    explicit Waits(HostCalls& at, std::optional<std::uint64_t> task = {}) {
      if (running != nullptr) [[unlikely]]
        running->of->let_go(&at, task);
    }
    ~Waits() {
      if (running != nullptr) [[unlikely]]
        running->of->go_on();
    }
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;
  };
  // An unanswered call.
  struct Open {
    std::uint32_t launch;
    std::string name;                        // of the host node
    bool begun;                              // its callback runs
    std::optional<std::uint64_t> waits_for;  // a task of this runtime, without a time limit
    std::chrono::nanoseconds since;          // for how long it runs
  };
  std::vector<Open> open();
  // Exceptions of callbacks.
  const Causes& causes() const { return causes_; }
  // Returns whether the calling thread runs a callback of this runtime: of any launch, or of the one at `position`.
  bool runs_here() const { return running != nullptr && running->of == this; }
  bool runs_here(std::uint64_t position) const { return runs_here() && running->launch == static_cast<std::uint32_t>(position); }
  // As above, for any launch before `position`; both are less than 2^31 positions ago.
  bool runs_before(std::uint64_t position) const {
    return runs_here() && static_cast<std::int32_t>(static_cast<std::uint32_t>(position) - running->launch) > 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    std::shared_ptr<HostCaller> caller;
    std::optional<std::uint64_t> last;  // position of its last launch
    std::uint32_t coming;               // launches that are about to be placed
    std::vector<std::uint64_t> tasks;   // positions of tasks that may launch it; has room for announced ones
  };
  // State of one callback thread; `of` and `launch` are private to it, mutex_ guards the rest.
  struct Running {
    HostCalls* of;
    std::uint32_t launch = 0;
    bool leads = false;
    const HostCaller* caller = nullptr;  // whose callback runs
    std::uint32_t number = 0;            // of the host node
    Clock::time_point since = {};        // when it began
    std::optional<std::uint64_t> waits_for = {};
    Running* next = nullptr;
  };
  static thread_local Running* running;

  void start() DWELL_REQUIRES(mutex_);
  void work() noexcept;
  // Returns the next call and its caller. Releases callers whose launches are complete.
  std::optional<HostCall> find(std::shared_ptr<HostCaller>& caller, std::list<Flight>& ended) DWELL_REQUIRES(mutex_);
  // Implements Waits: the thread waits for the runtime of `at`.
  void let_go(const HostCalls* at, std::optional<std::uint64_t> task);
  void go_on() noexcept;

  const Done done_;
  Causes causes_;
  const std::uint64_t runtime_;
  Mutex mutex_;
  Condition changed_;
  std::list<Flight> flights_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ DWELL_GUARDED_BY(mutex_);
  Running* working_ DWELL_GUARDED_BY(mutex_) = nullptr;  // of all threads
  std::uint32_t idle_ DWELL_GUARDED_BY(mutex_) = 0;      // threads that wait for their turn to lead
  bool led_ DWELL_GUARDED_BY(mutex_) = false;
  bool finishing_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::runtime
