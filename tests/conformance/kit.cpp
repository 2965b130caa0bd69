// The operator author's kit: a group's operations on spans.
#include <algorithm>
#include <numeric>
#include <tuple>
#include <type_traits>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class KitTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(KitTest);

// ---- Ranges and parts ----------------------------------------------------------------------------------------------------------

TEST_P(KitTest, RangeSuitsTheDevicesMemoryAccess) {
  Runtime runtime(options());
  auto note = runtime.define<void(u64, Span<u64>, Span<u64>)>("note", R"(
    DWELL_OPERATOR(note)(dwell::Group g, dwell::u64 n, dwell::Span<dwell::u64> first, dwell::Span<dwell::u64> strides) {
      dwell::u64 before = 0, count = 0;
      for (auto i : g.range(n)) {
        const dwell::u64 thread = dwell::u64(g.index()) * g.size() + g.rank();
        if (count == 0) first[thread] = i;
        if (count == 1) strides[thread] = i - before;
        if (count > 1 && i - before != strides[thread]) strides[thread] = 0;  // the strides of this thread differ
        before = i;
        ++count;
      }
    })");
  constexpr u64 kCount = 10'007;
  for (const u32 n : {1U, 3U, 16U}) {
    const u32 threads = on_cpu() ? n : 128 * n;
    auto first = filled<u64>(runtime, threads, 77);
    auto strides = filled<u64>(runtime, threads, 77);
    runtime.submit(note, kCount, first, strides, groups(n)).wait();
    std::vector<u64> expected(threads);
    // Blocks of 16, 32, ... elements; the larger ones come first.
    constexpr u64 kUnits = kCount / 16;
    for (u32 i = 0; i < threads; ++i) expected[i] = on_cpu() ? 16 * (i * (kUnits / n) + std::min<u64>(i, kUnits % n)) : i;
    EXPECT_EQ(read(first), expected) << n;
    EXPECT_THAT(read(strides), testing::Each(on_cpu() ? 1U : threads)) << n;
  }
}

TEST_P(KitTest, PartsCoverTheSpanOnceInBlocks) {
  Runtime runtime(options());
  auto touch = runtime.define<void(Span<u32>, Span<u64>)>("touch", R"(
    DWELL_OPERATOR(touch)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::Span<dwell::u64> sizes) {
      const auto part = g.part(x);
      for (auto i : g.alone().range(part.size())) part[i] += g.index() + 1;
      if (g.rank() == 0) sizes[g.index()] = part.size();
    })");
  for (const u32 size : {0U, 1U, 5U, 127U, 1792U, 10'000U})
    for (const u32 n : {1U, 2U, 7U, 39U, 300U}) {
      auto x = filled<u32>(runtime, size, 0);
      auto sizes = filled<u64>(runtime, n, 77);
      runtime.submit(touch, x, sizes, groups(n)).wait();
      const std::vector<u32> owners = read(x);
      EXPECT_TRUE(std::is_sorted(owners.begin(), owners.end())) << size << " by " << n;
      EXPECT_EQ(std::count(owners.begin(), owners.end(), 0U), 0) << size << " by " << n;
      const std::vector<u64> each = read(sizes);
      EXPECT_EQ(std::accumulate(each.begin(), each.end(), u64{0}), size);
      const bool in_units = size % n != 0 && size / n >= 256;
      EXPECT_LE(*std::max_element(each.begin(), each.end()) - *std::min_element(each.begin(), each.end()), in_units ? 16U : 1U)
          << size << " by " << n;
      if (in_units) {
        EXPECT_TRUE(std::all_of(each.begin(), each.end() - 1, [](u64 block) { return block % 16 == 0; })) << size << " by " << n;
      }
    }
}

// ---- transform -----------------------------------------------------------------------------------------------------------------

// 0, 1, 2, ... as elements, from `first`.
template <class T>
Buffer<T> counted(Runtime& runtime, std::size_t count, T first = 0) {
  Buffer<T> buffer = runtime.allocate<T>(count);
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  buffer.write(values);
  return buffer;
}

constexpr std::size_t kSizes[] = {0, 1, 3, 4, 5, 127, 128, 129, 511, 1000, 1023, 1024, 1025, 2047, 2048, 5000, 100'003};

TEST_P(KitTest, TransformComputesEachElementOnce) {
  Runtime runtime(options());
  auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>, Span<u32>)>("add", R"(
    DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float> y, dwell::Span<float> z,
                        dwell::Span<dwell::u32> calls) {
      g.transform(z, [=](float a, float b) {
        dwell::device::fetch_add<dwell::device::Order::relaxed>(&calls[0], 1u);
        return a + 2 * b;
      }, x, y);
    })");
  for (const std::size_t size : kSizes)
    for (const u32 n : {1U, 3U, 50U}) {
      auto x = counted<float>(runtime, size);
      auto y = counted<float>(runtime, size, 5);
      auto z = filled<float>(runtime, size + 1, -1);
      auto calls = filled<u32>(runtime, 1, 0);
      runtime.submit(add, x, y, z.slice(0, size), calls, groups(n)).wait();
      std::vector<float> expected(size + 1, -1);
      for (std::size_t i = 0; i < size; ++i) expected[i] = static_cast<float>(i) + 2 * (static_cast<float>(i) + 5);
      ASSERT_EQ(read(z), expected) << size << " by " << n;
      ASSERT_EQ(read(calls)[0], size);
    }
}

