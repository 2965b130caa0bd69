#include "tensor/gang/device_probes.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <dwell/dwell.hpp>

#include "tensor/gang/compiled_gang.hpp"
#include "tensor/gang/cost_probes.hpp"

namespace dwell::tensor::gang {

namespace {

// The probes on a device. Used by one thread.
class DeviceProbes {
 public:
  DeviceProbes(Runtime& runtime, const Limits& limits) {
    memory_ = runtime.allocate<float>(kProbeFloats);
    memory_.write(std::vector<float>(kProbeFloats));
    for (std::size_t i = 0; i < gangs_.size(); ++i)
      gangs_.at(i).emplace(runtime, plan_of_probe(static_cast<Probe>(i), reinterpret_cast<std::uint64_t>(memory_.data()), limits));
  }

  double time(Probe probe, std::uint32_t repeats) const {
    const auto begun = std::chrono::steady_clock::now();
    run(*gangs_.at(static_cast<std::size_t>(probe)), repeats);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begun).count();
  }

 private:
  void run(const CompiledGang& gang, std::uint32_t repeats) const {
    const std::array<detail::LaunchArgument, 4> arguments{gang.list_argument(), argument_of(gang.words_at), argument_of(gang.numbers_at),
                                                          argument_of(repeats)};
    gang.launch(arguments, nullptr).wait();
  }

  Buffer<float> memory_;
  std::array<std::optional<CompiledGang>, kProbes> gangs_;
};

}  // namespace

CostTimes measure_times(Runtime& runtime, const Limits& limits) {
  const DeviceProbes probes(runtime, limits);
  return measure_times([&](Probe probe, std::uint32_t repeats) { return probes.time(probe, repeats); }, limits);
}

}  // namespace dwell::tensor::gang
