#include "element_type.hpp"

#include <gtest/gtest.h>

namespace dwell::tool {
namespace {

TEST(ElementType, NamesLeadBackToTheType) {
  for (const ElementType type : kElementTypes) {
    EXPECT_EQ(element_type_named(name_of(type)), type);
    EXPECT_EQ(element_type_of_numpy(numpy_name_of(type)), type);
  }
}

TEST(ElementType, OtherNamesAreNone) {
  for (const char* const name : {"", "f", "float", "f128", "F32"}) EXPECT_EQ(element_type_named(name), std::nullopt) << name;
  for (const char* const name : {"", "<", ">f4", "<c8", "|b1", "<f16", "|O", "<U3", "=f4"}) {
    EXPECT_EQ(element_type_of_numpy(name), std::nullopt) << name;
  }
  EXPECT_EQ(element_type_of_numpy(">u1"), ElementType::u8);
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

TEST(ElementType, HalfFitsWhateverHoldsItsBytes) {
  struct Half {
    unsigned short bits;
  };
  EXPECT_TRUE(fits(ElementType::f16, device::Describe<Span<unsigned short>>::value));
  EXPECT_TRUE(fits(ElementType::f16, device::Describe<Span<Half>>::value));
  EXPECT_TRUE(fits(ElementType::f16, (Parameter{Kind::const_span, Kind::floating, 2})));
  EXPECT_FALSE(fits(ElementType::f16, device::Describe<Span<short>>::value));
  EXPECT_FALSE(fits(ElementType::u16, (Parameter{Kind::span, Kind::floating, 2})));
}

}  // namespace
}  // namespace dwell::tool
