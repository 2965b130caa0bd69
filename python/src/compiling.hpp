// Waits for a compiler that tell how long they take (dwell/_progress.py).
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "state.hpp"

namespace dwell::python {

// What a batch compiles when the first of a runtime is made, as `what`.
inline constexpr const char* kOwnOperators = "operations on tensors";

// As Unlocked, for as long as `what` is compiled. Once that has taken a second, Runtime(progress=...) is told, then each second, on a
// thread of this object, and at the end on the thread that has waited, always with the GIL. What it raises goes to sys.unraisablehook; it
// is told nothing more.
class Compiling {
 public:
  // Holds the GIL until it has been made. Throws what Python raises.
  Compiling(const RuntimeState& runtime, std::string what);
  ~Compiling();
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void watch();
  void tell(bool done);

  const std::string what_;
  const Clock::time_point start_ = Clock::now();
  nb::object told_;     // null: nobody is told. Guarded by the GIL
  bool begun_ = false;  // has been told something. Guarded by the GIL
  std::optional<Unlocked> unlocked_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  // guarded by mutex_
  std::thread watcher_;
};

}  // namespace dwell::python
