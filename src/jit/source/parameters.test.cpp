#include "jit/source/parameters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::StrEq;

std::vector<std::string> types_of(const std::string& parameters) {
  std::vector<std::string> types;
  const auto written = parameters_in("DWELL_OPERATOR(f)(" + parameters + ") {}", "f");
  for (const WrittenParameter& one : written.value()) types.push_back(one.type);
  return types;
}

TEST(ParametersTest, TypesAreAsWritten) {
  EXPECT_THAT(types_of(""), IsEmpty());
  EXPECT_THAT(types_of("dwell::Group"), ElementsAre("dwell::Group"));
  EXPECT_THAT(types_of("dwell::Group g, int n"), ElementsAre("dwell::Group", "int"));
  EXPECT_THAT(types_of("int, unsigned  int, unsigned long n, const int"), ElementsAre("int", "unsigned int", "unsigned long", "const int"));
  EXPECT_THAT(types_of("const float& a, float &b, T&&c"), ElementsAre("const float&", "float &", "T&&"));
  EXPECT_THAT(types_of("Pair<int, F(int, char)> p, std::array<T, 4> a = {1, 2}"),
              ElementsAre("Pair<int, F(int, char)>", "std::array<T, 4>"));
  EXPECT_THAT(types_of("\n  dwell::Group g,  // int no\n  /* char, */ Thing thing\n"), ElementsAre("dwell::Group", "Thing"));
}

TEST(ParametersTest, OnlyADeclarationHasThem) {
  EXPECT_EQ(parameters_in("// DWELL_OPERATOR(f)(int)\n", "f"), std::nullopt);
  EXPECT_EQ(parameters_in("DWELL_OPERATOR(other)(int) {}", "f"), std::nullopt);
  EXPECT_EQ(parameters_in("DWELL_OPERATOR(f)", "f"), std::nullopt);
  EXPECT_EQ(parameters_in("DWELL_OPERATOR(f)(int, ", "f"), std::nullopt);
}

std::optional<std::string> wrong(const std::string& parameters, std::string_view log) {
  return wrong_parameter("DWELL_OPERATOR(f)(" + parameters + ") {}", "f", log);
}

TEST(ParametersTest, TheFirstMustBeTheGroup) {
  constexpr std::string_view log = "<dwell export of f>:1: error: incomplete type 'dwell::device::Export<void(int)>'\n";
  EXPECT_THAT(wrong("int n", log), Optional(StrEq("its first parameter must be dwell::Group, it is int")));
  EXPECT_THAT(wrong("dwell::Group& g", log), Optional(StrEq("its first parameter must be dwell::Group, it is dwell::Group&")));
  EXPECT_THAT(wrong("", log), Optional(StrEq("its first parameter must be dwell::Group, it has none")));
  EXPECT_EQ(wrong("dwell::Group g, int n", log), std::nullopt);
  EXPECT_EQ(wrong("int n", "some other error"), std::nullopt);
  EXPECT_EQ(wrong("Alias g", "error: incomplete type \"dwell::device::Export<<error-type>>\""), std::nullopt) << "a template";
}

TEST(ParametersTest, ReferencesAreNamed) {
  EXPECT_THAT(wrong("dwell::Group g, float& y", ""),
              Optional(StrEq("'float& y' is a reference: take a value, or a dwell::Span to write to")));
  EXPECT_NE(wrong("dwell::Group g, Large&& y", ""), std::nullopt);
  EXPECT_EQ(wrong("dwell::Group g, const Large& y, Large const & z", ""), std::nullopt);
}

TEST(ParametersTest, SignatureErrorNamesItsParameter) {
  const std::string said = "'std::vector<float> x': arguments are copied as bytes: use a Span";
  EXPECT_THAT(wrong("dwell::Group g, int n, std::vector<float> x",
                    "dwell/device/signature.hpp: In instantiation of 'struct dwell::device::Describe<std::vector<float> >':\n"
                    "dwell/device/signature.hpp:88:3: error: static assertion failed: arguments are copied as bytes: use a Span\n"),
              Optional(said));
  EXPECT_THAT(wrong("dwell::Group g, int n, std::vector<float> x",
                    "dwell/device/signature.hpp:88:3: error: static assertion failed due to requirement '__is_trivially_copyable(vector)': "
                    "arguments are copied as bytes: use a Span\nnote: in instantiation of 'dwell::device::Describe<std::vector<float>>'\n"),
              Optional(said));
  EXPECT_THAT(wrong("dwell::Group g, int n, std::vector<float> x",
                    "dwell/device/signature.hpp:88:3: error: static_assert failed due to requirement '__is_trivially_copyable(vector)' "
                    "\"arguments are copied as bytes: use a Span\"\nnote: in 'dwell::device::Describe<std::vector<float>>'\n"),
              Optional(said));
  EXPECT_THAT(wrong("dwell::Group g, int n, std::vector<float> x",
                    "dwell/device/signature.hpp(88): error: static assertion failed with \"arguments are copied as bytes: use a Span\"\n"
                    "  detected during instantiation of class \"dwell::device::Describe<T> [with T=std::vector<float>]\"\n"),
              Optional(said));
  EXPECT_EQ(wrong("dwell::Group g, int n", "<f>:3: error: static assertion failed: mine\n"), std::nullopt);
}

}  // namespace
}  // namespace dwell::jit