TEST_P(KitTest, TransformTakesSpansOfAnyAlignment) {
  Runtime runtime(options());
  auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", R"(
    DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float> y, dwell::Span<float> z) {
      g.transform(z, [](float a, float b) { return a + 2 * b; }, x, y);
    })");
  auto x = counted<float>(runtime, 3000);
  auto y = counted<float>(runtime, 3000, 7);
  for (const std::size_t size : {1U, 2U, 9U, 1000U, 1024U, 2500U})
    for (std::size_t to = 0; to < 5; ++to)
      for (std::size_t from = 0; from < 5; ++from)
        for (const std::size_t other : {std::size_t{0}, from}) {
          auto z = filled<float>(runtime, size + 8, -1);
          runtime.submit(add, x.slice(from, size), y.slice(other, size), z.slice(to, size)).wait();
          std::vector<float> expected(size + 8, -1);
          for (std::size_t i = 0; i < size; ++i) expected[to + i] = static_cast<float>(from + i) + 2 * static_cast<float>(other + i + 7);
          ASSERT_EQ(read(z), expected) << size << " elements at " << to << " from " << from << " and " << other;
        }
}

TEST_P(KitTest, TransformTakesAnyTypesAndNumbersOfInputs) {
  Runtime runtime(options());
  struct Triple {
    u32 a, b, c;
    bool operator==(const Triple&) const = default;
  };
  struct alignas(32) Large {
    u64 a[4];
    bool operator==(const Large&) const = default;
  };
  auto types = runtime.define("types", R"(
    struct Triple { dwell::u32 a, b, c; };
    struct alignas(32) Large { dwell::u64 a[4]; };
    DWELL_OPERATOR(types)(dwell::Group g, dwell::Span<const dwell::u8> bytes, dwell::Span<const dwell::u16> words,
                          dwell::Span<const double> doubles, dwell::Span<float> floats, dwell::Span<dwell::u64> sums,
                          dwell::Span<Triple> triples, dwell::Span<Large> larges, dwell::Span<dwell::u8> ones) {
      using namespace dwell;
      g.transform(floats, [](u8 a, double b) { return a + b; }, bytes, doubles);
      g.transform(sums, [](u8 a, u16 b, double c, u8 d, u16 e) { return a + 10 * b + 100 * static_cast<u64>(c) + d + e; }, bytes, words,
                  doubles, bytes, words);
      g.transform(triples, [](u8 a, u16 b, double c) { return Triple{a, b, static_cast<u32>(c)}; }, bytes, words, doubles);
      g.transform(larges, [](u16 a) { return Large{{a, 1, 2, 3}}; }, words);
      g.transform(ones, [] { return 1; });
      // A thread may replace elements that another one wrote.
      g.sync();
      g.transform(triples, [](Triple a) { return Triple{a.c, a.b, a.a + 1}; }, triples);
      g.transform(ones, [](u8 a, u8 b) { return static_cast<u8>(a + b); }, ones, bytes);
    })");
  for (const std::size_t size : {1U, 100U, 1024U, 5001U}) {
    std::vector<u8> bytes(size);
    std::vector<u16> words(size);
    std::vector<double> doubles(size);
    std::vector<float> floats(size);
    std::vector<u64> sums(size);
    std::vector<Triple> triples(size);
    std::vector<Large> larges(size);
    std::vector<u8> ones(size);
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<u8>(i * 7);
      words[i] = static_cast<u16>(i * 31);
      doubles[i] = static_cast<double>(i * 3);
      floats[i] = static_cast<float>(bytes[i] + doubles[i]);
      sums[i] = bytes[i] + 10U * words[i] + 100U * static_cast<u64>(doubles[i]) + bytes[i] + words[i];
      triples[i] = {static_cast<u32>(doubles[i]), words[i], bytes[i] + 1U};
      larges[i] = {{words[i], 1, 2, 3}};
      ones[i] = static_cast<u8>(bytes[i] + 1);
    }
    auto b = runtime.allocate<u8>(size);
    auto w = runtime.allocate<u16>(size);
    auto d = runtime.allocate<double>(size);
    b.write(bytes);
    w.write(words);
    d.write(doubles);
    auto f = runtime.allocate<float>(size);
    auto s = runtime.allocate<u64>(size);
    auto t = runtime.allocate<Triple>(size);
    auto l = runtime.allocate<Large>(size);
    auto o = runtime.allocate<u8>(size);
    runtime.submit(types, b, w, d, f, s, t, l, o).wait();
    EXPECT_EQ(read(f), floats);
    EXPECT_EQ(read(s), sums);
    EXPECT_EQ(read(t), triples);
    EXPECT_EQ(read(l), larges);
    EXPECT_EQ(read(o), ones);
  }
}

