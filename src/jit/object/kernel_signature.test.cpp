// Kernel signatures from mangled names and sizes. cuda_module.test.cpp does the same with kernels compiled by NVRTC.
#include "jit/object/kernel_signature.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Kind kNone = Kind::structure;

TEST(KernelSignature, SplitsAtTopLevelCommas) {
  EXPECT_THAT(parameter_types("void f<int, 3>(int, float const*)"), ElementsAre("int", "float const*"));
  EXPECT_THAT(parameter_types("f(n::V<float, n::W<int, char> >, void (*)(int, float), P*)"),
              ElementsAre("n::V<float, n::W<int, char> >", "void (*)(int, float)", "P*"));
  EXPECT_THAT(parameter_types("void f<(E)1>(double)"), ElementsAre("double"));
  EXPECT_THAT(parameter_types("f()"), IsEmpty());
  EXPECT_THAT(parameter_types("f"), IsEmpty());
  EXPECT_THAT(parameter_types(")"), IsEmpty());
}

TEST(KernelSignature, NamesEveryArithmeticType) {
  EXPECT_EQ(kernel_parameter("bool", 1), (Parameter{Kind::boolean, kNone, 1}));
  EXPECT_EQ(kernel_parameter("char", 1), (Parameter{Kind::signed_integer, kNone, 1}));
  EXPECT_EQ(kernel_parameter("unsigned short", 2), (Parameter{Kind::unsigned_integer, kNone, 2}));
  EXPECT_EQ(kernel_parameter("int", 4), (Parameter{Kind::signed_integer, kNone, 4}));
  EXPECT_EQ(kernel_parameter("long", 8), (Parameter{Kind::signed_integer, kNone, 8}));
  EXPECT_EQ(kernel_parameter("unsigned long long", 8), (Parameter{Kind::unsigned_integer, kNone, 8}));
  EXPECT_EQ(kernel_parameter("double", 8), (Parameter{Kind::floating, kNone, 8}));
}

TEST(KernelSignature, PointersCarryElementAndConstness) {
  EXPECT_EQ(kernel_parameter("float*", 8), (Parameter{Kind::pointer, Kind::floating, 4}));
  EXPECT_EQ(kernel_parameter("float const*", 8), (Parameter{Kind::const_pointer, Kind::floating, 4}));
  EXPECT_EQ(kernel_parameter("int const volatile*", 8), (Parameter{Kind::const_pointer, Kind::signed_integer, 4}));
  EXPECT_EQ(kernel_parameter("unsigned int volatile*", 8), (Parameter{Kind::pointer, Kind::unsigned_integer, 4}));
  EXPECT_EQ(kernel_parameter("void*", 8), (Parameter{Kind::pointer, Kind::opaque, 0}));
  EXPECT_EQ(kernel_parameter("void const*", 8), (Parameter{Kind::const_pointer, Kind::opaque, 0}));
  EXPECT_EQ(kernel_parameter("float**", 8), (Parameter{Kind::pointer, Kind::pointer, 8}));
  EXPECT_EQ(kernel_parameter("float const* const*", 8), (Parameter{Kind::const_pointer, Kind::pointer, 8}));
  EXPECT_EQ(kernel_parameter("n::P*", 8), (Parameter{Kind::pointer, Kind::structure, 0}));
  EXPECT_EQ(kernel_parameter("float const (*) [4]", 8), (Parameter{Kind::const_pointer, Kind::opaque, 0}));
}

TEST(KernelSignature, OtherTypesAreStructuresOfTheirSize) {
  EXPECT_EQ(kernel_parameter("n::P", 24), (Parameter{Kind::structure, kNone, 24}));
  EXPECT_EQ(kernel_parameter("void (*)(int, float)", 8), (Parameter{Kind::structure, kNone, 8}));
  EXPECT_EQ(kernel_parameter("int n::P::*", 8), (Parameter{Kind::structure, kNone, 8}));
  EXPECT_EQ(kernel_parameter("int", 16), (Parameter{Kind::structure, kNone, 16})) << "the image is right";
}

TEST(KernelSignature, OtherBytesHaveNoKernels) {
  EXPECT_THAT(read_kernels({}), IsEmpty());
  EXPECT_THAT(read_kernels(std::as_bytes(std::span("no image at all"))), IsEmpty());
}

}  // namespace
}  // namespace dwell::jit
