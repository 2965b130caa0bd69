#include "jit/cuda/cuda_library.hpp"

#include <algorithm>
#include <cstdlib>

// The folder in which the build found NVIDIA's libraries; may be empty.
#ifndef DWELL_CUDA_LIBRARY_HINT
#define DWELL_CUDA_LIBRARY_HINT ""
#endif

namespace dwell::jit {

namespace fs = std::filesystem;

std::vector<std::string> cuda_library_candidates(const std::string& name) {
  std::vector<std::string> candidates;
  const std::vector<std::string> files = {"lib" + name + ".so.13", "lib" + name + ".so.12"};
  const auto add_folder = [&](const fs::path& folder) {
    for (const std::string& file : files) candidates.push_back(folder / file);
  };
  if (const char* const set = secure_getenv("DWELL_CUDA_PATH"); set != nullptr && *set != 0) {
    for (const char* const below : {"", "lib64", "lib"}) add_folder(fs::path(set) / below);
  }
  if (constexpr std::string_view hint = DWELL_CUDA_LIBRARY_HINT; !hint.empty()) add_folder(hint);
  candidates.insert(candidates.end(), files.begin(), files.end());
  add_folder("/usr/local/cuda/lib64");
  return candidates;
}

DynamicLibrary open_cuda_library(const std::string& what, const std::string& package, const std::vector<std::string>& candidates,
                                 CudaVersion oldest, const std::function<CudaVersion(const DynamicLibrary&)>& version_of) {
  std::string found;
  for (const std::string& candidate : candidates) {
    std::error_code error;
    const bool is_file = candidate.find('/') != std::string::npos;
    if (is_file && !fs::exists(candidate, error)) continue;
    try {
      DynamicLibrary library(candidate, DynamicLibrary::Scope::local, errc::compiler_unavailable);
      const CudaVersion version = version_of(library);
      if (version >= oldest) return library;
      found += "; " + library.file().string() + " is version " + version.text();
    } catch (const Error& failure) {
      // Report only existing files that fail to open; names unknown to the loader are the usual case.
      if (is_file) found += "; " + failure.message();
    }
  }
  std::string places;
  for (const std::string& candidate : candidates) places += (places.empty() ? "" : ", ") + candidate;
  throw Error(errc::compiler_unavailable, what + " " + oldest.text() + " or newer is needed to build operators for CUDA; looked for " +
                                              places + found + ". Install a CUDA toolkit, or `pip install " + package +
                                              "`, and set DWELL_CUDA_PATH to the toolkit or to the package's folder nvidia/cu13/lib");
}

}  // namespace dwell::jit