TEST_P(KitTest, TransformReplacesAnInputInPlace) {
  Runtime runtime(options());
  auto add = runtime.define<void(Span<const u32>, Span<u32>)>("add", R"(
    DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const dwell::u32> x, dwell::Span<dwell::u32> y) {
      g.transform(y, [](dwell::u32 a, dwell::u32 b, dwell::u32 c) { return a + 2 * b + c; }, x, y, y);
    })");
  for (const std::size_t size : kSizes)
    for (const u32 n : {1U, 5U}) {
      auto x = counted<u32>(runtime, size);
      auto y = counted<u32>(runtime, size, 9);
      runtime.submit(add, x, y, groups(n)).wait();
      std::vector<u32> expected(size);
      for (std::size_t i = 0; i < size; ++i) expected[i] = static_cast<u32>(i + 3 * (i + 9));
      ASSERT_EQ(read(y), expected) << size << " by " << n;
    }
}

TEST_P(KitTest, TransformOverPartOfAnInputReadsBeforeItWrites) {
  Runtime runtime(options());
  auto shift = runtime.define<void(Span<u32>, u64, u64, u64)>("shift", R"(
    DWELL_OPERATOR(shift)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u64 to, dwell::u64 from, dwell::u64 count) {
      g.transform(x.subspan(to, count), [](dwell::u32 a, dwell::u32 b) { return 3 * a + b; }, x.subspan(from, count),
                  x.subspan(to, count));
    })");
  // Elements of different widths in the same memory: `count` bytes from `from` become words.
  auto widen = runtime.define<void(Span<u32>, u64, u64, u64)>("widen", R"(
    DWELL_OPERATOR(widen)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u64 to, dwell::u64 from, dwell::u64 count) {
      const dwell::Span<dwell::u8> bytes(reinterpret_cast<dwell::u8*>(x.data()) + from, count);
      g.transform(x.subspan(to, count), [](dwell::u8 a) { return a + 1000; }, bytes);
    })");
  auto narrow = runtime.define<void(Span<u32>, u64, u64, u64)>("narrow", R"(
    DWELL_OPERATOR(narrow)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u64 to, dwell::u64 from, dwell::u64 count) {
      const dwell::Span<dwell::u8> bytes(reinterpret_cast<dwell::u8*>(x.data()) + to, count);
      g.transform(bytes, [](dwell::u32 a) { return static_cast<dwell::u8>(a * 3); }, x.subspan(from, count));
    })");
  for (const u64 count : {1U, 2U, 4U, 100U, 128U, 129U, 1024U, 3000U})
    for (const auto& [to, from] : {std::pair<u64, u64>{0, 1}, {1, 0}, {0, 4}, {4, 0}, {3, 100}, {100, 3}, {0, 128}, {129, 0}}) {
      auto x = counted<u32>(runtime, 4000);
      std::vector<u32> expected = read(x);
      const std::vector<u32> before = expected;
      runtime.submit(shift, x, to, from, count).wait();
      for (std::size_t i = 0; i < count; ++i) expected[to + i] = 3 * before[from + i] + before[to + i];
      ASSERT_EQ(read(x), expected) << count << " elements at " << to << " from " << from;
    }
  for (const u64 count : {1U, 2U, 3U, 100U, 200U, 700U})
    for (const auto& [to, from] : {std::pair<u64, u64>{0, 0}, {0, 1}, {1, 0}, {1, 4}, {0, 300}, {0, 3000}}) {
      auto x = counted<u32>(runtime, 1000);
      const std::vector<u32> before = read(x);
      {
        const auto* const bytes = reinterpret_cast<const u8*>(before.data());
        std::vector<u32> expected = before;
        for (std::size_t i = 0; i < count; ++i) expected[to + i] = bytes[from + i] + 1000U;
        // Bytes beyond the first word must be processed backwards, those before it forwards; both at once is an overlap.
        const Ticket ticket = runtime.submit(widen, x, to, from, count);
        if (ticket.status() == status::overlap) expected = before;
        ASSERT_EQ(ticket.status() == status::overlap, count > 1 && 4 * to + 4 < from + 1 && 4 * (to + count - 1) > from + count - 1 &&
                                                          from < 4 * (to + count) && 4 * to < from + count)
            << count << " words at " << to << " from byte " << from;
        ASSERT_EQ(read(x), expected) << count << " words at " << to << " from byte " << from;
      }
      x.write(before);
      {
        std::vector<u32> expected = before;
        auto* const bytes = reinterpret_cast<u8*>(expected.data());
        for (std::size_t i = 0; i < count; ++i) bytes[to + i] = static_cast<u8>(before[(from + i) % 1000] * 3);
        if (from + count > 1000) continue;
        ASSERT_EQ(runtime.submit(narrow, x, to, from, count).status(), status::ok);
        ASSERT_EQ(read(x), expected) << count << " bytes at " << to << " from word " << from;
      }
    }
}

