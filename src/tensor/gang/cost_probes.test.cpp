#include "tensor/gang/cost_probes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tensor/device/member.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/noted_operations.hpp"

namespace dwell::tensor::gang {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMemory = 0x20000000;

std::ptrdiff_t steps_in(const Plan& plan, const std::string& words, std::size_t list) {
  return std::ranges::count_if(steps_of(plan, list), [&](std::size_t at) {
    return plan.forms.at((plan.list[at] & 0xFFFFU) - 1).body.find(words) != std::string::npos;
  });
}

// A device whose runs take this long, for 32 members: launch and wait, and the operations of each repeat.
double made_up_time(const CostTimes& times, Probe probe, std::uint32_t repeats) {
  constexpr double kLaunch = 12'000;
  constexpr double kMembers = 32;
  constexpr double kWork = 128 * 128;
  double each = 16 * times.step_ns;
  switch (probe) {
    case Probe::steps: each += 16 * 32 * times.instruction_ns; break;
    case Probe::elements: each += 16 * 8192 * times.instruction_ns; break;
    case Probe::products: each += 16 * kWork * times.multiplication_ns; break;
    case Probe::exchanges: each += 16 * (times.exchange_ns + kWork / kMembers * times.multiplication_ns); break;
    case Probe::barriers: each += 16 * (times.barrier_ns + 16384 / kMembers * times.instruction_ns); break;
  }
  return kLaunch + repeats * each;
}

constexpr CostTimes kMadeUpTimes{
    .step_ns = 85, .instruction_ns = 0.031, .multiplication_ns = 0.042, .exchange_ns = 720, .barrier_ns = 1'400};

TEST(CostProbesTest, EachRepeatsWhatItMeasures) {
  const Limits limits = on_a_gpu();
  const Plan steps = plan_of_probe(Probe::steps, kMemory, limits);
  EXPECT_EQ(steps.members, 1U);
  EXPECT_EQ(steps_of(steps, 1).size(), 16U);
  EXPECT_EQ(steps_in(steps, "TensorOp::add", 1), 16);
  const Plan elements = plan_of_probe(Probe::elements, kMemory, limits);
  EXPECT_EQ(elements.members, 1U);
  EXPECT_EQ(steps_of(elements, 1).size(), 16U);
  const Plan products = plan_of_probe(Probe::products, kMemory, limits);
  EXPECT_EQ(products.members, 1U);
  EXPECT_EQ(steps_in(products, "multiply<", 1), 16);
  EXPECT_EQ(steps_of(products, 1).size(), 16U);
  const Plan exchanges = plan_of_probe(Probe::exchanges, kMemory, limits);
  EXPECT_EQ(exchanges.members, 32U);
  EXPECT_EQ(steps_in(exchanges, "multiply_kept<", 1), 16);
  EXPECT_EQ(steps_in(exchanges, "gather<", 1), 16);
  const Plan barriers = plan_of_probe(Probe::barriers, kMemory, limits);
  EXPECT_EQ(barriers.members, 32U);
  EXPECT_EQ(steps_in(barriers, "e += kMembers * kThreads", 1), 16);
  EXPECT_EQ(steps_in(barriers, "m.barrier<", 1), 16);
  for (const Plan* plan : {&steps, &elements, &products})
    for (const std::size_t at : steps_of(*plan, 1))
      EXPECT_NE(plan->list[at] & device::kStepSync, 0U) << "of threads that need not wait, the compiler joins steps";
  for (const Plan* plan : {&steps, &elements, &products, &exchanges, &barriers}) EXPECT_EQ(plan->threads, 256U);
}

TEST(CostProbesTest, FewerMembersWhereTheDeviceHasFewer) {
  Limits limits = on_a_gpu();
  limits.most_members = 14;
  limits.local_bytes = std::uint64_t{48} << 10U;
  EXPECT_EQ(plan_of_probe(Probe::exchanges, kMemory, limits).members, 8U);
  EXPECT_EQ(plan_of_probe(Probe::products, kMemory, limits).members, 1U) << "weights are read where they lie";
}

TEST(CostProbesTest, LaunchesDropOutOfTheTimes) {
  const CostTimes times =
      measure_times([](Probe probe, std::uint32_t repeats) { return made_up_time(kMadeUpTimes, probe, repeats); }, on_a_gpu());
  for (const CostTime& time : kCostTimes)
    EXPECT_NEAR(times.*time.value, kMadeUpTimes.*time.value, 0.02 * (kMadeUpTimes.*time.value)) << time.name;
}

TEST(CostProbesTest, SomeRunsThatAreDisturbedChangeNothing) {
  std::mt19937 random(3);
  const CostTimes times = measure_times(
      [&](Probe probe, std::uint32_t repeats) {
        const double jitter = static_cast<double>(random() % 5'000);
        return made_up_time(kMadeUpTimes, probe, repeats) + jitter + (random() % 8 == 0 ? 2e6 : 0);
      },
      on_a_gpu());
  for (const CostTime& time : kCostTimes)
    EXPECT_NEAR(times.*time.value, kMadeUpTimes.*time.value, 0.15 * (kMadeUpTimes.*time.value)) << time.name;
}

TEST(CostProbesTest, ADeviceThatOthersUseIsNotMeasured) {
  std::mt19937 random(3);
  const auto busy = [&](Probe probe, std::uint32_t repeats) {
    return made_up_time(kMadeUpTimes, probe, repeats) * (1 + static_cast<double>(random() % 8));
  };
  DWELL_EXPECT_ERROR(measure_times(busy, on_a_gpu()), errc::unsupported, HasSubstr("measure again"));
  // Exchanges that cost nothing.
  const auto strange = [&](Probe probe, std::uint32_t repeats) {
    return made_up_time(kMadeUpTimes, probe == Probe::exchanges ? Probe::steps : probe, repeats);
  };
  DWELL_EXPECT_ERROR(measure_times(strange, on_a_gpu()), errc::unsupported, HasSubstr("exchange_ns is not above the noise"));
}

}  // namespace
}  // namespace dwell::tensor::gang
