#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dwell {
namespace {

TEST(Utf8, AcceptsCharactersOfEachLength) {
  EXPECT_EQ(character_at(""), 0U);
  EXPECT_EQ(character_at("ab"), 1U);
  EXPECT_EQ(character_at(std::string_view("\0", 1)), 1U);
  EXPECT_EQ(character_at("\xC2\xB5s"), 2U);
  EXPECT_EQ(character_at("\xE2\x82\xAC"), 3U);
  EXPECT_EQ(character_at("\xED\x9F\xBF"), 3U) << "U+D7FF";
  EXPECT_EQ(character_at("\xF0\x9F\x98\x80"), 4U);
  EXPECT_EQ(character_at("\xF4\x8F\xBF\xBF"), 4U) << "U+10FFFF";
}

TEST(Utf8, RejectsOverlongTruncatedAndSurrogateCharacters) {
  for (const char* text :
       {"\x80", "\xBF", "\xC0\xAF", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x80\xAF", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x80\x80\xAF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF"})
    EXPECT_EQ(character_at(text), 0U) << static_cast<int>(static_cast<unsigned char>(text[0]));
}

TEST(Utf8, InvalidBytesAreReplaced) {
  EXPECT_EQ(valid_utf8("gr\xF6\xDF"
                       "e"),
            "gr\xEF\xBF\xBD\xEF\xBF\xBD"
            "e");
  EXPECT_EQ(valid_utf8("\xC2\xB5s\n"), "\xC2\xB5s\n");
  EXPECT_EQ(valid_utf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8, PrintableTextHasNoTerminalControls) {
  EXPECT_EQ(printable("\x1b[2Ja\x07\x7f\n\t\xC2\x9B"
                      "b\xF6"),
            "?[2Ja?????b?");
  EXPECT_EQ(printable("a\n\tb\r", "\n\t"), "a\n\tb?");
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "cod.exe\xE2\x81\xA6"),
            "?cod.exe?");
  EXPECT_EQ(printable("\xC2\xA0\xE2\x80\xA9\xE2\x82\xAC"), "\xC2\xA0\xE2\x80\xA9\xE2\x82\xAC");
}

}  // namespace
}  // namespace dwell
