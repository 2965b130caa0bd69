#include "screen_text.hpp"

#include <gtest/gtest.h>

namespace dwell::tool {
namespace {

TEST(ScreenText, NothingThatMovesTheCursorIsPrintable) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\t\x7f"), "a?[2Jb???");
  EXPECT_EQ(printable("\xc2\x9b"), "?") << "the control character U+009B";
  EXPECT_EQ(printable("größer ▁█"), "größer ▁█");
  EXPECT_EQ(printable("\xff\xc3 \xe2\x96"), "?? ??") << "no UTF-8";
}

TEST(ScreenText, ColumnsAreCharacters) {
  EXPECT_EQ(columns_of("größer"), 6U);
  EXPECT_EQ(cut("größer", 3), "grö");
  EXPECT_EQ(left("grö", 5), "grö  ");
  EXPECT_EQ(right("grö", 5), "  grö");
  EXPECT_EQ(left("größer", 3), "grö");
}

TEST(ScreenText, LinesAreCutAcrossTheirPieces) {
  Line line;
  line.add("one ").add("two", Style::bad).add(" three", Style::good);
  EXPECT_EQ(line.columns(), 13U);
  EXPECT_EQ(line.fitted(6).text(), "one tw");
  EXPECT_EQ(line.fitted(6).styled(true), "one \x1b[1;31mtw\x1b[0m\x1b[32m\x1b[0m");
  EXPECT_EQ(line.fitted(80).text(), "one two three");
}

TEST(ScreenText, WithoutColoursStylesAreBoldAndInverse) {
  Line line;
  line.add("plain").add("strong", Style::strong).add("faint", Style::faint).add("good", Style::good);
  line.add("warning", Style::warning).add("bad", Style::bad).add("heading", Style::heading);
  EXPECT_EQ(line.styled(false), "plain\x1b[1mstrong\x1b[0mfaintgoodwarning\x1b[1mbad\x1b[0m\x1b[7mheading\x1b[0m");
}

}  // namespace
}  // namespace dwell::tool