TEST_P(KitTest, ATransformOverItsOwnOutputFailsTheTask) {
  Runtime runtime(options());
  auto blur = runtime.define<void(Span<u32>, u64)>("blur", R"(
    DWELL_OPERATOR(blur)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u64 count) {
      g.transform(x.subspan(1, count), [](dwell::u32 a, dwell::u32 b) { return a + b; }, x.subspan(0, count), x.subspan(2, count));
    })");
  auto shift = runtime.define<void(Span<u32>, u64)>("shift", R"(
    DWELL_OPERATOR(shift)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u64 count) {
      g.transform(x.subspan(0, count), [](dwell::u32 a) { return a; }, x.subspan(1, count));
    })");
  auto x = counted<u32>(runtime, 1002);
  const std::vector<u32> before = read(x);
  const Ticket both_sides = runtime.submit(blur, x, u64{1000});
  DWELL_EXPECT_ERROR(both_sides.wait(), errc::task_failed, AllOf(HasSubstr("blur (version 1)"), HasSubstr("overlap")));
  EXPECT_EQ(both_sides.status(), status::overlap);
  EXPECT_EQ(runtime.submit(shift, x, u64{1000}, groups(2)).status(), status::overlap) << "groups run in any order";
  EXPECT_EQ(read(x), before);
  EXPECT_EQ(runtime.submit(blur, x, u64{1}).status(), status::ok) << "a single element overwrites none but its own";
}

