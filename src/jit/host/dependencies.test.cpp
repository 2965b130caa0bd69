#include "jit/host/dependencies.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Dependencies, AreParsedLikeMake) {
  EXPECT_THAT(prerequisites_of("t.so: t.cpp /usr/include/a.h \\\n /usr/include/b.h \\\n c.h\n"),
              ElementsAre("t.cpp", "/usr/include/a.h", "/usr/include/b.h", "c.h"));
  EXPECT_THAT(prerequisites_of(R"(x: sp\ ace\#$$x/h\ $$.h a\\\ b c\\ d e\f)"),
              ElementsAre("sp ace#$x/h $.h", R"(a\ b)", R"(c\)", "d", R"(e\f)"));
}

TEST(Dependencies, SurviveAnyText) {
  for (const char* const text : {"", "x", "x:", "x: ", "x: \\", "x: \\\n", "x: $", ": \\\\\\"}) {
    for (const std::string& file : prerequisites_of(text)) EXPECT_FALSE(file.empty()) << text;
  }
  EXPECT_THAT(prerequisites_of("x:\n"), IsEmpty());
}

}  // namespace
}  // namespace dwell::jit
