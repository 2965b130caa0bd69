// The operator author's kit: atomics on spans, and element types that C++ lacks.
#include <bit>
#include <cmath>
#include <type_traits>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class KitElementsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(KitElementsTest);

// ---- Atomics -------------------------------------------------------------------------------------------------------------------

constexpr const char* kAtomics = R"(
template <class T>
void count(dwell::Group g, dwell::Span<T> x, dwell::order o, dwell::scope s) {
  for (auto i : g.range(5000)) {
    const T value = static_cast<T>(i);
    x.atomic_add(0, T(1), o, s);
    x.atomic_min(1, static_cast<T>(1000) - value, o, s);
    x.atomic_max(2, value, o, s);
    T seen = x.atomic_load(3, o, s);
    while (!x.atomic_compare_exchange(3, seen, seen + T(2), o, s)) {}
    if (i == 4999) x.atomic_store(4, x.atomic_load(4, o, s) + value, o, s);
    x.atomic_exchange(5, value, o, s);
    if (x.atomic_add(6, T(1)) == T(0)) x[7] = T(1);  // exactly one addition finds 0
  }
}
template <class T>
DWELL_OPERATOR(atomics)(dwell::Group g, dwell::u32 how, dwell::Span<T> x) {
  using dwell::order;
  using dwell::scope;
  if (how == 0) count(g, x, order::relaxed, scope::device);
  if (how == 1) count(g, x, order::acquire, scope::device);
  if (how == 2) count(g, x, order::release, scope::device);
  if (how == 3) count(g, x, order::acq_rel, scope::device);
  if (how == 4) count(g, x, order::relaxed, scope::system);
  if (how == 5) count(g, x, order::acquire, scope::system);
  if (how == 6) count(g, x, order::release, scope::system);
  if (how == 7) count(g, x, order::acq_rel, scope::system);
})";

template <class T>
void expect_all_counted(Runtime& runtime, const Operator<>& atomics) {
  for (u32 how = 0; how < 8; ++how) {
    auto x = runtime.allocate<T>(8);
    x.write(std::vector<T>{0, 1000, 0, 0, 3, 0, 0, 0});
    runtime.submit(atomics, how, x, groups(40)).wait();
    std::vector<T> result = read(x);
    EXPECT_LT(result[5], T(5000));
    result[5] = 0;
    const T least = std::is_unsigned_v<T> ? T(0) : static_cast<T>(-3999);  // of 1000 - i: negative values are huge if unsigned
    EXPECT_EQ(result, (std::vector<T>{5000, least, 4999, 10000, 5002, 0, 5000, 1})) << atomics.name() << " " << how;
  }
}

TEST_P(KitElementsTest, AtomicsOnSpansLoseNothing) {
  Runtime runtime(options());
  const Definition types = {.instances = {"atomics<dwell::i32>", "atomics<dwell::u32>", "atomics<dwell::i64>", "atomics<dwell::u64>",
                                          "atomics<float>", "atomics<double>"}};
  const Operator<> atomics = runtime.define("atomics", kAtomics, types);
  expect_all_counted<i32>(runtime, atomics.instance("atomics<dwell::i32>"));
  expect_all_counted<u32>(runtime, atomics.instance("atomics<dwell::u32>"));
  expect_all_counted<i64>(runtime, atomics.instance("atomics<dwell::i64>"));
  expect_all_counted<u64>(runtime, atomics.instance("atomics<dwell::u64>"));
  expect_all_counted<float>(runtime, atomics.instance("atomics<float>"));
  expect_all_counted<double>(runtime, atomics.instance("atomics<double>"));
}

TEST_P(KitElementsTest, CompareExchangeReplacesOnlyTheExpectedValue) {
  Runtime runtime(options());
  auto exchange = runtime.define<void(Span<float>, Span<u32>)>("exchange", R"(
    DWELL_OPERATOR(exchange)(dwell::Group g, dwell::Span<float> x, dwell::Span<dwell::u32> stored) {
      if (g.rank() != 0) return;
      float seen = 4;
      stored[0] = x.atomic_compare_exchange(0, seen, 5.0f);
      x[1] = seen;
      stored[1] = x.atomic_compare_exchange(0, seen, 6.0f);
      x[2] = seen;
    })");
  auto x = filled<float>(runtime, 3, 3);
  auto stored = filled<u32>(runtime, 2, 7);
  runtime.submit(exchange, x, stored).wait();
  EXPECT_EQ(read(x), (std::vector<float>{6, 3, 3}));
  EXPECT_EQ(read(stored), (std::vector<u32>{0, 1}));
}

