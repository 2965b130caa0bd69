#include "tensor/gang/cost_model.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dwell::tensor::gang {
namespace {

// As measured on an H200.
constexpr CostTimes kTimes{.step_ns = 37.4, .instruction_ns = 0.0864, .multiplication_ns = 0.0729, .exchange_ns = 572, .barrier_ns = 1'190};

TEST(CostModelTest, TimesTravelAsText) {
  const std::string text = text_of(kTimes);
  EXPECT_EQ(text, "step_ns 37.4\ninstruction_ns 0.0864\nmultiplication_ns 0.0729\nexchange_ns 572\nbarrier_ns 1190\n");
  EXPECT_EQ(times_of(text), kTimes);
}

TEST(CostModelTest, OtherTextIsNoTimes) {
  const std::string text = text_of(kTimes);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(times_of(text.substr(0, size))) << size;
  EXPECT_FALSE(times_of(text + "x"));
  EXPECT_FALSE(times_of("other " + text));
  for (const char* value : {"-37.4", "0", "nan", "inf", "1e300", "x", ""})
    EXPECT_FALSE(times_of("step_ns " + std::string(value) + text.substr(text.find('\n')))) << value;
}

TEST(CostModelTest, TimesOfAnH200GiveTheDefaults) {
  const CostModel model = measured_model(kTimes);
  EXPECT_EQ(model.times, kTimes);
  for (const CostLimit& limit : kCostLimits) EXPECT_EQ(model.*limit.value, CostModel().*limit.value) << limit.name;
}

TEST(CostModelTest, LimitsFollowTheTimes) {
  CostTimes times = kTimes;
  times.exchange_ns *= 4;
  times.instruction_ns /= 2;
  const CostModel model = measured_model(times);
  EXPECT_EQ(model.least_shared_work, 65'536) << "2 * 2,288 / 0.0729 = 62,800";
  EXPECT_EQ(model.work_of_member, 131'072);
  EXPECT_EQ(model.most_work_alone, 131'072);
  EXPECT_EQ(model.most_elements, 65'536);
  EXPECT_EQ(model.elements_of_member, 4'096);
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
