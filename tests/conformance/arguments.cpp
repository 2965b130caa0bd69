// Arguments of tasks: all kinds and sizes, and refusals.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class ArgumentsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(ArgumentsTest);

TEST_P(ArgumentsTest, EveryScalarArrives) {
  Runtime runtime(options());
  auto scalars = runtime.define<void(bool, bool, char, i8, u8, i16, u16, i32, u32, i64, u64, float, double, Span<double>)>("scalars", R"(
    DWELL_OPERATOR(scalars)(dwell::Group g, bool yes, bool no, char c, dwell::i8 i8, dwell::u8 u8, dwell::i16 i16, dwell::u16 u16, dwell::i32 i32,
                            dwell::u32 u32, dwell::i64 i64, dwell::u64 u64, float f, double d, dwell::Span<double> out) {
      if (g.rank() != 0) return;
      const double all[] = {yes ? 1.0 : 0.0, no ? 1.0 : 0.0, double(c), double(i8), double(u8), double(i16), double(u16), double(i32), double(u32),
                            double(i64 >> 20), double(u64 >> 20), double(f), d};
      for (int i = 0; i < 13; ++i) out[i] = all[i];
    })");
  auto out = runtime.allocate<double>(13);
  runtime.submit(scalars, true, false, 'x', static_cast<i8>(-100), static_cast<u8>(200), static_cast<i16>(-30000), static_cast<u16>(60000),
                 -2'000'000'000, 4'000'000'000U, -(9LL << 58), 11ULL << 59, 0.1F, 0.1, out);
  EXPECT_THAT(read(out), testing::ElementsAre(1.0, 0.0, 120.0, -100.0, 200.0, -30000.0, 60000.0, -2e9, 4e9, -static_cast<double>(9LL << 38),
                                              static_cast<double>(11ULL << 39), static_cast<double>(0.1F), 0.1));
  EXPECT_EQ(scalars.signature().text(), "(bool, bool, i8, i8, u8, i16, u16, i32, u32, i64, u64, float, double, Span<double>)");
}

