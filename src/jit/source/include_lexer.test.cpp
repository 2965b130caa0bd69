#include "jit/source/include_lexer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The included names, as written.
std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (const Inclusion& one : inclusions_of(text).list) names.push_back((one.quoted ? '"' : '<') + one.name);
  return names;
}

TEST(IncludeLexer, FindsEveryFormOfInclude) {
  EXPECT_THAT(names_in("#include <a.h>\n#include \"b/c.h\"\n  #  include\t<d>\n#import \"e\"\n#embed <f.bin>\n%:include <g>\n"),
              ElementsAre("<a.h", "\"b/c.h", "<d", "\"e", "<f.bin", "<g"));
  EXPECT_THAT(names_in("#include<a.h>// why\n#include/* x */\"b.h\"/* y */\r\n#inc\\\nlude <c\\\n.h>"),
              ElementsAre("<a.h", "\"b.h", "<c.h"));
  EXPECT_THAT(names_in("/* x\n */ #include <a.h>\n"), ElementsAre("<a.h"));
  EXPECT_THAT(inclusions_of("#include_next <a.h>\n").list, ElementsAre(Inclusion{"a.h", false, true}));
  EXPECT_THAT(names_in("#if 0\n#include <a.h>\n#elif __has_include(<b.h>) && __has_include ( \"c.h\" )\n#endif\n"),
              ElementsAre("<a.h", "<b.h", "\"c.h"));
}

TEST(IncludeLexer, IgnoresCommentsAndStrings) {
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

TEST(IncludeLexer, AcceptsEveryLineEnd) {
  for (const char* const end : {"\n", "\r\n", "\r"}) {
    const std::string text = std::string("// a comment") + end + "#include <a.h>" + end + "int x; // goes on \\" + end + "#include <b.h>" +
                             end + "const char* s = \"" + end + "#inc\\" + end + "lude <c.h>" + end;
    EXPECT_THAT(names_in(text), ElementsAre("<a.h", "<c.h")) << testing::PrintToString(end);
  }
}

TEST(IncludeLexer, FindsIncludesAfterStrings) {
  EXPECT_THAT(names_in("const char* s = \"x\"\n#include <a.h>\n;asm\n#include <b.h>\n\"y\"\n#include <c.h>\n"),
              ElementsAre("<a.h", "<b.h", "<c.h"));
}

TEST(IncludeLexer, ReportsNamesFromMacros) {
  EXPECT_FALSE(inclusions_of("#include <a.h>\n#define X <b.h>\nstatic int x;\n").by_macro);
  for (const char* const text : {"#include X\n", "#include\n", "#if __has_include(X)\n#endif\n", "#include <a.h\n"})
    EXPECT_TRUE(inclusions_of(text).by_macro) << text;
  EXPECT_FALSE(inclusions_of("// #include X\n\"#include X\"\n").by_macro);
}

TEST(IncludeLexer, ReportsAssemblyReadingFiles) {
  for (const char* const text : {
           R"~(asm(".incbin \"x\"");)~",
           R"~(asm(R"(.incbin "x")");)~",
           R"~(asm(".include \"x\"");)~",
           R"~(asm(".INCLUDE \"x\"");)~",
           R"~(asm volatile(".inc" /* in pieces */ "bin \"x\"");)~",
           "__asm__ __volatile__ (\".inc\" // in pieces\n u8R\"(bin \"x\")\");",
           "asm(\".inc\\\nbin \\\"x\\\"\");",
           R"~(asm("\x2eincbin \"x\"");)~",
           R"~(asm(START "bin \"x\"");)~",
           R"~(asm(".inc" END);)~",
           R"~(asm(TEXT);)~",
           R"~(asm L"(x)";)~",
           R"~(asm wrapped("nop");)~",
           R"~(asm(".macro m x\n.\\x \"x\"\n.endm\n");)~",
           R"~(asm(".%0" : : "i"(incbin));)~",
           "#define Q asm\nQ(\"nop\");",
           R"~(const char* hidden = ".inc" "bin";)~",
       })
    EXPECT_TRUE(inclusions_of(text).by_assembler) << text;
  for (const char* const text : {
           R"~(asm("nop");)~",
           R"~(asm volatile("rdtsc\n\tshl $32, %%rdx" : "=a"(low) : : "rdx");)~",
           "asm goto(\"jmp %l0\"\n  \"\\n\" : : : : out);",
           R"~(asm("" ::: "memory");)~",
           R"~(extern int f() asm("other_name");)~",
           R"~(int asmx = 1, x_asm = 2; const char* s = "asm(X)";)~",
           "// asm(X)\n",
       })
    EXPECT_FALSE(inclusions_of(text).by_assembler) << text;
}

TEST(IncludeLexer, SurvivesAnyText) {
  const std::string text =
      "#include <a> /* \" ' R\"x( )x\" \\\n __has_include(< 1'0 %:include \"b\"\r asm volatile(\"x\\\" u8R\"(y)\" z : ";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    inclusions_of(std::string_view(text).substr(i));
    inclusions_of(std::string_view(text).substr(0, i));
  }
}

}  // namespace
}  // namespace dwell::jit
