#include "jit/source/include_lexer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The names, as they are written.
std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (const Inclusion& one : inclusions_of(text).list) names.push_back((one.quoted ? '"' : '<') + one.name);
  return names;
}

TEST(IncludeLexer, FindsEveryForm) {
  EXPECT_THAT(names_in("#include <a.h>\n#include \"b/c.h\"\n  #  include\t<d>\n#import \"e\"\n#embed <f.bin>\n%:include <g>\n"),
              ElementsAre("<a.h", "\"b/c.h", "<d", "\"e", "<f.bin", "<g"));
  EXPECT_THAT(names_in("#include<a.h>// why\n#include/* x */\"b.h\"/* y */\r\n#inc\\\nlude <c\\\n.h>"),
              ElementsAre("<a.h", "\"b.h", "<c.h"));
  EXPECT_THAT(names_in("/* x\n */ #include <a.h>\n"), ElementsAre("<a.h"));
  EXPECT_THAT(inclusions_of("#include_next <a.h>\n").list, ElementsAre(Inclusion{"a.h", false, true}));
  EXPECT_THAT(names_in("#if 0\n#include <a.h>\n#elif __has_include(<b.h>) && __has_include ( \"c.h\" )\n#endif\n"),
              ElementsAre("<a.h", "<b.h", "\"c.h"));
}

TEST(IncludeLexer, CommentsAndStringsDoNotFoolIt) {
  for (const char* const text : {
           "// #include <a.h>\n",
           "// goes on \\\n#include <a.h>\n",
           "/*\n#include <a.h>\n*/\n",
           "const char* s = \"\\\n#include <a.h>\\\n\";\n",
           "const char* s = R\"(\n#include <a.h>\n)\";\n",
           "const char* s = u8R\"x(\n)\"\n#include <a.h>\n)x\";\n",
           "int x; #include <a.h>\n",
           "#define include <a.h>\n",
           "#ifdef __has_include\n#endif\n",
       })
    EXPECT_THAT(names_in(text), IsEmpty()) << text;
  for (const char* const text : {
           "const char* s = \"/*\";\n#include <a.h>\n",
           "const char* s = \"\\\"/*\";\n#include <a.h>\n",
           "char c = '\"';\n#include <a.h>\n",
           "char c = '\\'', d = '\"';\n#include <a.h>\n",
           "int n = 1'000'000; // '\n#include <a.h>\n",
           "int n = 0x1'f;\n#include <a.h>\n",
           "#error don't do \"that\n#include <a.h>\n",
           "auto R = 1; const char* s = R\"(\"/*)\";\n#include <a.h>\n",
           "const char* s = R\"(\\)\";\n#include <a.h>\n",
           "#define S \"//\"\n#include <a.h>\n",
           "//\\ \n#include <a.h>\n",
       })
    EXPECT_THAT(names_in(text), ElementsAre("<a.h")) << text;
}

TEST(IncludeLexer, SaysWhatCannotBeTold) {
  EXPECT_TRUE(inclusions_of("#include <a.h>\n#define X <b.h>\nstatic int x;\n").can_be_told);
  for (const char* const text : {"#include X\n", "#include\n", "#if __has_include(X)\n#endif\n", "#include <a.h\n",
                                 "asm(\".incbin \\\"x\\\"\");\n", "asm(R\"(.incbin \"x\")\");\n"})
    EXPECT_FALSE(inclusions_of(text).can_be_told) << text;
  EXPECT_TRUE(inclusions_of("// #include X\n\"#include X\"\n").can_be_told);
}

TEST(IncludeLexer, SurvivesAnyText) {
  const std::string text = "#include <a> /* \" ' R\"x( )x\" \\\n __has_include(< 1'0 %:include \"b";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    inclusions_of(std::string_view(text).substr(i));
    inclusions_of(std::string_view(text).substr(0, i));
  }
}

}  // namespace
}  // namespace dwell::jit