// ---- reduce and scan -----------------------------------------------------------------------------------------------------------

TEST_P(KitTest, ReduceCombinesAllElementsOfASpanInEachGroup) {
  Runtime runtime(options());
  auto reduce = runtime.define<void(Span<const u32>, Span<const u8>, Span<u64>)>("reduce", R"(
    DWELL_OPERATOR(reduce)(dwell::Group g, dwell::Span<const dwell::u32> x, dwell::Span<const dwell::u8> bytes,
                           dwell::Span<dwell::u64> out) {
      using namespace dwell;
      const u64 sum = g.reduce(x, u64(7), [](u64 a, u64 b) { return a + b; });
      const u32 most = g.reduce(x, 5u, [](u32 a, u32 b) { return a < b ? b : a; });
      const u32 all = g.reduce(bytes, 3u, [](u32 a, u32 b) { return a + b; });
      // All threads must get the same results.
      const u32 agree = g.sum(sum == out[3] && most == out[4] && all == out[5] ? 1u : 0u);
      if (g.rank() == g.size() - 1) {
        out[8 * g.index() + 8] = sum;
        out[8 * g.index() + 9] = most;
        out[8 * g.index() + 10] = all;
        out[8 * g.index() + 11] = agree == g.size();
      }
    })");
  constexpr u32 kGroups = 3;
  Random random(2);
  std::vector<u32> numbers(100'010);
  for (u32& number : numbers) number = random();
  std::vector<u8> small(numbers.size());
  for (std::size_t i = 0; i < small.size(); ++i) small[i] = static_cast<u8>(numbers[i]);
  auto x = runtime.allocate<u32>(numbers.size());
  x.write(numbers);
  auto bytes = runtime.allocate<u8>(small.size());
  bytes.write(small);
  for (const std::size_t size : kSizes)
    for (const std::size_t first : {0U, 1U, 3U}) {
      u64 sum = 7;
      u64 most = 5;
      u64 all = 3;
      for (std::size_t i = first; i < first + size; ++i) {
        sum += numbers[i];
        most = std::max<u64>(most, numbers[i]);
        all += small[i];
      }
      std::vector<u64> start(8 + 8 * kGroups);
      start[3] = sum;
      start[4] = most;
      start[5] = all;
      auto out = runtime.allocate<u64>(start.size());
      out.write(start);
      runtime.submit(reduce, x.slice(first, size), bytes.slice(first, size), out, groups(kGroups)).wait();
      const std::vector<u64> result = read(out);
      for (u32 group = 0; group < kGroups; ++group) {
        const u64* const at = &result[8 + 8 * group];
        ASSERT_EQ(std::vector<u64>(at, at + 4), (std::vector<u64>{sum, most, all, 1})) << size << " from " << first;
      }
    }
}

TEST_P(KitTest, TheOrderOfReduceDependsOnTheNumberOfElementsOnly) {
  Runtime runtime(options());
  auto rounding = runtime.define<void(Span<const float>, Span<float>)>("rounding", R"(
    DWELL_OPERATOR(rounding)(dwell::Group g, dwell::Span<const float> x, dwell::Span<float> out) {
      const float sum = g.reduce(x, 0.0f, [](float a, float b) { return a + b; });
      if (g.rank() == 0) out[g.index()] = sum;
    })");
  // Magnitudes so different that another order gives another sum.
  std::vector<float> numbers(5001);
  Random random(1);
  for (float& number : numbers) number = static_cast<float>(random() % 1000 + 1) * (random() % 2 == 0 ? 1.0e-3F : 1.0e6F);
  float expected = 0;
  for (const std::size_t first : {0U, 1U, 2U, 3U, 4U}) {
    auto x = runtime.allocate<float>(numbers.size() + first);
    x.write(numbers, first);
    auto out = filled<float>(runtime, 20, 0);
    runtime.submit(rounding, x.slice(first, numbers.size()), out, groups(20)).wait();
    const std::vector<float> sums = read(out);
    if (first == 0) expected = sums[0];
    ASSERT_THAT(sums, testing::Each(expected)) << first;
    ASSERT_GT(expected, 0.0F);
  }
}

// Maps x to a * x + b. Composition depends on the order.
struct Affine {
  u32 a;
  u32 b;
  bool operator==(const Affine&) const = default;
};
Affine then(const Affine& first, const Affine& second) { return {first.a * second.a, first.b * second.a + second.b}; }

constexpr const char* kScan = R"(
struct Affine { dwell::u32 a; dwell::u32 b; };
DWELL_OPERATOR(scan)(dwell::Group g, bool inclusive, dwell::Span<const Affine> in, dwell::Span<Affine> out, dwell::Span<Affine> total) {
  const auto then = [](Affine f, Affine s) { return Affine{f.a * s.a, f.b * s.a + s.b}; };
  const Affine all = inclusive ? g.inclusive_scan(out, in, Affine{3, 4}, then) : g.exclusive_scan(out, in, Affine{3, 4}, then);
  if (g.rank() == g.size() - 1) total[g.index()] = all;
})";
using Scan = void(bool, Span<const Affine>, Span<Affine>, Span<Affine>);

