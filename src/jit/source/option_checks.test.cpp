#include "jit/source/option_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "jit/base/temporary_directory.hpp"

namespace dwell::jit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The option named in an error's fields.
template <class Check>
std::string option_of(Check check) {
  try {
    check();
  } catch (const Error& error) {
    EXPECT_EQ(error.fields().what, "option") << error.what();
    return error.fields().which;
  }
  return "accepted";
}

template <class Check>
std::string refusal(Check check, errc kind = errc::invalid_argument) {
  try {
    check();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.message();
  }
  return "accepted";
}

TEST(OptionChecks, Standards) {
  for (const int standard : {14, 17, 20}) EXPECT_NO_THROW(check_standard({.standard = standard}));
  for (const int standard : {0, 11, 15, 23}) {
    EXPECT_EQ(option_of([&] { check_standard({.standard = standard}); }), "CompileOptions::standard");
    EXPECT_THAT(refusal([&] { check_standard({.standard = standard}); }),
                testing::AllOf(HasSubstr(std::to_string(standard)), HasSubstr("14, 17 or 20")));
  }
}

TEST(OptionChecks, DefinesAreIdentifiersAndLines) {
  const CompileOptions options{.defines = {{"TILE", "32"}, {"EMPTY", ""}, {"SUM(a, b)", "((a) + (b))"}, {"LOG(...)", ""}, {"NOW()", "0"}}};
  EXPECT_THAT(checked_defines(options), ElementsAre("EMPTY=", "LOG(...)=", "NOW()=0", "SUM(a, b)=((a) + (b))", "TILE=32"));
  for (const char* const name : {"", "2X", "A B", "A=1", "F(", "F(x", "F(1)", "F(a,)", "F(..., a)", "A\n#include \"x\"", "-D"}) {
    EXPECT_THAT(refusal([&] { checked_defines({.defines = {{name, "1"}}}); }), HasSubstr("is not the name of a macro")) << name;
  }
  EXPECT_THAT(refusal([] { checked_defines({.defines = {{"A", "1\n#define B"}}}); }), HasSubstr("the value of A is not one line"));
}

TEST(OptionChecks, IncludePathsAreFolders) {
  const TemporaryDirectory folder;
  const std::string root = std::filesystem::canonical(folder.path());
  std::filesystem::create_directories(folder.path() / "a/b");
  std::filesystem::create_directory_symlink("a", folder.path() / "link");
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THAT(checked_include_paths({.include_paths = {root + "/link/../a/b/", root + "/link"}}), ElementsAre(root + "/a/b", root + "/a"));
  EXPECT_THAT(checked_include_paths({.include_paths = {"."}}), ElementsAre(std::filesystem::canonical(".").string()));
  for (const std::string& path : {root + "/none", root + "/file", std::string()}) {
    EXPECT_THAT(refusal([&] { checked_include_paths({.include_paths = {path}}); }), HasSubstr("'" + path + "'"));
  }
}

TEST(OptionChecks, HeaderNamesStayInTheirFolder) {
  EXPECT_NO_THROW(check_headers({.headers = {{"a.h", "x"}, {"my/own/sizes", ""}, {"cmath", ""}}}));
  for (const char* const name :
       {"", "/etc/passwd", "../a.h", "a/../../b.h", "./a.h", "a//b.h", "a/", "a\nb.h", "dwell/device.hpp", "tensor/device/reduce.hpp"}) {
    EXPECT_EQ(option_of([&] { check_headers({.headers = {{name, ""}}}); }), "CompileOptions::headers") << name;
  }
  EXPECT_THAT(refusal([] { check_headers({.headers = {{"a.h", std::string("x\0y", 3)}}}); }), HasSubstr("a.h"));
}

TEST(OptionChecks, RefusesFlags) {
  const RefusedFlag refused[] = {{"rdc", "never"}, {"I", "other", true}};
  const auto said = [&](const std::string& flag) { return refusal([&] { check_flags({.flags = {flag}}, refused); }); };
  for (const char* const flag : {"-rdc", "--rdc", "-rdc=true", "--rdc=false"}) EXPECT_THAT(said(flag), HasSubstr("never")) << flag;
  for (const char* const flag : {"-I", "-I/x", "--I"}) EXPECT_THAT(said(flag), HasSubstr("other")) << flag;
  for (const char* const flag : {"-rdcx", "--Ix", "-O3", "--restrict"}) EXPECT_EQ(said(flag), "accepted") << flag;
  for (const char* const flag : {"", "-", "evil.o", "@file", "-a\n-b"}) EXPECT_THAT(said(flag), HasSubstr("is not a flag")) << flag;
}

}  // namespace
}  // namespace dwell::jit