TEST_P(ArgumentsTest, SpansOfEveryElementArrive) {
  struct Pair {
    u16 a;
    u8 b;
  };
  Runtime runtime(options());
  auto spans = runtime.define<void(Span<bool>, Span<i8>, Span<u8>, Span<i16>, Span<u16>, Span<i32>, Span<u32>, Span<i64>, Span<u64>,
                                   Span<float>, Span<double>, Span<Pair>)>("spans", R"(
    struct Pair { dwell::u16 a; dwell::u8 b; };
    template <class T> void bump(dwell::Group g, dwell::Span<T> x) { for (auto i : g.range(x.size())) x[i] = x[i] + 1; }
    DWELL_OPERATOR(spans)(dwell::Group g, dwell::Span<bool> b, dwell::Span<dwell::i8> i8, dwell::Span<dwell::u8> u8, dwell::Span<dwell::i16> i16,
                          dwell::Span<dwell::u16> u16, dwell::Span<dwell::i32> i32, dwell::Span<dwell::u32> u32, dwell::Span<dwell::i64> i64,
                          dwell::Span<dwell::u64> u64, dwell::Span<float> f, dwell::Span<double> d, dwell::Span<Pair> p) {
      for (auto i : g.range(b.size())) b[i] = !b[i];
      bump(g, i8); bump(g, u8); bump(g, i16); bump(g, u16); bump(g, i32); bump(g, u32); bump(g, i64); bump(g, u64); bump(g, f); bump(g, d);
      for (auto i : g.range(p.size())) { p[i].a += 1; p[i].b += 2; }
    })");
  const auto pairs = runtime.define<void(Span<Pair>)>("pairs", R"(
    struct Pair { dwell::u16 a; dwell::u8 b; };
    DWELL_OPERATOR(pairs)(dwell::Group, dwell::Span<Pair>) {})");
  EXPECT_EQ(pairs.signature().text(), "(Span<struct of 4 bytes>)");

  auto b = runtime.allocate<bool>(5);
  const bool no[5] = {};
  b.write(no);
  auto i8s = filled<i8>(runtime, 5, -5);
  auto u8s = filled<u8>(runtime, 5, 250);
  auto i16s = filled<i16>(runtime, 5, -300);
  auto u16s = filled<u16>(runtime, 5, 65000);
  auto i32s = filled<i32>(runtime, 5, -70000);
  auto u32s = filled<u32>(runtime, 5, 4'000'000'000U);
  auto i64s = filled<i64>(runtime, 5, -(1LL << 40));
  auto u64s = filled<u64>(runtime, 5, 1ULL << 63);
  auto floats = filled<float>(runtime, 5, 0.5F);
  auto doubles = filled<double>(runtime, 300, 0.25);
  auto p = filled<Pair>(runtime, 5, Pair{7, 9});
  runtime.submit(spans, b, i8s, u8s, i16s, u16s, i32s, u32s, i64s, u64s, floats, doubles, p).wait();

  bool yes[5] = {};
  b.read(yes);
  EXPECT_THAT(yes, testing::Each(true));
  EXPECT_THAT(read(i8s), testing::Each(-4));
  EXPECT_THAT(read(u8s), testing::Each(251));
  EXPECT_THAT(read(i16s), testing::Each(-299));
  EXPECT_THAT(read(u16s), testing::Each(65001));
  EXPECT_THAT(read(i32s), testing::Each(-69999));
  EXPECT_THAT(read(u32s), testing::Each(4'000'000'001U));
  EXPECT_THAT(read(i64s), testing::Each(1 - (1LL << 40)));
  EXPECT_THAT(read(u64s), testing::Each((1ULL << 63) + 1));
  EXPECT_THAT(read(floats), testing::Each(1.5F));
  EXPECT_THAT(read(doubles), testing::Each(1.25));
  for (const Pair& pair : read(p)) EXPECT_TRUE(pair.a == 8 && pair.b == 11);
}

template <std::size_t N>
struct Blob {
  u8 byte[N];
};

// Sums the bytes of a struct, weighted by their index.
template <std::size_t N>
std::string blob_source(const char* type = "Blob") {
  const std::string n = std::to_string(N);
  return "struct Blob { dwell::u8 byte[" + n + "]; };\nDWELL_OPERATOR(blob" + n + ")(dwell::Group g, dwell::Span<dwell::u32> out, " + type +
         " blob) {\n"
         "  dwell::u32 sum = 0;\n"
         "  for (int i = 0; i < " +
         n +
         "; ++i) sum += (i + 1) * blob.byte[i];\n"
         "  if (g.rank() == 0 && g.index() == 0) out[0] = sum;\n}\n";
}

template <std::size_t N>
void send_blob(Runtime& runtime, const char* type = "Blob") {
  auto op = runtime.define<void(Span<u32>, Blob<N>)>("blob" + std::to_string(N), blob_source<N>(type));
  Blob<N> blob;
  u32 sum = 0;
  for (u32 i = 0; i < N; ++i) {
    blob.byte[i] = static_cast<u8>(i * 37 + 11);
    sum += (i + 1) * blob.byte[i];
  }
  auto out = runtime.allocate<u32>(1);
  runtime.submit(op, out, blob);
  EXPECT_EQ(read(out)[0], sum) << N;
}

TEST_P(ArgumentsTest, StructsOfEverySizeArriveByValue) {
  Runtime runtime(options());
  send_blob<1>(runtime);
  send_blob<3>(runtime);
  send_blob<24>(runtime);  // fills one slot: 3 words of header, 3 of span, 6 of struct
  send_blob<25>(runtime);  // needs a second slot
  send_blob<359>(runtime);
  send_blob<360>(runtime);  // 372 bytes with the span: the most that fits into the ring
  send_blob<361>(runtime);
  send_blob<500>(runtime);
  send_blob<501>(runtime);  // 516 bytes with the span
  send_blob<4000>(runtime);
  if (on_cpu()) send_blob<65524>(runtime);  // 64 KiB with the span: the maximum; a GPU has no stack for it
}

TEST_P(ArgumentsTest, StructsOfEverySizeArriveByReference) {
  Runtime runtime(options());
  send_blob<1>(runtime, "const Blob&");
  send_blob<25>(runtime, "const Blob&");
  send_blob<360>(runtime, "const Blob&");
  send_blob<361>(runtime, "const Blob&");
  send_blob<65524>(runtime, "const Blob&");  // needs no stack
}

TEST_P(ArgumentsTest, AStructWithPaddingAndAlignmentArrives) {
  struct Mixed {
    char a;
    double b;
    u16 c[3];
    bool d;
  };
  Runtime runtime(options());
  auto op = runtime.define<void(u8, Mixed, Span<double>)>("mixed", R"(
    struct Mixed { char a; double b; dwell::u16 c[3]; bool d; };
    DWELL_OPERATOR(mixed)(dwell::Group g, dwell::u8 shift, Mixed m, dwell::Span<double> out) {
      if (g.rank() == 0) out[0] = m.a + m.b + m.c[0] + m.c[1] + m.c[2] + (m.d ? shift : 0);
    })");
  auto out = runtime.allocate<double>(1);
  runtime.submit(op, static_cast<u8>(200), Mixed{'a', 0.5, {1, 20, 300}, true}, out);
  EXPECT_EQ(read(out)[0], 97 + 0.5 + 321 + 200);
}

TEST_P(ArgumentsTest, TooManyBytesAreRefused) {
  Runtime runtime(options());
  // Never runs: only its signature matters.
  auto op = runtime.define("op",
                           "struct Half { dwell::u8 byte[32768]; };\n"
                           "DWELL_OPERATOR(op)(dwell::Group, dwell::Span<dwell::u32>, Half, Half) {}");
  auto out = runtime.allocate<u32>(1);
  auto half = std::make_unique<Blob<32768>>();
  DWELL_EXPECT_ERROR(runtime.submit(op, out, *half, *half), errc::invalid_argument, HasSubstr("65536 bytes"));
  DWELL_EXPECT_ERROR(runtime.try_submit(op, out, *half, *half), errc::invalid_argument, HasSubstr("65536 bytes"));
  const auto each = [&](std::size_t, auto&& put) { put(out, *half, *half); };
  DWELL_EXPECT_ERROR(runtime.submit_many(op, 2, each), errc::invalid_argument, HasSubstr("65536 bytes"));
  DWELL_EXPECT_ERROR(Arguments().add(out).add(*half).add(*half), errc::invalid_argument, HasSubstr("65536 bytes"));
  // Refusals leave nothing behind.
  runtime.wait_all();
  EXPECT_EQ(runtime.metrics().submitted, 0U);
}

TEST_P(ArgumentsTest, ThirtyParametersArrive) {
  Runtime runtime(options());
  std::string parameters;
  std::string sum;
  for (int i = 0; i < 29; ++i) {
    parameters += ", dwell::u32 p" + std::to_string(i);
    sum += " + " + std::to_string(i + 1) + " * p" + std::to_string(i);
  }
  Operator<> op = runtime.define("thirty", "DWELL_OPERATOR(thirty)(dwell::Group g, dwell::Span<dwell::u32> out" + parameters +
                                               ") { if (g.rank() == 0) out[0] = 0" + sum + "; }");
  auto out = runtime.allocate<u32>(1);
  Arguments arguments;
  arguments.add(out);
  u32 expected = 0;
  for (u32 i = 0; i < 29; ++i) {
    arguments.add(1000 * i + 7);
    expected += (i + 1) * (1000 * i + 7);
  }
  runtime.submit(op, arguments);
  EXPECT_EQ(read(out)[0], expected);
}

TEST_P(ArgumentsTest, ThirtyBuffersArriveAndMoreAreRefused) {
  Runtime runtime(options());
  std::string parameters;
  std::string body;
  for (int i = 0; i < 30; ++i) {
    const std::string p = "p" + std::to_string(i);
    parameters += ", dwell::Span<dwell::u32> " + p;
    body += p + "[0] += " + std::to_string(i) + ";\n";
  }
  Operator<> op =
      runtime.define("buffers", "DWELL_OPERATOR(buffers)(dwell::Group g" + parameters + ") { if (g.rank() != 0) return;\n" + body + "}");
  std::vector<Buffer<u32>> buffers;
  Arguments arguments;
  for (int i = 0; i < 30; ++i) {
    buffers.push_back(filled<u32>(runtime, 1, 100));
    arguments.add(buffers.back());
  }
  runtime.submit(op, arguments).wait();
  for (u32 i = 0; i < 30; ++i) EXPECT_EQ(read(buffers[i])[0], 100 + i);
  // One more argument can be collected, but no operator takes it.
  try {
    arguments.add(buffers.front());
    runtime.submit(op, arguments);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == errc::invalid_argument || error.kind() == errc::signature_mismatch) << error.what();
  }
}

template <std::size_t N>
u32 weighed(const Blob<N>& blob) {
  u32 sum = 0;
  for (u32 i = 0; i < N; ++i) sum += (i + 1) * blob.byte[i];
  return sum;
}

TEST_P(ArgumentsTest, ManyTasksWithLongArgumentsAreInFlight) {
  // More than the blocks of this size, so that all are reused many times, with every way to submit.
  constexpr u32 kTasks = kSanitized ? 3000 : 12000;
  constexpr std::size_t kBytes = 1500;
  Runtime runtime(options());
  const Operator<> op = runtime.define("blob1500", blob_source<kBytes>());
  const Operator<void(Span<u32>, Blob<kBytes>)> typed(op);
  auto out = filled<u32>(runtime, kTasks, 0);
  Random random(5);
  std::vector<u32> expected(kTasks);
  const auto blob_for = [&](u32 task) {
    Blob<kBytes> blob;
    for (u8& byte : blob.byte) byte = static_cast<u8>(random());
    expected[task] = weighed(blob);
    return blob;
  };
  for (u32 task = 0; task < kTasks;) {
    switch (random() % 4) {
      case 0: runtime.submit(typed, out.slice(task, 1), blob_for(task), groups(random() % 5 + 1)); break;
      case 1:
        while (!runtime.try_submit(typed, out.slice(task, 1), blob_for(task))) {}
        break;
      case 2: runtime.submit(op, Arguments().add(out.slice(task, 1)).add(blob_for(task)).add(link)); break;
      default: {
        const u32 many = std::min(5U, kTasks - task);
        runtime.submit_many(typed, many, [&](std::size_t i, auto&& put) {
          const u32 at = task + static_cast<u32>(i);
          put(out.slice(at, 1), blob_for(at));
        });
        task += many - 1;
      }
    }
    ++task;
  }
  const std::vector<u32> result = read(out);  // waits, although the ring itself does not name the buffer
  for (u32 task = 0; task < kTasks; ++task) ASSERT_EQ(result[task], expected[task]) << task;
}

TEST_P(ArgumentsTest, BuffersNamedInLongArgumentsAreKeptAndWaitedFor) {
  Runtime runtime(options());
  auto op = runtime.define<void(u64, Span<const u32>, Span<u32>, Blob<800>)>("slow_copy", R"(
    struct Blob { dwell::u8 byte[800]; };
    DWELL_OPERATOR(slow_copy)(dwell::Group g, dwell::u64 ns, dwell::Span<const dwell::u32> from, dwell::Span<dwell::u32> to, Blob blob) {
      const dwell::u64 start = dwell::device::now_ns();
      while (dwell::device::now_ns() - start < ns) {}
      g.sync();
      for (auto i : g.range(to.size())) to[i] = from[i] + blob.byte[799];
    })");
  Blob<800> blob{};
  blob.byte[799] = 3;
  auto to = filled<u32>(runtime, 100, 0);
  for (u32 turn = 0; turn < 20; ++turn) {
    auto from = filled<u32>(runtime, 100, turn);
    runtime.submit(op, 1'000'000ULL, from, to, blob);
    if (turn % 2 == 0) from.write(std::vector<u32>(100, 99));
    from = filled<u32>(runtime, 100, 77);
    ASSERT_THAT(read(to), testing::Each(turn + 3)) << turn;
  }
}

// A payload of `words` words, to fill a given number of slots.
std::string payload_source(u32 words) {
  const std::string n = std::to_string(words);
  return "struct Payload { dwell::u32 word[" + n + "]; };\n" + "DWELL_OPERATOR(payload" + n +
         ")(dwell::Group g, dwell::Span<dwell::u32> out, dwell::u32 at, Payload payload) {\n"
         "  dwell::u32 sum = 0;\n"
         "  for (int i = 0; i < " +
         n +
         "; ++i) sum = sum * 31 + payload.word[i];\n"
         "  if (g.rank() == 0) out[at] = sum;\n}\n";
}

TEST_P(ArgumentsTest, TasksOfEveryLengthCrossWindowsAndTheRingsEnd) {
  // One task size for each slot count from 1 to 8; a ring of two windows meets every start and every padding.
  constexpr u32 kTasks = kSanitized ? 1500 : 4000;
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  std::vector<Operator<>> ops;
  std::vector<u32> sizes;
  for (u32 slots = 1; slots <= 8; ++slots) {
    sizes.push_back(slots * 12 - 7);
    ops.push_back(runtime.define("payload" + std::to_string(sizes.back()), payload_source(sizes.back())));
  }
  auto out = filled<u32>(runtime, kTasks, 0);
  Random random(1);
  std::vector<u32> expected(kTasks);
  for (u32 task = 0; task < kTasks; ++task) {
    const std::size_t kind = task % 200 < 100 ? random() % 8 : 7 - task % 8;
    Arguments arguments;
    arguments.add(out).add(task);
    // One struct argument of sizes[kind] words.
    std::vector<u32> words(sizes[kind]);
    for (u32& word : words) {
      word = random();
      expected[task] = expected[task] * 31 + word;
    }
    const auto put = [&]<std::size_t N>(std::integral_constant<std::size_t, N>) {
      Blob<N> blob;
      std::memcpy(&blob, words.data(), N);
      arguments.add(blob);
    };
    switch (kind) {
      case 0: put(std::integral_constant<std::size_t, 20>()); break;
      case 1: put(std::integral_constant<std::size_t, 68>()); break;
      case 2: put(std::integral_constant<std::size_t, 116>()); break;
      case 3: put(std::integral_constant<std::size_t, 164>()); break;
      case 4: put(std::integral_constant<std::size_t, 212>()); break;
      case 5: put(std::integral_constant<std::size_t, 260>()); break;
      case 6: put(std::integral_constant<std::size_t, 308>()); break;
      default: put(std::integral_constant<std::size_t, 356>()); break;
    }
    if (task % 97 == 0) arguments.add(link);
    if (task % 211 == 0) arguments.add(drain);
    runtime.submit(ops[kind], arguments);
  }
  const std::vector<u32> result = read(out);
  for (u32 task = 0; task < kTasks; ++task) ASSERT_EQ(result[task], expected[task]) << task;
}

TEST_P(ArgumentsTest, ArgumentsOfOtherTypesAreRefused) {
  Runtime runtime(options());
  Operator<> op = runtime.define("op", "DWELL_OPERATOR(op)(dwell::Group, float, dwell::Span<const float>, dwell::Span<float>) {}");
  auto floats = runtime.allocate<float>(1);
  auto doubles = runtime.allocate<double>(1);
  const Span<const float> reading(floats.data(), 1);
  runtime.submit(op, 1.0F, floats, floats).wait();
  runtime.submit(op, 1.0F, reading, floats).wait();
  const std::string takes = "(float, Span<const float>, Span<float>)";
  DWELL_EXPECT_ERROR(runtime.submit(op), errc::signature_mismatch,
                     AllOf(HasSubstr("'op'"), HasSubstr(takes), HasSubstr("3 arguments are needed, 0")));
  DWELL_EXPECT_ERROR_FIELDS(runtime.submit(op), errc::signature_mismatch, "operator", "op", 0, 3);
  DWELL_EXPECT_ERROR_FIELDS(runtime.submit(op, 1.0F, floats), errc::signature_mismatch, "operator", "op", 2, 3);
  DWELL_EXPECT_ERROR_FIELDS(runtime.submit(op, 1.0F, floats, floats, 2), errc::signature_mismatch, "operator", "op", 4, 3);
  DWELL_EXPECT_ERROR(runtime.submit(op, 1.0, floats, floats), errc::signature_mismatch,
                     AllOf(HasSubstr("argument 1 is double where float is needed"), HasSubstr("(double, Span<float>, Span<float>)")));
  DWELL_EXPECT_ERROR(runtime.submit(op, 1, floats, floats), errc::signature_mismatch, HasSubstr("argument 1 is i32"));
  DWELL_EXPECT_ERROR(runtime.submit(op, 1.0F, floats, reading), errc::signature_mismatch,
                     HasSubstr("argument 3 is Span<const float> where Span<float> is needed"));
  DWELL_EXPECT_ERROR(runtime.submit(op, 1.0F, doubles, floats), errc::signature_mismatch, HasSubstr("argument 2 is Span<double>"));
  DWELL_EXPECT_ERROR(runtime.try_submit(op, 1.0F, floats, 1.0F), errc::signature_mismatch, HasSubstr("argument 3 is float"));
  DWELL_EXPECT_ERROR(runtime.submit(op, Arguments().add(1.0F).add(doubles).add(floats)), errc::signature_mismatch, HasSubstr("argument 2"));
  DWELL_EXPECT_ERROR(runtime.submit_many(op, 3, [&](std::size_t, auto&& put) { put(2.0F); }), errc::signature_mismatch,
                     HasSubstr("1 were given"));
  EXPECT_EQ(runtime.metrics().submitted, 2U);
}

TEST_P(ArgumentsTest, ATypedHandleIsCheckedOnce) {
  Runtime runtime(options());
  const char* const source = "DWELL_OPERATOR(op)(dwell::Group, float, dwell::Span<const dwell::i32>) {}";
  using Right = Operator<void(float, Span<const i32>)>;
  static_assert(Right::fits<float, Buffer<i32>>());
  static_assert(Right::fits<float, Slice<i32>, Groups, Link>());
  static_assert(Right::fits<float, Span<const i32>>());
  static_assert(Right::fits<float, Span<i32>>());
  static_assert(!Right::fits<double, Buffer<i32>>());
  static_assert(!Right::fits<float, Buffer<u32>>());
  static_assert(!Right::fits<float>());
  static_assert(!Right::fits<float, Buffer<i32>, int>());
  const Operator<> op = runtime.define("op", source);
  const Right typed(op);
  EXPECT_EQ(typed.name(), "op");
  auto buffer = runtime.allocate<i32>(1);
  runtime.submit(typed, 1.0F, buffer).wait();
  DWELL_EXPECT_ERROR(Operator<void(double)>{op}, errc::signature_mismatch,
                     AllOf(HasSubstr("(float, Span<const i32>)"), HasSubstr("(double)")));
  const Runtime* const unused = &runtime;
  static_cast<void>(unused);
  DWELL_EXPECT_ERROR(runtime.define<void()>("other", "DWELL_OPERATOR(other)(dwell::Group, int) {}"), errc::signature_mismatch,
                     HasSubstr("(i32)"));
}

TEST_P(ArgumentsTest, ArgumentsCollectedAtRunTimeMayBeSubmittedAgain) {
  Runtime runtime(options());
  Operator<> add = runtime.define("add", kAdd);
  auto cells = filled<u32>(runtime, 4, 0);
  Arguments arguments;
  arguments.add(cells).add(2U).add(5U);
  for (int i = 0; i < 10; ++i) runtime.submit(add, arguments);
  const Arguments copy(arguments);
  runtime.submit(add, copy);
  Arguments wide(arguments);
  wide.add(groups(7));
  runtime.submit(add, wide);
  EXPECT_THAT(read(cells), testing::ElementsAre(0, 0, 5 * 18, 0));
  EXPECT_EQ(copy.parameters().size(), 3U);
}

// The type's name in an operator's source.
std::string cpp_name_of(ElementType type) {
  const std::string text = text_of(value_of(type));
  return text == "bool" || text == "float" || text == "double" ? text : "dwell::" + text;
}

TEST_P(ArgumentsTest, EveryElementTypeArrivesWithoutTemplates) {
  Runtime runtime(options());
  Definition how;
  for (const ElementType type : kElementTypes) how.instances.push_back("pick<" + cpp_name_of(type) + ">");
  const Operator<> pick = runtime.define("pick", R"(
    template <class T>
    DWELL_OPERATOR(pick)(dwell::Group g, T value, dwell::Span<const T> from, dwell::Span<T> to) {
      for (auto i : g.range(to.size())) to[i] = i % 2 == 0 ? from[i] : value;
    })",
                                         how);
  // Any bits except for bool: values are only copied.
  Random random(7);
  for (const ElementType type : kElementTypes) {
    SCOPED_TRACE(name_of(type));
    constexpr std::size_t kCount = 37;
    const std::size_t bytes = bytes_of(type);
    std::vector<std::byte> value(bytes);
    std::vector<std::byte> from(kCount * bytes);
    const auto any = [&](std::byte& byte) {
      byte = static_cast<std::byte>(type == ElementType::boolean ? random() & 1U : random() & 0x3FU);
    };
    std::ranges::for_each(value, any);
    std::ranges::for_each(from, any);
    auto in = runtime.allocate<std::byte>(from.size());
    auto out = filled(runtime, from.size(), std::byte{0});
    in.write(from);
    const Operator<> op = pick.instance("pick<" + cpp_name_of(type) + ">");
    const std::vector<Parameter>& parameters = op.signature().parameters();
    Arguments arguments;
    arguments.add(parameters[0], value).add(parameters[1], BufferView(in, type)).add(BufferView(out, type));
    EXPECT_EQ(arguments.parameters(), parameters);
    runtime.submit(op, arguments);
    const std::vector<std::byte> result = read(out);
    for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], i / bytes % 2 == 0 ? from[i] : value[i % bytes]) << i;
  }
}

