#include "tensor/gang/cost_model.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dwell::tensor::gang {
namespace {

constexpr CostTimes kTimes{
    .step_ns = 90, .instruction_ns = 0.05, .multiplication_ns = 0.04, .exchange_ns = 700, .barrier_ns = 1'500};

TEST(CostModelTest, TimesTravelAsText) {
  const std::string text = text_of(kTimes);
  EXPECT_EQ(text, "step_ns 90\ninstruction_ns 0.05\nmultiplication_ns 0.04\nexchange_ns 700\nbarrier_ns 1500\n");
  EXPECT_EQ(times_of(text), kTimes);
}

TEST(CostModelTest, OtherTextIsNoTimes) {
  const std::string text = text_of(kTimes);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(times_of(text.substr(0, size))) << size;
  EXPECT_FALSE(times_of(text + "x"));
  EXPECT_FALSE(times_of("other " + text));
  for (const char* value : {"-90", "0", "nan", "inf", "1e300", "x", ""})
    EXPECT_FALSE(times_of("step_ns " + std::string(value) + text.substr(text.find('\n')))) << value;
}

TEST(CostModelTest, LimitsAreWhereBothWaysTakeAsLong) {
  const CostModel model = measured_model(kTimes);
  EXPECT_EQ(model.times, kTimes);
  EXPECT_EQ(model.least_shared_work, 16'384) << "700 / 0.04 = 17,500";
  EXPECT_EQ(model.work_of_member, 32'768);
  EXPECT_EQ(model.most_work_alone, 32'768);
  EXPECT_EQ(model.most_elements, 65'536) << "3,000 / 0.05 = 60,000";
  EXPECT_EQ(model.elements_of_member, 2'048) << "90 / 0.05 = 1,800";
  EXPECT_EQ(model.outputs_of_member, CostModel().outputs_of_member);
}

TEST(CostModelTest, LimitsStayNearTheDefaults) {
  CostTimes times = kTimes;
  times.exchange_ns = 1e9;
  times.barrier_ns = 1e-6;
  const CostModel model = measured_model(times);
  EXPECT_EQ(model.least_shared_work, 16 * CostModel().least_shared_work);
  EXPECT_EQ(model.most_elements, CostModel().most_elements / 16);
}

TEST(CostModelTest, NoiseDoesNotChangeLimits) {
  CostTimes times = kTimes;
  times.exchange_ns *= 1.1;
  times.multiplication_ns *= 0.95;
  EXPECT_EQ(measured_model(times).least_shared_work, measured_model(kTimes).least_shared_work);
}

TEST(CostModelTest, TimesMustBePositiveNumbers) {
  EXPECT_TRUE(is_plausible(CostTimes()));
  for (const CostTime& time : kCostTimes)
    for (const double value : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      CostTimes times;
      times.*time.value = value;
      EXPECT_FALSE(is_plausible(times)) << time.name << " " << value;
    }
}

}  // namespace
}  // namespace dwell::tensor::gang
