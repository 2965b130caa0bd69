// Which process is meant: a number alone may have become another's.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>

namespace dwell::live {

// A process of this machine. Its number and the time of its start name it for as long as the machine runs.
struct Process {
  pid_t pid = 0;
  std::uint64_t start = 0;  // in clock ticks since the machine was started: field 22 of /proc/PID/stat

  static Process self();
  // The one that has this number now.
  static std::optional<Process> with(pid_t pid);

  // Whether it has not ended. False too of one in another namespace of processes.
  bool lives() const { return with(pid) == *this; }
  // For how long it has run.
  std::chrono::nanoseconds age() const;

  auto operator<=>(const Process&) const = default;
};

}  // namespace dwell::live