TEST_P(ArgumentsTest, AViewIsAddressCountAndType) {
  Runtime runtime(options());
  auto buffer = filled<float>(runtime, 10, 1.0F);
  const BufferView whole = buffer;
  EXPECT_EQ(whole.address(), reinterpret_cast<std::uint64_t>(buffer.data()));
  EXPECT_EQ(whole.count(), 10U);
  EXPECT_EQ(whole.bytes(), 40U);
  EXPECT_EQ(whole.type(), ElementType::f32);
  const BufferView part = whole.part(4, 3);
  EXPECT_EQ(part.address(), whole.address() + 16);
  EXPECT_EQ(part.count(), 3U);
  const BufferView bytes(buffer.slice(2, 2), ElementType::u8);
  EXPECT_EQ(bytes.address(), whole.address() + 8);
  EXPECT_EQ(bytes.count(), 8U);
  EXPECT_EQ(BufferView(buffer, ElementType::complex64).count(), 5U);
  EXPECT_EQ(BufferView().count(), 0U);
  DWELL_EXPECT_ERROR_FIELDS(whole.part(8, 3), errc::invalid_argument, "buffer", "", 3, 2);
  DWELL_EXPECT_ERROR_FIELDS(whole.part(11, 0), errc::invalid_argument, "buffer", "", 0, 0);
  DWELL_EXPECT_ERROR(BufferView(buffer.slice(0, 3), ElementType::f64), errc::invalid_argument, HasSubstr("12 bytes"));
  DWELL_EXPECT_ERROR(BufferView(buffer.slice(1, 2), ElementType::i64), errc::invalid_argument, HasSubstr("aligned to 8"));
  DWELL_EXPECT_ERROR(BufferView(1ULL << 52U, 1, ElementType::u8), errc::invalid_argument, HasSubstr("out of reach"));
  DWELL_EXPECT_ERROR(BufferView(0, 1ULL << 44U, ElementType::u8), errc::invalid_argument, HasSubstr("out of reach"));

  // By address alone, like a bare Span.
  auto host = runtime.allocate<float>(10, Memory::host);
  auto copy = runtime.define("copy", R"(
    DWELL_OPERATOR(copy)(dwell::Group g, dwell::Span<const float> from, dwell::Span<float> to) {
      for (auto i : g.range(to.size())) to[i] = from[i];
    })");
  runtime.submit(copy, Arguments().add(whole.part(2, 8)).add(BufferView(reinterpret_cast<std::uint64_t>(host.data()), 8, ElementType::f32)))
      .wait();
  EXPECT_THAT(host.host().first(8), testing::Each(1.0F));
}

