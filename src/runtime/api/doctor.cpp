#include <dwell/doctor.hpp>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include <dwell/dwell.hpp>

#include "jit/cache/file_cache.hpp"
#include "jit/host/host_compiler.hpp"
#include "runtime/devices.hpp"
#if DWELL_WITH_CUDA
#include "backend/cuda/cuda_devices.hpp"
#include "jit/cuda/nvjitlink.hpp"
#include "jit/cuda/nvrtc.hpp"
#endif

namespace dwell {

namespace {

// Separates the fault from the remedy in an error's message: the last occurrence counts.
Finding failure_of(std::string what, const std::string& message) {
  Finding finding{std::move(what), "missing", message, ""};
  // The words by which errors of the libraries and the driver report an unsuitable version.
  for (const std::string_view words : {" is version ", " is a driver for CUDA "}) {
    if (message.find(words) != std::string::npos) finding.state = "too old";
  }
  for (const std::string_view advice : {". Install ", "; install "}) {
    const std::size_t at = message.rfind(advice);
    if (at == std::string::npos) continue;
    finding.detail = message.substr(0, at);
    finding.advice = "Install " + message.substr(at + advice.size());
    break;
  }
  return finding;
}

Finding examine_host_compiler() {
  try {
    const jit::HostCompiler compiler;
    // "host compiler: VERSION, FILE (SIZE bytes of TIME ns) FLAGS"
    std::string text = compiler.identity();
    if (const std::size_t flags = text.find(" -"); flags != std::string::npos) text.resize(flags);
    if (const std::size_t stamp = text.rfind(" ("); stamp != std::string::npos && text.ends_with(" ns)")) text.resize(stamp);
    if (const std::size_t colon = text.find(": "); colon != std::string::npos) text.erase(0, colon + 2);
    if (text != "none") return {"host compiler", "ok", text, ""};
    return {"host compiler", "missing", "no C++20 compiler was found", "Install g++ or clang++, or set DWELL_CXX to the file of one"};
  } catch (const Error& error) {
    return {"host compiler", "failed", error.message(), "Set DWELL_CXX to the file of a C++20 compiler"};
  }
}

// Runs every step once: compile, link, load, submit, copy back.
Finding examine_device(const std::string& device) {
  const std::string what = "device " + device;
  try {
    Options options;
    options.device = device;
    options.ring_slots = 128;
    Runtime runtime(options);
    const Operator<void(Span<int>)> op = runtime.define<void(Span<int>)>("dwell_examine", R"(
      DWELL_OPERATOR(dwell_examine)(dwell::Group g, dwell::Span<int> to) {
        for (auto i : g.range(to.size())) to[i] = 3 * static_cast<int>(i) + 1;
      })");
    constexpr int kCount = 1000;
    const Buffer<int> buffer = runtime.allocate<int>(kCount);
    runtime.submit(op, buffer).wait();
    std::vector<int> result(kCount);
    buffer.read(result);
    for (int i = 0; i < kCount; ++i) {
      if (result[static_cast<std::size_t>(i)] != 3 * i + 1) {
        return {what, "failed", "a task ran and gave a wrong result", "Report this, with the output of `dwell doctor --json`"};
      }
    }
    const RuntimeInfo info = runtime.info();
    return {what, "ok",
            info.device_name + ", " + std::to_string(info.workers) + (info.workers == 1 ? " worker" : " workers") + "; ran a task", ""};
  } catch (const Error& error) {
    Finding finding = failure_of(what, error.message());
    if (finding.state == "missing") finding.state = "failed";
    return finding;
  }
}

#if DWELL_WITH_CUDA

template <class Library>
Finding examine_library(const char* what, Library& (*get)()) {
  try {
    Library& library = get();
    return {what, "ok", library.version().text() + ", " + library.file().string(), ""};
  } catch (const Error& error) {
    return failure_of(what, error.message());
  }
}

void examine_cuda(std::vector<Finding>& findings) {
  const backend::CudaDevices cuda = backend::cuda_devices();
  if (cuda.driver_version == 0) {
    findings.push_back(failure_of("NVIDIA driver", cuda.problem));
  } else {
    findings.push_back({"NVIDIA driver", "ok",
                        "for CUDA " + std::to_string(cuda.driver_version / 1000) + "." + std::to_string(cuda.driver_version % 1000 / 10),
                        ""});
    if (!cuda.problem.empty()) findings.push_back(failure_of("CUDA devices", cuda.problem));
  }
  findings.push_back(examine_library("NVRTC", &jit::Nvrtc::get));
  findings.push_back(examine_library("nvJitLink", &jit::NvJitLink::get));
  for (const backend::CudaDeviceSummary& device : cuda.devices) {
    Finding finding = examine_device("cuda:" + std::to_string(device.ordinal));
    char figures[96];
    std::snprintf(figures, sizeof(figures), " (sm_%d%d, %u multiprocessors, %.0f GiB)", device.major, device.minor, device.multiprocessors,
                  static_cast<double>(device.memory_bytes) / (1U << 30U));
    const std::size_t name = finding.detail.find(device.name);
    if (finding.state == "ok" && name != std::string::npos) {
      finding.detail.insert(name + device.name.size(), figures);
    } else {
      finding.detail = device.name + figures + ": " + finding.detail;
    }
    findings.push_back(std::move(finding));
  }
}

#else

void examine_cuda(std::vector<Finding>& findings) {
  const auto [why, remedy] = runtime::cuda_left_out();
  Finding finding{"CUDA backend", "missing", "this build has none: " + std::string(why), std::string(remedy)};
  if (!finding.advice.empty()) finding.advice[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(finding.advice[0])));
  findings.push_back(std::move(finding));
}

#endif

Finding examine_cache() {
  std::string problem;
  const jit::FileCache cache = jit::FileCache::from_environment([&](const std::string& line) { problem = line; });
  const std::string folder = cache.directory().string();
  if (folder.empty() && problem.empty()) {
    return {"cache", "missing", "it is switched off or has no folder: operators are compiled anew by every process",
            "Unset DWELL_CACHE, or set DWELL_CACHE_DIR to a folder of your own"};
  }
  const std::string key(64, '0');
  constexpr std::byte probe[] = {std::byte{1}, std::byte{2}};
  cache.store(key, probe, "written by dwell doctor");
  if (problem.empty() && cache.load(key)) return {"cache", "ok", folder, ""};
  const bool limit = problem.find("DWELL_CACHE_MAX_BYTES") != std::string::npos;
  return {"cache", "failed", problem.empty() ? folder + " keeps nothing" : problem,
          limit ? "Set DWELL_CACHE_MAX_BYTES to a number, 0 for no limit" : "Set DWELL_CACHE_DIR to a folder of your own"};
}

std::string name_of_auto() {
  try {
    return Runtime(Options()).info().device;
  } catch (const Error& error) {
    return "none: " + error.message();
  }
}

}  // namespace

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  findings.push_back(examine_host_compiler());
  findings.push_back(examine_device("cpu"));
  examine_cuda(findings);
  findings.push_back(examine_cache());
  const std::string chosen = name_of_auto();
  findings.push_back({"auto", chosen.starts_with("none") ? "failed" : "ok", chosen.starts_with("none") ? chosen : "takes " + chosen, ""});
  return findings;
}

}  // namespace dwell
