#include "jit/source/source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

using testing::HasSubstr;
using testing::Not;

// Checks that the leading part ends at the bar.
void expect_lead(std::string text) {
  const std::size_t bar = text.find('|');
  text.erase(bar, 1);
  EXPECT_EQ(leading_part(text), bar) << text;
}

TEST(LeadingPart, EndsAtTheFirstDeclaration) {
  expect_lead("|");
  expect_lead("|int x;\n");
  expect_lead("\n\n|int x;\n");
  expect_lead("#include <a>\n  # include \"b\"\n|int x;\n#include <c>\n");
  expect_lead("// int x;\n/* int y;\nint z; */\n|int x;\n");
  expect_lead("#include <a>\r\n\r\n|int x;\r\n");
  expect_lead("#pragma once\n|");
  expect_lead("#define A 1\n|");
}

TEST(LeadingPart, FollowsContinuationsAndComments) {
  expect_lead("#define A(x) \\\n  int x; \\\n  int y;\n|A(z)\n");
  expect_lead("// a comment \\\n that goes on\n|int x;\n");
  expect_lead("#define A /* one\n two */\n|int x;\n");
  expect_lead("#define A \"/*\"\n|int x; /* */\n");
  expect_lead("#define A '\"'\n|int x;\n");
  expect_lead("#include <a> // \"\n|int x;\n");
  expect_lead("|/* a */ int x;\n");
  expect_lead("\n|/* a\n b */ int x;\n");
  expect_lead("/* # */ #include <a>\n|int x;\n");
}

TEST(LeadingPart, TakesWholeConditionalsOnly) {
  expect_lead("#ifdef A\n#include <a>\n#else\n#if B\n#include <b>\n#endif\n#endif\n|int x;\n");
  expect_lead("#include <a>\n|#ifdef A\n#include <b>\nint x;\n#endif\n");
  expect_lead("#include <a>\n|#if A\n#if B\n#endif\nint x;\n#endif\n");
  expect_lead("|#if A\n");
  expect_lead("#endif\n|int x;\n");
}

TEST(WrappedSource, KeepsTheUsersLines) {
  const Unit unit{"axpy", "#include <a>\n\nint x;", "dir/a\"b\\c.cu", 40, {{"axpy", "axpy_1"}}};
  EXPECT_EQ(wrapped_source(unit),
            "#include <dwell/device.hpp>\n"
            "#line 40 \"dir/a\\\"b\\\\c.cu\"\n"
            "#include <a>\n\n"
            "#undef DWELL_DEVICE\n#define DWELL_DEVICE DWELL_DEVICE_HELPER\n"
            "namespace {\n"
            "#line 42 \"dir/a\\\"b\\\\c.cu\"\n"
            "int x;\n\n"
            "#line 1 \"<dwell export of axpy>\"\n"
            "}\n"
            "#line 1 \"<dwell export of axpy>\"\n"
            "DWELL_EXPORT(axpy_1, axpy)\n"
            "DWELL_EXPORT_USES(axpy_1)\n"
            "DWELL_EXPORT_INSPECTS(axpy_1)\n");
}

TEST(WrappedSource, FileNamesAreEscaped) {
  Unit unit = axpy_unit("axpy_1");
  unit.file = "a\n#error \"\\";
  EXPECT_THAT(wrapped_source(unit), HasSubstr("#line 1 \"a?#error \\\"\\\\\"\n"));
}

TEST(WrappedSource, RefusesNamesOtherThanIdentifiers) {
  for (const std::string name : {"", "1a", "a b", "a)(", "a\n", "\xc3\xa4"}) {
    Unit unit = axpy_unit("axpy_1");
    unit.name = name;
    EXPECT_THROW(wrapped_source(unit), Error) << name;
    unit = axpy_unit(name);
    EXPECT_THROW(wrapped_source(unit), Error) << name;
  }
  Unit unit = axpy_unit("axpy_1");
  unit.text += '\0';
  EXPECT_THROW(wrapped_source(unit), Error);
}

