#include "toml_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::tool {
namespace {

using testing::HasSubstr;

const std::string kLigature = "\xEF\xAC\x81";  // U+FB01

// "LINE: what", or "" when the text may be parsed.
std::string fault(const std::string& text) {
  const std::optional<TomlFault> found = fault_in_toml(text);
  return found ? std::to_string(found->line) + ": " + found->what : "";
}

std::string key_of(std::size_t parts) {
  std::string key = "a";
  for (std::size_t i = 1; i < parts; ++i) key += ".a";
  return key;
}

TEST(TomlText, PlainTextPasses) {
  EXPECT_EQ(fault(""), "");
  EXPECT_EQ(fault("\xEF\xBB\xBF# with a byte order mark\na = 1\n"), "");
  EXPECT_EQ(fault("[a.b]\nc = [1.5, 2.5, 3.5]\nd = { e = \"f\" } # g\n"), "");
}

TEST(TomlText, StringsAndCommentsHoldAnything) {
  EXPECT_EQ(fault("# " + kLigature + "\na = \"" + kLigature + "\" # " + kLigature), "");
  EXPECT_EQ(fault("\"" + kLigature + "\" = '" + kLigature + "'"), "");
  EXPECT_EQ(fault("a = \"\"\"" + kLigature + "\n\"" + kLigature + "\"\" \\\" " + kLigature + "\"\"\"\nb = 1"), "");
  EXPECT_EQ(fault("a = '''" + kLigature + "\\\n" + kLigature + "'" + kLigature + "'''\nb = 1"), "");
  EXPECT_EQ(fault("a = '\\'\nb = \"\\\\\"\nc = \"\\\"" + kLigature + "\""), "");
}

TEST(TomlText, OtherCharactersOutsideOfStringsAreNamedWithTheirLine) {
  EXPECT_THAT(fault("a = 1\nb" + kLigature + " = 2"), HasSubstr("2: a character that is not ASCII stands outside of strings"));
  EXPECT_THAT(fault("a = 1 " + kLigature), HasSubstr("1: "));
  EXPECT_THAT(fault("a = \"b\"" + kLigature), HasSubstr("1: "));
  EXPECT_THAT(fault("a = \"\"\"\n\n\"\"\"" + kLigature), HasSubstr("3: "));
  EXPECT_THAT(fault("a = \"open\n" + kLigature), HasSubstr("2: "));
}

TEST(TomlText, OtherCharactersBehindABackslashAreNamed) {
  EXPECT_THAT(fault("a = \"\\" + kLigature + "\""), HasSubstr("1: a character that is not ASCII stands behind a backslash"));
  EXPECT_THAT(fault("a = \"\"\"b \\  \n \t" + kLigature + "\"\"\""), HasSubstr("2: a character that is not ASCII stands behind"));
}

TEST(TomlText, KeysOfManyPartsAreRefused) {
  EXPECT_EQ(fault(key_of(16) + " = 1\n[" + key_of(16) + "]\n" + key_of(16) + " = { " + key_of(16) + " = 1 }"), "");
  EXPECT_THAT(fault("a = 1\n" + key_of(17) + " = 1"), HasSubstr("2: a key has more than 16 parts"));
  EXPECT_THAT(fault("[" + key_of(1'000'000) + "]"), HasSubstr("1: a key has more than 16 parts"));
  EXPECT_THAT(fault("a = { b = 1, " + key_of(1'000'000) + " = 1 }"), HasSubstr("1: a key has more than 16 parts"));
}

}  // namespace
}  // namespace dwell::tool
