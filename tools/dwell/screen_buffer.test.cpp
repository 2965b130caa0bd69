#include "screen_buffer.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <sstream>

namespace dwell::tool {
namespace {

std::string shown(std::string_view text, std::size_t at_once) {
  std::stringbuf to;
  {
    ScreenBuffer buffer(to);
    std::ostream out(&buffer);
    for (; !text.empty(); text.remove_prefix(std::min(at_once, text.size()))) out << text.substr(0, at_once);
  }
  return to.str();
}

TEST(ScreenBuffer, CharactersComeThroughHoweverTheyAreWritten) {
  for (std::size_t at_once = 1; at_once < 8; ++at_once) {
    EXPECT_EQ(shown("gr\xC3\xB6\xC3\x9F"
                    "er\t\xE2\x96\x88\xF0\x9F\x98\x80\n",
                    at_once),
              "gr\xC3\xB6\xC3\x9F"
              "er\t\xE2\x96\x88\xF0\x9F\x98\x80\n");
    EXPECT_EQ(shown("\x1b]0;title\x07"
                    "a\xF6 b\xE2\x96",
                    at_once),
              "?]0;title?a? b??")
        << at_once;
  }
}

}  // namespace
}  // namespace dwell::tool
