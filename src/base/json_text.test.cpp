#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dwell {
namespace {

TEST(JsonText, CommasStandBetweenValuesAlone) {
  JsonText json;
  json.begin_object();
  json.key("empty");
  json.begin_array();
  json.end_array();
  json.key("list");
  json.begin_array();
  json.value(1);
  json.value(-2);
  json.begin_object();
  json.end_object();
  json.begin_array();
  json.end_array();
  json.end_array();
  json.field("truth", true);
  json.field("text", "a:");
  json.field("last", std::string("["));
  json.end_object();
  EXPECT_EQ(json.text(), R"({"empty":[],"list":[1,-2,{},[]],"truth":true,"text":"a:","last":"["})");
}

TEST(JsonText, NumbersAreExact) {
  JsonText json;
  json.begin_array();
  json.value(std::numeric_limits<std::uint64_t>::max());
  json.value(std::numeric_limits<std::int64_t>::min());
  json.value(0.1);
  json.value(1e300);
  json.value(std::numeric_limits<double>::infinity());
  json.value(std::numeric_limits<double>::quiet_NaN());
  json.end_array();
  EXPECT_EQ(json.text(), "[18446744073709551615,-9223372036854775808,0.1,1e+300,null,null]");
}

TEST(JsonText, TextIsEscaped) {
  JsonText json;
  json.value("quote \" backslash \\ line\n bell\a \xC2\xB5s");
  EXPECT_EQ(json.text(), "\"quote \\\" backslash \\\\ line\\u000a bell\\u0007 \xC2\xB5s\"");
}

TEST(JsonText, TakingLeavesNothing) {
  JsonText json;
  json.value(1);
  EXPECT_EQ(json.take(), "1");
  json.append("[2]");
  EXPECT_EQ(json.take(), "[2]");
  EXPECT_EQ(json.take(), "");
}

}  // namespace
}  // namespace dwell