TEST_P(KitTest, ScansCombineInOrder) {
  Runtime runtime(options());
  auto scan = runtime.define<Scan>("scan", kScan);
  std::vector<Affine> maps(100'020);
  for (u32 i = 0; i < maps.size(); ++i) maps[i] = {2 * i + 1, 77 * i + 3};
  for (const std::size_t size : kSizes)
    for (const bool inclusive : {true, false})
      // Another span, the input itself, and one that begins before the input.
      for (const auto& [first, to, in_place] :
           {std::tuple<std::size_t, std::size_t, bool>{0, 0, false}, {1, 2, false}, {0, 0, true}, {1, 0, true}, {9, 2, true}}) {
        auto in = runtime.allocate<Affine>(maps.size());
        in.write(maps);
        auto out = runtime.allocate<Affine>(size + 10);
        auto total = runtime.allocate<Affine>(1);
        std::vector<Affine> expected(size);
        Affine all{3, 4};
        for (std::size_t i = 0; i < size; ++i) {
          const Affine before = all;
          all = then(all, maps[first + i]);
          expected[i] = inclusive ? all : before;
        }
        const auto target = in_place ? in.slice(to, size) : out.slice(to, size);
        runtime.submit(scan, inclusive, in.slice(first, size), target, total).wait();
        std::vector<Affine> result(size);
        (in_place ? in : out).read(result, to);
        ASSERT_EQ(result, expected) << size << " from " << first << " to " << to << (in_place ? " in place" : "");
        ASSERT_EQ(read(total)[0], all) << size;
      }
}

TEST_P(KitTest, ScansConvertAndKeepToTheirGroup) {
  Runtime runtime(options());
  auto scan = runtime.define<void(Span<const u8>, Span<u64>)>("scan", R"(
    DWELL_OPERATOR(scan)(dwell::Group g, dwell::Span<const dwell::u8> in, dwell::Span<dwell::u64> out) {
      const auto row = g.part(out);
      const auto from = g.part(in);
      g.exclusive_scan(row, from, 10u, [](dwell::u32 a, dwell::u32 b) { return a + b; });
    })");
  constexpr std::size_t kRow = 777;
  constexpr u32 kRows = 13;
  auto in = filled<u8>(runtime, kRow * kRows, 200);
  auto out = runtime.allocate<u64>(kRow * kRows);
  runtime.submit(scan, in, out, groups(kRows)).wait();
  const std::vector<u64> result = read(out);
  for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 10 + 200 * (i % kRow)) << i;
}

