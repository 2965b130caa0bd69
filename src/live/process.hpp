// Identifies processes: a number alone may have been reused.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>

namespace dwell::live {

// A process of this machine. Its number and start time are unique while the machine runs.
struct Process {
  pid_t pid = 0;
  std::uint64_t start = 0;  // in clock ticks since the machine was started: field 22 of /proc/PID/stat

  static Process self();
  // Returns the current process with this number.
  static std::optional<Process> with(pid_t pid);

  // Returns whether it still runs. Also false for a process in another PID namespace.
  bool lives() const { return with(pid) == *this; }
  // Returns its running time.
  std::chrono::nanoseconds age() const;

  auto operator<=>(const Process&) const = default;
};

}  // namespace dwell::live
