// The small programs by which the costs of a device are measured.
#include "tensor/gang/cost_probes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <dwell/devices.hpp>

#include "tensor/gang/compiled_gang.hpp"
#include "tensor/gang/device_probes.hpp"
#include "tests/conformance/emulated_gang.hpp"
#include "tests/conformance/gang_in_threads.hpp"
#include "tests/conformance/tensor_test.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::test {
namespace {

using tensor::gang::Probe;

class CostProbesTest : public TensorTest {};
DWELL_ON_EVERY_DEVICE(CostProbesTest);

TEST_P(CostProbesTest, RepeatTheirOperationsInAnyOrderOfThreads) {
  if (!on_cpu() || kSanitized) GTEST_SKIP() << "emulated on a CPU";
  constexpr std::uint32_t kRepeats = 3;
  constexpr std::size_t kFloats = tensor::gang::kProbeFloats;
  constexpr std::size_t kSide = 128;
  tensor::gang::Limits limits = limits_of_gpu(0, 64);
  limits.most_members = 4;
  for (const Probe probe : {Probe::steps, Probe::elements, Probe::products, Probe::exchanges, Probe::barriers}) {
    // x is 1 everywhere; the weights double a vector's elements.
    std::vector<float> values(kFloats);
    std::fill_n(values.begin(), kFloats / 3, 1.0F);
    for (std::size_t i = 0; i < kSide; ++i) values[kFloats / 3 * 2 + i * kSide + i] = 2;
    Buffer<float> memory = filled_with(values);
    const auto plan = tensor::gang::plan_of_probe(probe, reinterpret_cast<std::uint64_t>(memory.data()), limits);
    EmulatedGang gang(runtime(), plan, 1, kRepeats);
    gang.run();
    const std::vector<float> after = read(memory);
    const auto changed = static_cast<std::size_t>(std::ranges::count(after, static_cast<float>(std::uint64_t{1} << 48U)));
    const std::size_t elements = probe == Probe::steps ? 32U : probe == Probe::elements ? 8192U : probe == Probe::barriers ? 16384U : kSide;
    EXPECT_EQ(changed, elements) << "of probe " << static_cast<int>(probe);
  }
}

TEST_P(CostProbesTest, MeasureADevice) {
  if (on_cpu()) GTEST_SKIP() << "planned without costs";
  const std::vector<DeviceSummary> all = dwell::devices();
  const auto device = std::ranges::find(all, runtime().info().device, &DeviceSummary::device);
  ASSERT_NE(device, all.end());
  try {
    const auto times = tensor::gang::measure_times(runtime(), tensor::gang::limits_of(*device));
    EXPECT_TRUE(tensor::gang::is_plausible(times));
    for (const tensor::gang::CostTime& time : tensor::gang::kCostTimes) RecordProperty(time.name, std::to_string(times.*time.value));
    EXPECT_LT(times.instruction_ns, times.step_ns);
    EXPECT_LT(times.multiplication_ns, times.exchange_ns);
  } catch (const Error& error) {
    if (error.kind() != errc::unsupported) throw;
    GTEST_SKIP() << error.message();
  }
}

}  // namespace
}  // namespace dwell::test
