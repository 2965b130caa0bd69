// A runtime as Python objects share it, and the ways between the interpreter and the threads of the runtime.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>

namespace dwell::python {

namespace nb = nanobind;

// What threads of a runtime want done by somebody who holds the GIL: references that they drop, lines for Options::warn. They never take
// the GIL for it, since a thread that holds it may be waiting for them. Jobs run at the next call of this package, or in the main thread as
// soon as that runs bytecode. May be called from any thread.
void post(std::function<void()> job);
// Runs what has been posted. The caller holds the GIL.
void run_posted();

// How often this process has been forked: handles of the parent are of no use to a child.
std::uint32_t fork_epoch();

// Returns whether the calling thread is inside of a callback on a thread of a runtime.
bool in_callback();

// Lets go of the GIL. A daemon thread that wants it back while the interpreter ends stops here for ever, as CPython has it from 3.14 on:
// before, CPython unwinds the thread's stack, which C++ does not survive.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// Takes the GIL on a thread of a runtime, for a callback. `entered` is false when the interpreter is ending: then there is nobody to call.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  bool entered() const { return entered_; }

 private:
  bool entered_;
  bool before_;
  PyGILState_STATE state_{};
};

// A Python object that any thread may drop. Released too when the interpreter ends, however many still name it: the collector of cycles
// does not see into the library, so a callback that leads to its own graph would stay for ever.
class Shared {
 public:
  Shared() = default;
  explicit Shared(nb::object object);
  // Borrowed; null when there is none, and once the interpreter has ended. The caller holds the GIL.
  PyObject* get() const { return held_ ? held_->object : nullptr; }
  // Lets go of it, for all who share it. The caller holds the GIL.
  void clear() {
    if (held_) Py_CLEAR(held_->object);
  }

  struct Cell {
    PyObject* object;
  };

 private:
  std::shared_ptr<Cell> held_;
};

class Collector;

// A runtime that all its handles keep alive. The last one closes it, wherever that is dropped: without the GIL, and never on a thread of
// the runtime itself.
class RuntimeState {
 public:
  // `callbacks`: what `options` call. `progress`: who is told of waits for a compiler (compiling.hpp).
  RuntimeState(Options options, std::vector<Shared> callbacks, Shared progress);
  ~RuntimeState();
  RuntimeState(const RuntimeState&) = delete;
  RuntimeState& operator=(const RuntimeState&) = delete;

  // Throws errc::closed in a forked child.
  Runtime& get() const;
  const std::string& device() const { return device_; }
  // The number of the CUDA device, or -1 on the CPU.
  int cuda() const { return cuda_; }
  // What collects operations on its arrays, which keep it. Guarded by the GIL.
  std::weak_ptr<Collector>& arrays() { return arrays_; }
  // What the runtime calls, which may lead back to it. Guarded by the GIL.
  std::vector<Shared>& callbacks() { return callbacks_; }
  const Shared& progress() const { return progress_; }

 private:
  std::unique_ptr<Runtime> runtime_;
  std::uint32_t epoch_ = fork_epoch();
  std::string device_;
  int cuda_ = -1;
  std::weak_ptr<Collector> arrays_;
  std::vector<Shared> callbacks_;
  Shared progress_;  // one of them
};
using State = std::shared_ptr<RuntimeState>;

// A runtime that is closed when the interpreter ends.
State open_runtime(Options options, std::vector<Shared> callbacks, Shared progress);
// Closes all that are open: registered with atexit.
void close_all();

// Throws errc::closed unless `epoch` is this process's.
void require_epoch(std::uint32_t epoch, const char* what);

// Waits without the GIL, in slices, so that signals are handled: `slice` waits for so long and says whether that was enough. Returns false
// when `seconds` (negative: none) are over first.
bool wait_in_slices(double seconds, const std::function<bool(std::chrono::nanoseconds)>& slice);

}  // namespace dwell::python