TEST_P(KitElementsTest, AtomicsWorkOnMemoryOfTheGroup) {
  Runtime runtime(options());
  auto histogram = runtime.define<void(Span<const u8>, Span<u32>)>("histogram", R"(
    DWELL_OPERATOR(histogram)(dwell::Group g, dwell::Span<const dwell::u8> bytes, dwell::Span<dwell::u32> counts) {
      const dwell::Span<dwell::u32> mine = g.shared<dwell::u32>(256);
      g.alone().transform(mine, [] { return 0; });
      g.sync();
      for (auto i : g.range(bytes.size())) mine.atomic_add(bytes[i], 1);
      g.sync();
      for (auto i : g.local_range(256)) counts.atomic_add(i, mine[i]);
    })");
  std::vector<u8> bytes(100'000);
  std::vector<u32> expected(256);
  Random random(3);
  for (u8& byte : bytes) ++expected[byte = static_cast<u8>(random() % 251)];
  auto x = runtime.allocate<u8>(bytes.size());
  x.write(bytes);
  auto counts = filled<u32>(runtime, 256, 0);
  runtime.submit(histogram, x, counts, groups(9)).wait();
  EXPECT_EQ(read(counts), expected);
}

// ---- Types that C++ lacks ------------------------------------------------------------------------------------------------------

template <class T>
void expect_same_as_on_the_host(Runtime& runtime, const Operator<>& convert) {
  std::vector<T> shorts(65536);
  for (u32 bits = 0; bits < 65536; ++bits) shorts[bits] = T::from_bits(static_cast<u16>(bits));
  std::vector<float> floats(100'000);
  Random random(4);
  for (float& number : floats) number = std::bit_cast<float>(random());
  // Midpoints of neighbours.
  for (u32 i = 0; i + 1 < 20'000; ++i) floats[i] = (static_cast<float>(shorts[i]) + static_cast<float>(shorts[i + 1])) / 2;
  auto from_shorts = runtime.allocate<T>(shorts.size());
  auto from_floats = runtime.allocate<float>(floats.size());
  from_shorts.write(shorts);
  from_floats.write(floats);
  auto to_floats = runtime.allocate<float>(shorts.size());
  auto to_shorts = runtime.allocate<T>(floats.size());
  runtime.submit(convert, from_shorts, to_floats, from_floats, to_shorts).wait();
  const std::vector<float> widened = read(to_floats);
  const std::vector<T> rounded = read(to_shorts);
  for (std::size_t i = 0; i < shorts.size(); ++i) {
    const auto expected = static_cast<float>(shorts[i]);
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(widened[i]) : widened[i] == expected) << i;
  }
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const T expected(floats[i]);
    ASSERT_TRUE(std::isnan(floats[i]) ? std::isnan(static_cast<float>(rounded[i])) : rounded[i].bits() == expected.bits()) << floats[i];
  }
}

TEST_P(KitElementsTest, ShortFloatsAreTheSameOnEveryDevice) {
  Runtime runtime(options());
  const Operator<> convert = runtime.define("convert", R"(
    template <class T>
    DWELL_OPERATOR(convert)(dwell::Group g, dwell::Span<const T> shorts, dwell::Span<float> floats, dwell::Span<const float> in,
                            dwell::Span<T> out) {
      g.transform(floats, [](T a) { return a; }, shorts);
      for (auto i : g.range(out.size())) out[i] = in[i];
    })",
                                            {.instances = {"convert<dwell::half>", "convert<dwell::bfloat16>"}});
  expect_same_as_on_the_host<half>(runtime, convert.instance("convert<dwell::half>"));
  expect_same_as_on_the_host<bfloat16>(runtime, convert.instance("convert<dwell::bfloat16>"));
  auto x = runtime.allocate<bfloat16>(65536);
  auto y = runtime.allocate<float>(100'000);
  DWELL_EXPECT_ERROR(runtime.submit(convert, x, y, y, x), errc::signature_mismatch,
                     AllOf(HasSubstr("Span<const half>"), HasSubstr("Span<bfloat16>")));
}

TEST_P(KitElementsTest, OperatorsComputeInTypesBeyondCpp) {
  Runtime runtime(options());
  auto mix = runtime.define<void(half, Span<half>, Span<const bfloat16>, Span<complex<float>>, Span<complex<double>>)>("mix", R"(
    DWELL_OPERATOR(mix)(dwell::Group g, dwell::half a, dwell::Span<dwell::half> x, dwell::Span<const dwell::bfloat16> y,
                        dwell::Span<dwell::complex<float>> z, dwell::Span<dwell::complex<double>> w) {
      g.transform(x, [=](float b, float c) { return a * b + c; }, x, y);
      g.transform(z, [](dwell::complex<float> b) { return b * b + dwell::complex<float>(1, 2); }, z);
      g.transform(w, [](dwell::complex<double> b) { return dwell::complex<double>(1) / b - dwell::conj(b); }, w);
      const float sum = g.reduce(y, 0.0f, [](float b, float c) { return b + c; });
      g.sync();
      if (g.rank() == 0) x[0] = sum;
    })");
  constexpr std::size_t kSize = 1000;
  auto x = runtime.allocate<half>(kSize);
  auto y = runtime.allocate<bfloat16>(kSize);
  auto z = runtime.allocate<complex<float>>(kSize);
  auto w = runtime.allocate<complex<double>>(kSize);
  std::vector<half> halves(kSize);
  std::vector<bfloat16> bfloats(kSize);
  std::vector<complex<float>> pairs(kSize);
  std::vector<complex<double>> wide(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    halves[i] = static_cast<float>(i % 100);
    bfloats[i] = static_cast<float>(i % 8);
    pairs[i] = {static_cast<float>(i), -2};
    wide[i] = {1, static_cast<double>(i)};
  }
  x.write(halves);
  y.write(bfloats);
  z.write(pairs);
  w.write(wide);
  runtime.submit(mix, half(0.5F), x, y, z, w).wait();
  const std::vector<half> made = read(x);
  const std::vector<complex<float>> squares = read(z);
  const std::vector<complex<double>> quotients = read(w);
  EXPECT_EQ(made[0], 3500.0F);
  for (std::size_t i = 1; i < kSize; ++i) ASSERT_EQ(made[i], static_cast<float>(i % 100) / 2 + static_cast<float>(i % 8)) << i;
  for (std::size_t i = 0; i < kSize; ++i) {
    const auto number = static_cast<double>(i);
    ASSERT_EQ(squares[i], complex<float>(static_cast<float>(number * number - 3), static_cast<float>(2 - 4 * number))) << i;
    ASSERT_NEAR(quotients[i].real, 1 / (1 + number * number) - 1, 1e-12) << i;
    ASSERT_NEAR(quotients[i].imag, number - number / (1 + number * number), 1e-12 * (1 + number)) << i;
  }
}

}  // namespace
}  // namespace dwell::test
