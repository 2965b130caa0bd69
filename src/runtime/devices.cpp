#include "runtime/devices.hpp"

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

#include <dwell/devices.hpp>
#include <dwell/error.hpp>

#include "backend/cpu/cpu_backend.hpp"
#include "jit/cache/caching_compiler.hpp"
#include "jit/host/host_compiler.hpp"
#if DWELL_WITH_CUDA
#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/cuda_devices.hpp"
#include "jit/cuda/cuda_compiler.hpp"
#endif

namespace dwell::runtime {

namespace {

jit::FileCache cache_for(const Options& options) {
  return jit::FileCache::from_environment([warn = options.warn](const std::string& line) {
    if (warn) warn(line);
  });
}

OpenedDevice open_cpu_device(const Options& options) {
  return {backend::open_cpu(), std::make_unique<jit::CachingCompiler>(std::make_unique<jit::HostCompiler>(), cache_for(options))};
}

OpenedDevice open_cuda_device([[maybe_unused]] const Options& options, [[maybe_unused]] int ordinal) {
#if DWELL_WITH_CUDA
  auto backend = backend::open_cuda(ordinal);
  jit::CudaCompiler::Options settings;
  settings.arch = backend->info().target;
  settings.cache = cache_for(options);
  auto compiler = std::make_unique<jit::CudaCompiler>(settings);
  static_cast<void>(compiler->identity());  // opens NVRTC and nvJitLink, or throws what is missing
  return {std::move(backend), std::make_unique<jit::CachingCompiler>(std::move(compiler), settings.cache)};
#else
  throw Error(errc::device_unavailable, without_cuda());
#endif
}

// Warns that a GPU is unused only because dwell was built without CUDA.
void warn_of_unused_gpu([[maybe_unused]] const Options& options) {
#if !DWELL_WITH_CUDA
  std::error_code ignored;
  if (options.warn && std::filesystem::exists("/dev/nvidiactl", ignored)) options.warn("the CPU is used: " + without_cuda());
#endif
}

}  // namespace

OpenedDevice open_device(const Options& options) {
  const std::string& device = options.device;
  if (device == "cpu") return open_cpu_device(options);
  if (device == "auto") {
    try {
      return open_cuda_device(options, 0);
    } catch (const Error& error) {
      if (error.kind() != errc::device_unavailable && error.kind() != errc::compiler_unavailable) throw;
      warn_of_unused_gpu(options);
      return open_cpu_device(options);
    }
  }
  if (device == "cuda") return open_cuda_device(options, 0);
  if (device.starts_with("cuda:")) {
    int ordinal = -1;
    const char* const end = device.data() + device.size();
    const auto [rest, problem] = std::from_chars(device.data() + 5, end, ordinal);
    if (problem == std::errc() && rest == end && ordinal >= 0) return open_cuda_device(options, ordinal);
  }
  throw Error(errc::invalid_argument, "there is no device '" + device + "': use \"auto\", \"cpu\", \"cuda:0\", \"cuda:1\", ...");
}

}  // namespace dwell::runtime

namespace dwell {

std::vector<DeviceSummary> devices() {
  const backend::DeviceInfo cpu = backend::open_cpu()->info();
  std::vector<DeviceSummary> all;
  all.push_back({cpu.device, cpu.name, cpu.target, "", cpu.memory_bytes, 0, cpu.default_workers, ""});
#if DWELL_WITH_CUDA
  const backend::CudaDevices found = backend::cuda_devices();
  const std::string driver = "CUDA " + std::to_string(found.driver_version / 1000) + "." + std::to_string(found.driver_version % 1000 / 10);
  for (const backend::CudaDeviceSummary& cuda : found.devices) {
    all.push_back({"cuda:" + std::to_string(cuda.ordinal), cuda.name, "sm_" + std::to_string(cuda.major) + std::to_string(cuda.minor),
                   driver, cuda.memory_bytes, cuda.multiprocessors, cuda.default_workers, cuda.problem});
  }
#endif
  return all;
}

std::string without_cuda() {
  const auto [why, remedy] = runtime::cuda_left_out();
  if (why.empty()) return "";
  return "this dwell has no CUDA backend: " + std::string(why) + "; " + std::string(remedy);
}

}  // namespace dwell