TEST_P(ArgumentsTest, OtherTypesAreRefusedWithoutTemplates) {
  Runtime runtime(options());
  Options little = options();
  little.workers = 1;
  Runtime other(little);
  auto op = runtime.define("op", "DWELL_OPERATOR(op)(dwell::Group, float, dwell::Span<const float>) {}");
  auto floats = runtime.allocate<float>(4);
  auto doubles = runtime.allocate<double>(4);
  const auto theirs = other.allocate<float>(4);
  const Buffer<float> none;
  const std::vector<Parameter>& takes = op.signature().parameters();
  const std::array<std::byte, 8> bytes{};
  DWELL_EXPECT_ERROR(Arguments().add(takes[0], bytes), errc::invalid_argument, AllOf(HasSubstr("float of 4 bytes"), HasSubstr("8 were")));
  DWELL_EXPECT_ERROR(Arguments().add(takes[1], bytes), errc::invalid_argument, HasSubstr("pass a BufferView"));
  DWELL_EXPECT_ERROR(Arguments().add(takes[0], BufferView(floats)), errc::invalid_argument, HasSubstr("cannot be a view of f32"));
  DWELL_EXPECT_ERROR(Arguments().add(takes[1], BufferView(doubles)), errc::invalid_argument, HasSubstr("cannot be a view of f64"));
  DWELL_EXPECT_ERROR(Arguments().add(BufferView(none)), errc::invalid_argument, HasSubstr("empty"));
  DWELL_EXPECT_ERROR(Arguments().add(floats).add(BufferView(theirs)), errc::invalid_argument, HasSubstr("another runtime"));
  DWELL_EXPECT_ERROR(runtime.submit(op, Arguments().add(1.0F).add(BufferView(theirs))), errc::invalid_argument,
                     HasSubstr("another runtime"));
  DWELL_EXPECT_ERROR(runtime.submit(op, Arguments().add(1.0F).add(BufferView(doubles))), errc::signature_mismatch, HasSubstr("argument 2"));
  Arguments full;
  full.add(Blob<32768>{}).add(Blob<32760>{});
  DWELL_EXPECT_ERROR(full.add(BufferView(floats)), errc::invalid_argument, HasSubstr("65536 bytes"));
  full.add(takes[0], std::span(bytes).first(4)).add(takes[0], std::span(bytes).first(4));
  DWELL_EXPECT_ERROR(full.add(takes[0], std::span(bytes).first(4)), errc::invalid_argument, HasSubstr("65536 bytes"));
  runtime.submit(op, Arguments().add(takes[0], std::span(bytes).first(4)).add(takes[1], BufferView(floats))).wait();
}