TEST_P(KitTest, AScanOverItsOwnOutputFailsTheTask) {
  Runtime runtime(options());
  auto scan = runtime.define<Scan>("scan", kScan);
  auto in = runtime.allocate<Affine>(1000);
  const std::vector<Affine> before(1000, Affine{1, 2});
  in.write(before);
  auto total = runtime.allocate<Affine>(1);
  EXPECT_EQ(runtime.submit(scan, true, in.slice(0, 900), in.slice(1, 900), total).status(), status::overlap);
  EXPECT_EQ(read(in), before);
}

// ---- copy ----------------------------------------------------------------------------------------------------------------------

TEST_P(KitTest, CopyMovesElementsOfAnyType) {
  Runtime runtime(options());
  auto copy = runtime.define<void(Span<const u32>, Span<u32>, u64)>("copy", R"(
    struct Twelve { dwell::u32 word[3]; };
    struct Three { dwell::u8 byte[3]; };
    template <class T>
    dwell::Span<T> as(dwell::Span<dwell::u32> x, dwell::u64 from, dwell::u64 count) {
      return dwell::Span<T>(reinterpret_cast<T*>(x.data()) + from, count);
    }
    DWELL_OPERATOR(copy)(dwell::Group g, dwell::Span<const dwell::u32> in, dwell::Span<dwell::u32> out, dwell::u64 count) {
      const dwell::Span<dwell::u32> from(const_cast<dwell::u32*>(in.data()), in.size());
      g.copy(as<dwell::u32>(out, 0, count), in);
      g.copy(as<dwell::u8>(out, 12'005, count), as<dwell::u8>(from, 2, count));
      g.copy(as<Twelve>(out, 2000, count), as<Twelve>(from, 1, count));
      g.copy(as<Three>(out, 16'000, count), as<Three>(from, 5, count));
    })");
  std::vector<u32> numbers(4000);
  for (u32 i = 0; i < numbers.size(); ++i) numbers[i] = i * 2654435761U;
  auto in = runtime.allocate<u32>(numbers.size());
  in.write(numbers);
  for (const u64 count : {0U, 1U, 5U, 100U, 1000U, 1024U})
    for (const u32 n : {1U, 4U}) {
      auto out = filled<u32>(runtime, 13'000, 1);
      std::vector<u32> expected(13'000, 1);
      auto* const to = reinterpret_cast<u8*>(expected.data());
      const auto* const from = reinterpret_cast<const u8*>(numbers.data());
      std::copy_n(from, 4 * count, to);
      std::copy_n(from + 2, count, to + 12'005);
      std::copy_n(from + 12, 12 * count, to + 24'000);
      std::copy_n(from + 15, 3 * count, to + 48'000);
      runtime.submit(copy, in, out, count, groups(n)).wait();
      ASSERT_EQ(read(out), expected) << count << " by " << n;
    }
}

TEST_P(KitTest, CopyWithinASpanActsLikeMemmove) {
  Runtime runtime(options());
  auto move = runtime.define<void(Span<u8>, u64, u64, u64)>("move", R"(
    DWELL_OPERATOR(move)(dwell::Group g, dwell::Span<dwell::u8> x, dwell::u64 to, dwell::u64 from, dwell::u64 count) {
      g.copy(x.subspan(to, count), x.subspan(from, count));
    })");
  std::vector<u8> before(5000);
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<u8>(i * 31 >> 2U);
  auto x = runtime.allocate<u8>(before.size());
  for (const u64 count : {1U, 5U, 100U, 1000U, 4000U})
    for (const u64 to : {0U, 1U, 16U, 100U})
      for (const u64 from : {0U, 1U, 17U, 100U}) {
        std::vector<u8> expected = before;
        std::copy_n(before.begin() + static_cast<long>(from), count, expected.begin() + static_cast<long>(to));
        x.write(before);
        runtime.submit(move, x, to, from, count).wait();
        ASSERT_EQ(read(x), expected) << count << " from " << from << " to " << to;
      }
  EXPECT_EQ(runtime.submit(move, x, u64{1}, u64{0}, u64{4000}, groups(2)).status(), status::overlap);
}

}  // namespace
}  // namespace dwell::test
