// Callbacks of host nodes: calls of the device, run on threads of the runtime.
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

// A call of the device for a host node, as device/host_nodes.hpp has it.
struct HostCall {
  std::uint32_t number;  // of the host node in its exec
  std::uint32_t launch;  // position of the launch, modulo 2^32
};

// An exec with host nodes.
class HostCaller {
 public:
  virtual ~HostCaller() = default;
  // The next call of the device, if there is one. Called by one thread at a time.
  virtual std::optional<HostCall> next() = 0;
  // The calls that next() would return. Called as next().
  virtual std::vector<HostCall> waiting() = 0;
  // What the host node is called. Called by any thread.
  virtual std::string name(std::uint32_t number) const = 0;
  // Runs the callback, notes what it throws, and then answers the device. Called by any thread.
  virtual void answer(const HostCall& call, Causes& causes) noexcept = 0;
};

// Runs the calls of execs of which launches are in flight. Starts its thread with the first prepare(). One thread at a time *leads*: it
// looks for calls and runs callbacks. When a callback is about to wait for the runtime it makes a Waits, and another thread leads from then
// on, so that callbacks may wait for what needs other callbacks. There are at most as many threads as callbacks that wait, and one. The
// thread sleeps while no such launch is in flight; otherwise it looks again and again, at first without a pause, then after an eighth of
// the time that it has waited, 5 us to 1 ms. Members may be called from any thread but finish, which no callback may call.
class HostCalls {
 public:
  // Whether the task at a position is complete, or will never be.
  using Done = std::function<bool(std::uint64_t position)>;

  // `runtime`: as of Callback.
  explicit HostCalls(Done done, std::uint64_t runtime = 0) : done_(std::move(done)), runtime_(runtime) {}
  ~HostCalls() { finish(); }
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  // Starts the thread unless it is there. Throws errc::out_of_memory, errc::closed.
  void prepare();
  // A launch of `caller` is about to be placed; placed() follows. From now on it is looked at, and kept alive until its last launch is
  // complete. Throws std::bad_alloc.
  void launches(std::shared_ptr<HostCaller> caller);
  // The launch has been placed at `position`, or not at all. Launches end in the order of their calls; `of_task`: it is a task that may
  // launch the exec, and ends at any time.
  void placed(const HostCaller& caller, std::optional<std::uint64_t> position, bool of_task = false) noexcept;
  // Takes no call any more, and returns when all callbacks that run have returned. Nothing to do the second time.
  void finish() noexcept;

  // The calling thread waits for a runtime, of which `at` is a part, while this lives: if it runs a callback and leads, another leads from
  // now on. `task`: for which it waits, however long that takes. Throws errc::out_of_memory when no thread can be had for it.
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
  // The calls that are not answered.
  struct Open {
    std::uint32_t launch;
    std::string name;                        // of the host node
    bool begun;                              // its callback runs
    std::optional<std::uint64_t> waits_for;  // a task of this runtime, however long that takes
    std::chrono::nanoseconds since;          // for how long it runs
  };
  std::vector<Open> open();
  // What callbacks have thrown.
  const Causes& causes() const { return causes_; }
  // Whether the calling thread runs a callback of this runtime: of any launch, or of the one at `position`.
  bool runs_here() const { return running != nullptr && running->of == this; }
  bool runs_here(std::uint64_t position) const { return runs_here() && running->launch == static_cast<std::uint32_t>(position); }
  // Of a launch before `position`, both of less than 2^31 positions ago.
  bool runs_before(std::uint64_t position) const {
    return runs_here() && static_cast<std::int32_t>(static_cast<std::uint32_t>(position) - running->launch) > 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    std::shared_ptr<HostCaller> caller;
    std::optional<std::uint64_t> last;  // position of its last launch
    std::uint32_t coming;               // launches that are about to be placed
    std::vector<std::uint64_t> tasks;   // positions of tasks that may launch it; has room for those that come
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
  // The next call, and who makes it. Lets go of the callers whose launches are complete.
  std::optional<HostCall> find(std::shared_ptr<HostCaller>& caller, std::list<Flight>& ended) DWELL_REQUIRES(mutex_);
  // What Waits does: `at` is of the runtime for which the thread waits.
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
