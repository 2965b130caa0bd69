#include "tensor/gang/device_costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <dwell/cache.hpp>
#include <dwell/costs.hpp>

#include "jit/base/temporary_directory.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::tensor::gang {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A cache of its own, in the environment.
class DeviceCostsTest : public testing::Test {
 protected:
  DeviceCostsTest() {
    if (const char* const before = std::getenv("DWELL_CACHE_DIR"); before != nullptr) before_ = before;
    setenv("DWELL_CACHE_DIR", folder().c_str(), 1);
    forget_known_costs();
  }
  ~DeviceCostsTest() override {
    unsetenv("DWELL_COSTS");
    unsetenv("DWELL_CACHE");
    unsetenv("DWELL_CACHE_DIR");
    if (!before_.empty()) setenv("DWELL_CACHE_DIR", before_.c_str(), 1);
    forget_known_costs();
  }

  fs::path folder() const { return root_.path() / "dwell"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& file : fs::directory_iterator(folder() / "kept")) all.push_back(file.path());
    return all;
  }
  KnownCosts known(const DeviceSummary& device) {
    return known_costs(device, [this](std::string_view line) { warnings_.emplace_back(line); });
  }
  // As another process reads them.
  KnownCosts known_elsewhere(const DeviceSummary& device) {
    forget_known_costs();
    return known(device);
  }
  bool keep(const DeviceSummary& device) { return keep_times(device, times_, {}); }

  jit::TemporaryDirectory root_;
  std::string before_;
  std::vector<std::string> warnings_;
  const DeviceSummary device_{.device = "cuda:0",
                              .name = "Made Up 100",
                              .target = "sm_90",
                              .driver = "CUDA 13.0",
                              .memory_bytes = 1,
                              .multiprocessors = 100,
                              .workers = 100,
                              .problem = ""};
  const CostTimes times_{.step_ns = 80, .exchange_ns = 5'000};
};

TEST_F(DeviceCostsTest, DefaultsHoldUntilTimesAreKept) {
  EXPECT_FALSE(known(device_).measured);
  EXPECT_EQ(known(device_).model.times, CostTimes());
  ASSERT_TRUE(keep(device_));
  EXPECT_TRUE(known(device_).measured);
  EXPECT_EQ(known(device_).model.times, times_);
  EXPECT_EQ(known_elsewhere(device_).model.times, times_);
  EXPECT_EQ(known(device_).model.least_shared_work, measured_model(times_).least_shared_work);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DeviceCostsTest, AProcessReadsThemOnce) {
  ASSERT_TRUE(keep(device_));
  EXPECT_TRUE(known_elsewhere(device_).measured);
  fs::remove_all(folder());
  EXPECT_TRUE(known(device_).measured) << "plans of a process stay the same";
  EXPECT_FALSE(known_elsewhere(device_).measured);
}

TEST_F(DeviceCostsTest, EachKindOfDeviceHasItsOwn) {
  ASSERT_TRUE(keep(device_));
  DeviceSummary other = device_;
  other.device = "cuda:1";
  other.memory_bytes = 2;
  EXPECT_TRUE(known(other).measured) << "of the same kind";
  for (const auto change : {+[](DeviceSummary& it) { it.name = "Made Up 200"; }, +[](DeviceSummary& it) { it.target = "sm_100"; },
                            +[](DeviceSummary& it) { it.driver = "CUDA 13.1"; }, +[](DeviceSummary& it) { it.multiprocessors = 50; }}) {
    other = device_;
    change(other);
    EXPECT_FALSE(known(other).measured);
  }
}

TEST_F(DeviceCostsTest, ForgettingGoesBackToTheDefaults) {
  EXPECT_FALSE(forget_times(device_, {}));
  ASSERT_TRUE(keep(device_));
  EXPECT_TRUE(forget_times(device_, {}));
  EXPECT_FALSE(known(device_).measured);
  EXPECT_FALSE(known_elsewhere(device_).measured);
}

TEST_F(DeviceCostsTest, ADamagedFileIsIgnoredWithALine) {
  ASSERT_TRUE(keep(device_));
  ASSERT_EQ(files().size(), 1U);
  const fs::path file = files().front();
  const auto size = fs::file_size(file);
  for (const std::uintmax_t cut : {std::uintmax_t{0}, std::uintmax_t{20}, size - 1}) {
    ASSERT_TRUE(keep(device_));
    fs::resize_file(file, cut);
    warnings_.clear();
    EXPECT_FALSE(known_elsewhere(device_).measured) << cut;
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("was removed"))) << cut;
  }
  ASSERT_TRUE(keep(device_));
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-4, std::ios::end);
    bytes.put('9');
  }
  warnings_.clear();
  EXPECT_FALSE(known_elsewhere(device_).measured);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("damaged")));
  ASSERT_TRUE(keep(device_)) << "it can be measured again";
  EXPECT_TRUE(known_elsewhere(device_).measured);
}

TEST_F(DeviceCostsTest, AFolderThatOthersMayWriteToIsIgnored) {
  ASSERT_TRUE(keep(device_));
  ASSERT_EQ(chmod((folder() / "kept").c_str(), 0777), 0);
  EXPECT_FALSE(known_elsewhere(device_).measured);
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(DeviceCostsTest, ClearingTheCacheLeavesThem) {
  ASSERT_TRUE(keep(device_));
  EXPECT_EQ(Cache().clear(), 0U);
  EXPECT_TRUE(known_elsewhere(device_).measured);
}

TEST_F(DeviceCostsTest, TheEnvironmentSwitchesThemOff) {
  ASSERT_TRUE(keep(device_));
  setenv("DWELL_COSTS", "off", 1);
  EXPECT_FALSE(known_elsewhere(device_).measured);
  unsetenv("DWELL_COSTS");
  setenv("DWELL_CACHE", "off", 1);
  EXPECT_FALSE(known_elsewhere(device_).measured);
  EXPECT_FALSE(keep(device_));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DeviceCostsTest, ACpuHasNone) {
  DWELL_EXPECT_ERROR(costs_of("cpu"), errc::unsupported, HasSubstr("CPU"));
  DWELL_EXPECT_ERROR(measure_costs("cpu"), errc::unsupported, HasSubstr("CPU"));
  DWELL_EXPECT_ERROR(costs_of("cuda:99"), errc::invalid_argument, HasSubstr("cuda:99"));
}

}  // namespace
}  // namespace dwell::tensor::gang
