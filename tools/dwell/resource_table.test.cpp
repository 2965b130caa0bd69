#include "resource_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

namespace dwell::tool {
namespace {

ImageReport report() {
  ImageReport report;
  report.target = "sm_90";
  report.scratch_bytes = 8192;
  report.kernels.push_back({{"dwell_resident", "dwell_resident", 254, 712, 5440, 424, 13}, 160, 1, "registers"});
  report.operators.push_back({"tile", "dwell_tile_0", 24, 0, 4096, 400, 3});
  return report;
}

TEST(ResourceTable, TextNamesEveryFigure) {
  std::ostringstream out;
  print_text(out, report());
  EXPECT_THAT(out.str(), testing::HasSubstr("image for sm_90, 1 operator\n"));
  EXPECT_THAT(out.str(), testing::ContainsRegex("dwell_resident +254 +712 +5,440 +424 +13 +1\n"));
  EXPECT_THAT(out.str(), testing::ContainsRegex("  tile +24 +0 +4,096 +400 +3 *\n"));
  EXPECT_THAT(out.str(), testing::HasSubstr("1 worker of 160 threads a multiprocessor with 8192 bytes each for Group::shared; "
                                            "more would lack registers"));
}

TEST(ResourceTable, JsonNamesEveryFigure) {
  std::ostringstream out;
  print_json(out, report());
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["target"], "sm_90");
  EXPECT_EQ(json["kernels"][0]["workers"], 1);
  EXPECT_EQ(json["kernels"][0]["bottleneck"], "registers");
  EXPECT_EQ(json["kernels"][0]["barriers"], 13);
  EXPECT_EQ(json["operators"][0]["symbol"], "dwell_tile_0");
  EXPECT_EQ(json["operators"][0]["constant_bytes"], 400);
}

TEST(ResourceTable, UnknownFiguresAreShownAsUnknown) {
  ImageReport unknown = report();
  unknown.kernels[0].workers.reset();
  std::ostringstream text;
  print_text(text, unknown);
  EXPECT_THAT(text.str(), testing::HasSubstr("workers cannot be computed for sm_90"));
  std::ostringstream json;
  print_json(json, unknown);
  EXPECT_TRUE(nlohmann::json::parse(json.str())["kernels"][0]["workers"].is_null());
}

TEST(ResourceTable, OnTheCpuOperatorsAreListed) {
  ImageReport bundle;
  bundle.target = "host";
  bundle.operators.push_back({"axpy", "dwell_axpy_0", 0, 0, 0, 0, 0});
  std::ostringstream out;
  print_text(out, bundle);
  EXPECT_EQ(out.str(), "image for host, 1 operator\n  axpy\n");
}

}  // namespace
}  // namespace dwell::tool
