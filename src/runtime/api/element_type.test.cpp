#include <dwell/element_type.hpp>

#include <gtest/gtest.h>

#include <dwell/signature.hpp>

namespace dwell {
namespace {

TEST(ElementTypeData, NamesRoundTrip) {
  for (const ElementType type : kElementTypes) EXPECT_EQ(element_type_named(name_of(type)), type) << name_of(type);
  for (const char* const name : {"", "f", "float", "f128", "F32", "complex"}) EXPECT_EQ(element_type_named(name), std::nullopt) << name;
  EXPECT_EQ(element_type_names(), "f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool, complex64, complex128");
}

TEST(ElementTypeData, IsReadFromTypesAndParameters) {
  EXPECT_EQ(element_type_of<half>(), ElementType::f16);
  EXPECT_EQ(element_type_of<bfloat16>(), ElementType::bf16);
  EXPECT_EQ(element_type_of<double>(), ElementType::f64);
  EXPECT_EQ(element_type_of<bool>(), ElementType::boolean);
  EXPECT_EQ(element_type_of<long>(), ElementType::i64);
  EXPECT_EQ(element_type_of<complex<float>>(), ElementType::complex64);
  EXPECT_EQ(element_type_of<Span<const complex<double>>>(), ElementType::complex128);
  EXPECT_EQ(element_type_of(Parameter{Kind::pointer, Kind::floating, 4}), ElementType::f32);
  struct Pair {
    float a, b;
  };
  EXPECT_EQ(element_type_of<Pair>(), std::nullopt);
  EXPECT_EQ(element_type_of<Span<Pair>>(), std::nullopt);
}

TEST(ElementTypeData, GivesTheParametersOfOperators) {
  for (const ElementType type : kElementTypes) {
    EXPECT_EQ(element_type_of(value_of(type)), type);
    EXPECT_EQ(element_type_of(span_of(type)), type);
    EXPECT_EQ(element_type_of(const_span_of(type)), type);
  }
  EXPECT_EQ(value_of(ElementType::bf16), device::Describe<bfloat16>::value);
  EXPECT_EQ(span_of(ElementType::complex64), device::Describe<Span<complex<float>>>::value);
  EXPECT_EQ(const_span_of(ElementType::u8), device::Describe<Span<const u8>>::value);
}

}  // namespace
}  // namespace dwell
