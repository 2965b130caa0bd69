#include "bench/report.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace dwell::bench {
namespace {

TEST(Report, WritesFigures) {
  EXPECT_EQ(text_of(3.456, "ns"), "3.46 ns");
  EXPECT_EQ(text_of(999.4, "ns"), "999 ns");
  EXPECT_EQ(text_of(999.6, "ns"), "1.00 us");
  EXPECT_EQ(text_of(2.5e6, "ns"), "2.50 ms");
  EXPECT_EQ(text_of(126.4, "W"), "126 W");
  EXPECT_EQ(text_of(-2500, "ns"), "-2.50 us");
  EXPECT_EQ(text_of_count(1234567), "1,234,567");
}

TEST(Report, ComparesPeersWithTheFirstOfOurs) {
  Report report("latency", "one task");
  report.add(Row{"empty", "dwell", true, "ns", one(2500)});
  report.add(Row{"empty", "launch + synchronise", false, "ns", one(8800)});
  report.add(Row{"else", "launch + synchronise", false, "ns", one(8800)});
  const auto json = report.json();
  EXPECT_FALSE(json["rows"][0].contains("ratio"));
  EXPECT_DOUBLE_EQ(json["rows"][1]["ratio"].get<double>(), 3.52);
  EXPECT_TRUE(json["rows"][1]["peer"].get<bool>());
  EXPECT_FALSE(json["rows"][2].contains("ratio"));
}

TEST(Report, JudgesGoals) {
  Report report("x", "");
  report.add(Goal{"p50", "ns", 2600, 2500, 3000});
  report.add(Goal{"share", "x", 0.7, 1, 0.8, true});
  report.add(Goal{"only a goal", "ns", 1, 2});
  const auto json = report.json();
  EXPECT_FALSE(json["goals"][0]["reached"].get<bool>());
  EXPECT_TRUE(json["goals"][0]["pass"].get<bool>());
  EXPECT_FALSE(json["goals"][1]["pass"].get<bool>());
  EXPECT_TRUE(json["goals"][2]["pass"].get<bool>());
  EXPECT_TRUE(json["goals"][2]["at_least"].is_null());
  EXPECT_TRUE(report.right());  // a goal that was missed is no wrong effect
}

TEST(Report, WrongEffectsShow) {
  Report report("x", "");
  report.check_none("lost tasks", 0);
  EXPECT_TRUE(report.right());
  report.check_none("lost tasks", 1200);
  EXPECT_FALSE(report.right());
  std::ostringstream text;
  report.print(text);
  EXPECT_NE(text.str().find("WRONG: 1,200 lost tasks"), std::string::npos);
  EXPECT_EQ(report.key_figure().rfind("WRONG", 0), 0U);
  Report broken("y", "");
  broken.fail("no device");
  EXPECT_FALSE(broken.right());
  EXPECT_EQ(broken.json()["error"], "no device");
}

}  // namespace
}  // namespace dwell::bench