// Messages in the form of each of the three compilers.
TEST(CompileError, AMissingOperatorIsNamed) {
  Unit unit = unit_of("axpy", "DWELL_OPERATOR(axpi)(dwell::Group g) {}", "axpy_1");
  for (const char* const log :
       {"<dwell export of axpy>(1): error: identifier \"dwell_operator_axpy\" is undefined\n"
        "dwell/device/operator.hpp(63): error: excessive recursion\n",
        "/tmp/x/include/dwell/device/operator.hpp:80:1: error: 'dwell_operator_axpy' was not declared in this scope\n",
        "<dwell export of axpy>:1:1: error: use of undeclared identifier 'dwell_operator_axpy'; did you mean\n"}) {
    const Error error = compile_error(unit, log);
    EXPECT_EQ(error.kind(), errc::operator_not_found) << log;
    EXPECT_EQ(error.message(), "axpy.cu does not define DWELL_OPERATOR(axpy); it defines axpi");
  }
}

TEST(CompileError, UserErrorsComeFirst) {
  const Unit unit = axpy_unit("axpy_1");
  const Error error = compile_error(unit,
                                    "axpy.cu(3): error: identifier \"nonsense\" is undefined\n\n"
                                    "<dwell export of axpy>(1): error: identifier \"dwell_operator_axpy\" is undefined\n");
  EXPECT_EQ(error.kind(), errc::compile_failed);
  EXPECT_THAT(error.message(), HasSubstr("axpy.cu(3): error: identifier \"nonsense\" is undefined"));
  EXPECT_THAT(error.message(), Not(HasSubstr("export")));
}

TEST(CompileError, UserFilesAreRecognisedByName) {
  Unit unit = axpy_unit("axpy_1");
  unit.file = "/home/me/dwell/device/axpy.cu";
  EXPECT_EQ(
      compile_error(unit, unit.file + ":3:1: error: no\n<dwell export of axpy>:1:1: error: 'dwell_operator_axpy' undeclared\n").kind(),
      errc::compile_failed);
}

TEST(CompileError, ALateIncludeIsExplained) {
  const Unit unit{"a", "int x;\n#include <b>\n", "a.cu", 10, {{"a", "a_1"}}};
  EXPECT_THAT(compile_error(unit, "b(1): error: no").message(), HasSubstr("the #include on line 11 of a.cu must stand before"));
}

TEST(CompileError, OnlyTemplatesGetTheInstancesNote) {
  const auto note_on = [](const std::string& before) {
    const Unit unit = unit_of("axpy", before + "DWELL_OPERATOR(axpy)(dwell::Group g) {}\n", "axpy_1");
    return compile_error(unit, "axpy.cu(3): error: no").message().find("is a template") != std::string::npos;
  };
  EXPECT_TRUE(note_on("template <class T>\n"));
  EXPECT_TRUE(note_on("#include <vector>\nint x;\ntemplate <class T>  // of what\n"));
  EXPECT_TRUE(note_on("template <class T> requires(sizeof(T) == 4) "));
  EXPECT_FALSE(note_on("#include <dwell/device.hpp>\n"));
  EXPECT_FALSE(note_on("  # include <dwell/device.hpp>\n// as template <class T>\n/* template <class T> */ "));
  EXPECT_FALSE(note_on("template <class T> T twice(T x) { return x + x; }\n"));
  EXPECT_FALSE(note_on("template <class T> struct Pair;\n"));
}

TEST(ReadableLog, IsBounded) {
  const Unit unit = axpy_unit("axpy_1");
  EXPECT_LT(readable_log(unit, std::string(1'000'000, 'x')).size(), 1000U);
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "warning: dwell_operator_axpy\n";
  EXPECT_LT(readable_log(unit, many).size(), 20'000U);
  EXPECT_TRUE(readable_log(unit, many).starts_with("warning: axpy\n"));
}

}  // namespace
}  // namespace dwell::jit