TEST_P(ArgumentsTest, ForeignAndEmptyHandlesAreRefused) {
  Runtime runtime(options());
  Options little = options();
  little.workers = 1;
  Runtime other(little);
  Operator<> add = runtime.define("add", kAdd);
  auto mine = runtime.allocate<u32>(1);
  auto theirs = other.allocate<u32>(1);
  const Buffer<u32> none;
  DWELL_EXPECT_ERROR(runtime.submit(add, theirs, 0U, 0U), errc::invalid_argument, HasSubstr("another runtime"));
  DWELL_EXPECT_ERROR(runtime.submit(add, theirs.slice(0, 1), 0U, 0U), errc::invalid_argument, HasSubstr("another runtime"));
  DWELL_EXPECT_ERROR(runtime.submit(add, none, 0U, 0U), errc::invalid_argument, HasSubstr("empty"));
  DWELL_EXPECT_ERROR(other.submit(add, theirs, 0U, 0U), errc::invalid_argument, AllOf(HasSubstr("'add'"), HasSubstr("another runtime")));
  DWELL_EXPECT_ERROR(runtime.submit(Operator<>(), 1), errc::invalid_argument, HasSubstr("empty"));
  DWELL_EXPECT_ERROR(runtime.submit(Operator<void(int)>(), 1), errc::invalid_argument, HasSubstr("empty"));
  DWELL_EXPECT_ERROR(Arguments().add(mine).add(theirs), errc::invalid_argument, HasSubstr("another runtime"));
  DWELL_EXPECT_ERROR(runtime.submit(add, Arguments().add(theirs).add(0U).add(0U)), errc::invalid_argument, HasSubstr("another runtime"));
  DWELL_EXPECT_ERROR(runtime.submit(add, Arguments().add(none)), errc::invalid_argument, HasSubstr("empty"));
  const Operator<> empty;
  DWELL_EXPECT_ERROR(empty.name(), errc::invalid_argument, HasSubstr("empty"));
  runtime.submit(add, mine, 0U, 1U).wait();
}

