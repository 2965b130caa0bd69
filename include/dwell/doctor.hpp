// What this machine offers dwell.
#pragma once

#include <string>
#include <vector>

namespace dwell {

// One thing that dwell needs or can use.
struct Finding {
  std::string what;    // "NVRTC", "device cuda:0"
  std::string state;   // "ok", "missing", "too old", "failed"
  std::string detail;  // version and file, or what was seen
  std::string advice;  // what to do; empty when there is nothing to do
};

// Looks for everything that dwell can use, and runs a task on every device that has what it needs: a device is "ok" when the task's
// result was right. Takes a second or more. A failure is a finding; throws nothing but std::bad_alloc. May be called from any thread.
std::vector<Finding> examine();

}  // namespace dwell
