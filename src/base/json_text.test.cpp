#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dwell {
namespace {

TEST(JsonText, CommasSeparateValues) {
  JsonText writer;
  writer.begin_object();
  writer.key("empty");
  writer.begin_array();
  writer.end_array();
  writer.key("list");
  writer.begin_array();
  writer.value(1);
  writer.value(-2);
  writer.begin_object();
  writer.end_object();
  writer.begin_array();
  writer.end_array();
  writer.end_array();
  writer.field("truth", true);
  writer.field("text", "a:");
  writer.field("last", std::string("["));
  writer.end_object();
  EXPECT_EQ(writer.text(), R"({"empty":[],"list":[1,-2,{},[]],"truth":true,"text":"a:","last":"["})");
}

TEST(JsonText, NumbersAreExact) {
  JsonText writer;
  writer.begin_array();
  writer.value(std::numeric_limits<std::uint64_t>::max());
  writer.value(std::numeric_limits<std::int64_t>::min());
  writer.value(0.1);
  writer.value(1e300);
  writer.value(std::numeric_limits<double>::infinity());
  writer.value(std::numeric_limits<double>::quiet_NaN());
  writer.end_array();
  EXPECT_EQ(writer.text(), "[18446744073709551615,-9223372036854775808,0.1,1e+300,null,null]");
}

TEST(JsonText, TextIsEscaped) {
  JsonText writer;
  writer.value("quote \" backslash \\ line\n bell\a \xC2\xB5s");
  EXPECT_EQ(writer.text(), "\"quote \\\" backslash \\\\ line\\u000a bell\\u0007 \xC2\xB5s\"");
}

TEST(JsonText, InvalidUtf8IsReplaced) {
  JsonText writer;
  writer.value(
      "gr\xF6\xDF"
      "e\x7f\xC2\x9B\xE2\x80\xAE");
  EXPECT_EQ(writer.text(), R"("gr\ufffd\ufffde\u007f\u009b\u202e")");
}

TEST(JsonText, TakeEmptiesTheText) {
  JsonText writer;
  writer.value(1);
  EXPECT_EQ(writer.take(), "1");
  writer.append("[2]");
  EXPECT_EQ(writer.take(), "[2]");
  EXPECT_EQ(writer.take(), "");
}

}  // namespace
}  // namespace dwell
