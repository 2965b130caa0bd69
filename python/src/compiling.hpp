// Progress reports while a compiler runs (dwell/_progress.py).
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

// The `what` of operators that the first batch of a runtime compiles.
inline constexpr const char* kOwnOperators = "operations on tensors";

// Releases the GIL while `what` is compiled. Calls Runtime(progress=...) after a second and then each second, on a thread of this object,
// and at the end on the thread that waited, always with the GIL. Its exceptions go to sys.unraisablehook, and end the reports.
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
  nb::object told_;     // the callback, or null. Guarded by the GIL
  bool begun_ = false;  // the callback has been called. Guarded by the GIL
  std::optional<Unlocked> unlocked_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  // guarded by mutex_
  std::thread watcher_;
};

}  // namespace dwell::python
