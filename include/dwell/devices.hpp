// The devices of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dwell {

// A device as its driver describes it, without being opened.
struct DeviceSummary {
  std::string device;                 // as Options::device takes it: "cpu", "cuda:0"
  std::string name;                   // as the vendor names it
  std::string target;                 // the compiler's target: "host", "sm_90"
  std::string driver;                 // "CUDA 13.0": the newest that it supports; empty on the CPU
  std::uint64_t memory_bytes = 0;     // all of it
  std::uint32_t multiprocessors = 0;  // 0 on the CPU
  std::uint32_t workers = 0;          // with Options::workers 0; an image with high resource use leaves room for fewer
  std::string problem;                // why it cannot run dwell; empty when no reason is known (examine tries)
};

// Returns the CPU first, then each CUDA device that the driver lists. Throws only std::bad_alloc. May be called from any thread.
std::vector<DeviceSummary> devices();

// Returns a sentence why this build has no CUDA backend, and how to get one; empty if it has one. May be called from any thread.
std::string without_cuda();

}  // namespace dwell
