#include "element_type.hpp"

#include <gtest/gtest.h>

namespace dwell::tool {
namespace {

TEST(ElementType, NumpyNamesLeadBackToTheType) {
  for (const ElementType type : kElementTypes) EXPECT_EQ(element_type_of_numpy(numpy_name_of(type)), type) << name_of(type);
}

TEST(ElementType, UnknownNamesAreNoElementType) {
  for (const char* const name : {"", "<", ">f4", ">c8", "<f16", "|O", "<U3", "=f4", "|V4", ">V2", "<c32"}) {
    EXPECT_EQ(element_type_of_numpy(name), std::nullopt) << name;
  }
  EXPECT_EQ(element_type_of_numpy(">u1"), ElementType::u8);
  EXPECT_EQ(element_type_of_numpy("|V2"), ElementType::bf16) << "what NumPy makes of a bfloat16 without ml_dtypes";
}

TEST(ElementType, FitsTheSpanOfItsOwnKindOnly) {
  EXPECT_TRUE(fits(ElementType::f32, device::Describe<Span<float>>::value));
  EXPECT_TRUE(fits(ElementType::f32, device::Describe<Span<const float>>::value));
  EXPECT_TRUE(fits(ElementType::i64, device::Describe<Span<long>>::value));
  EXPECT_TRUE(fits(ElementType::i64, device::Describe<Span<long long>>::value));
  EXPECT_FALSE(fits(ElementType::f32, device::Describe<Span<double>>::value));
  EXPECT_FALSE(fits(ElementType::i32, device::Describe<Span<float>>::value));
  EXPECT_FALSE(fits(ElementType::i32, device::Describe<Span<unsigned>>::value));
  EXPECT_FALSE(fits(ElementType::f32, device::Describe<float>::value));
}

TEST(ElementType, TypesBeyondCppFitElementsOfTheirSize) {
  struct Half {
    unsigned short bits;
  };
  struct Pair {
    float x, y;
  };
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    EXPECT_TRUE(fits(type, device::Describe<Span<unsigned short>>::value));
    EXPECT_TRUE(fits(type, device::Describe<Span<Half>>::value));
    EXPECT_FALSE(fits(type, device::Describe<Span<short>>::value));
    EXPECT_FALSE(fits(type, device::Describe<Span<Pair>>::value));
  }
  EXPECT_TRUE(fits(ElementType::complex64, device::Describe<Span<Pair>>::value));
  EXPECT_FALSE(fits(ElementType::complex64, device::Describe<Span<u64>>::value));
  EXPECT_FALSE(fits(ElementType::f64, device::Describe<Span<Pair>>::value));
}

TEST(ElementType, HalfAndBfloat16AreDifferentTypes) {
  EXPECT_TRUE(fits(ElementType::f16, device::Describe<Span<const half>>::value));
  EXPECT_TRUE(fits(ElementType::bf16, device::Describe<Span<bfloat16>>::value));
  EXPECT_FALSE(fits(ElementType::f16, device::Describe<Span<bfloat16>>::value));
  EXPECT_FALSE(fits(ElementType::bf16, device::Describe<Span<half>>::value));
  EXPECT_FALSE(fits(ElementType::u16, device::Describe<Span<half>>::value));
}

}  // namespace
}  // namespace dwell::tool
