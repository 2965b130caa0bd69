#include <dwell/signature.hpp>

#include <gtest/gtest.h>

#include <dwell/device/byte_ring.hpp>
#include <dwell/device/ring.hpp>

namespace dwell {
namespace {

struct Three {
  char bytes[3];
};

TEST(Signature, PrintsAsCpp) {
  EXPECT_EQ(Signature().text(), "()");
  const auto all = Signature::of<bool, signed char, u16, i32, u64, float, double, Three, Span<float>, Span<const i64>, Span<Three>>();
  EXPECT_EQ(all.text(),
            "(bool, i8, u16, i32, u64, float, double, struct of 3 bytes, Span<float>, Span<const i64>, Span<struct of 3 bytes>)");
}

TEST(Signature, TypesOfOneKindAndSizeAreTheSame) {
  EXPECT_EQ((Signature::of<int, long, unsigned long>()), (Signature::of<i32, long long, u64>()));
  EXPECT_NE(Signature::of<int>(), Signature::of<unsigned>());
  EXPECT_NE(Signature::of<int>(), Signature::of<float>());
  EXPECT_NE(Signature::of<Span<int>>(), Signature::of<Span<const int>>());
  EXPECT_NE((Signature::of<int, int>()), Signature::of<int>());
}

TEST(Signature, NamesTheTypesBeyondCpp) {
  EXPECT_EQ((Signature::of<half, Span<const bfloat16>, complex<float>, Span<complex<double>>>().text()),
            "(half, Span<const bfloat16>, complex<float>, Span<complex<double>>)");
  EXPECT_NE(Signature::of<Span<half>>(), Signature::of<Span<bfloat16>>());
  EXPECT_NE(Signature::of<Span<half>>(), Signature::of<Span<u16>>());
  EXPECT_NE(Signature::of<complex<float>>(), Signature::of<double>());
}

TEST(Signature, NamesRings) {
  EXPECT_EQ((Signature::of<Ring<float>, Ring<Three>, ByteRing>().text()), "(Ring<float>, Ring<struct of 3 bytes>, ByteRing)");
  EXPECT_NE(Signature::of<Ring<float>>(), Signature::of<Ring<i32>>());
  EXPECT_NE(Signature::of<Ring<float>>(), Signature::of<Span<float>>());
}

TEST(Signature, ComesFromTheRecordInAnObject) {
  constexpr SignatureRecord record = device::signature_of<float, Span<u8>>();
  EXPECT_EQ(record.magic, kSignatureMagic);
  EXPECT_EQ(record.count, 2U);
  EXPECT_EQ(Signature(record), (Signature::of<float, Span<u8>>()));
}

}  // namespace
}  // namespace dwell
