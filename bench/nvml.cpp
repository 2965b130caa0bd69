#include "bench/nvml.hpp"

#include <dlfcn.h>

namespace dwell::bench {

namespace {

// Declares the few types used from nvml.h, so that the build does not need it.
using Result = int;  // 0 is success
using Device = void*;
struct Utilisation {
  unsigned gpu;
  unsigned memory;
};
constexpr int kMultiprocessorClock = 1;

}  // namespace

template <class Function>
Function* Nvml::find(const char* name) const {
  return reinterpret_cast<Function*>(dlsym(library_, name));
}

std::optional<Nvml> Nvml::open(const std::string& bus) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Nvml opened(library, nullptr);
  auto* const start = opened.find<Result()>("nvmlInit_v2");
  auto* const by_bus = opened.find<Result(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (start == nullptr || by_bus == nullptr || start() != 0 || by_bus(bus.c_str(), &opened.device_) != 0) return std::nullopt;
  return opened;
}

std::optional<double> Nvml::watts() const {
  auto* const get = find<Result(Device, unsigned*)>("nvmlDeviceGetPowerUsage");
  unsigned milliwatts = 0;
  if (get == nullptr || get(device_, &milliwatts) != 0) return std::nullopt;
  return milliwatts / 1e3;
}

std::optional<double> Nvml::utilisation() const {
  auto* const get = find<Result(Device, Utilisation*)>("nvmlDeviceGetUtilizationRates");
  Utilisation rates{};
  if (get == nullptr || get(device_, &rates) != 0) return std::nullopt;
  return rates.gpu;
}

std::optional<double> Nvml::clock_mhz() const {
  auto* const get = find<Result(Device, int, unsigned*)>("nvmlDeviceGetClockInfo");
  unsigned clock = 0;
  if (get == nullptr || get(device_, kMultiprocessorClock, &clock) != 0) return std::nullopt;
  return clock;
}

std::string Nvml::driver() const {
  auto* const get = find<Result(char*, unsigned)>("nvmlSystemGetDriverVersion");
  char text[96] = {};
  if (get == nullptr || get(text, sizeof(text)) != 0) return "";
  return text;
}

}  // namespace dwell::bench