TEST_P(ArgumentsTest, GroupsAreCounted) {
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  DWELL_EXPECT_ERROR_FIELDS(runtime.submit(nothing, groups(0)), errc::invalid_argument, "argument", "groups", 0, 65535);
  DWELL_EXPECT_ERROR_FIELDS(runtime.submit(nothing, groups(65536)), errc::invalid_argument, "argument", "groups", 65536, 65535);
  DWELL_EXPECT_ERROR_FIELDS(Arguments().add(groups(0)), errc::invalid_argument, "argument", "groups", 0, 65535);
  runtime.submit(nothing, groups(1), link, drain).wait();
}

TEST_P(ArgumentsTest, APlainAddressReachesMemory) {
  struct Range {
    u32* at;
    u64 count;
  };
  Runtime runtime(options());
  auto fill = runtime.define<void(Range, Span<u32>, u32)>("fill", R"(
    struct Range { dwell::u32* at; dwell::u64 count; };
    DWELL_OPERATOR(fill)(dwell::Group g, Range range, dwell::Span<dwell::u32> span, dwell::u32 value) {
      for (auto i : g.local_range(range.count)) range.at[i] = value;
      for (auto i : g.local_range(span.size())) span[i] = value + 1;
    })");
  auto buffer = runtime.allocate<u32>(20);
  auto host = runtime.allocate<u32>(20, Memory::host);
  runtime.submit(fill, Range{buffer.data(), 20}, Span<u32>(host.data(), 20), 7U).wait();
  EXPECT_THAT(read(buffer), testing::Each(7U));
  EXPECT_THAT(host.host(), testing::Each(8U));
}

}  // namespace
}  // namespace dwell::test
