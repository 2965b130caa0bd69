// Finds NVIDIA's run-time compilers.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "jit/base/dynamic_library.hpp"

namespace dwell::jit {

struct CudaVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const CudaVersion&) const = default;
  std::string text() const { return std::to_string(major) + "." + std::to_string(minor); }
};

// The oldest CUDA whose compilers support every instruction and option that dwell uses (16-byte atomic accesses, --minimal).
inline constexpr CudaVersion kOldestCuda{12, 4};

// Folders and names to try for a library such as "nvrtc", in order: $DWELL_CUDA_PATH (a toolkit or the folder of its libraries), the
// folder that the build found, the loader's own search, /usr/local/cuda.
std::vector<std::string> cuda_library_candidates(const std::string& name);

// Opens the first of `candidates` that exists with a `version_of` at least `oldest`. `package`: what to install. Throws dwell::Error with
// errc::compiler_unavailable; the message says what was searched, where, and how to get it.
DynamicLibrary open_cuda_library(const std::string& what, const std::string& package, const std::vector<std::string>& candidates,
                                 CudaVersion oldest, const std::function<CudaVersion(const DynamicLibrary&)>& version_of);

}  // namespace dwell::jit
