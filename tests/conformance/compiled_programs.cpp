// Compiled programs over tensors give the same bits as interpreted ones.
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include <dwell/batch.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// More than the elements of a block.
constexpr std::int64_t kElements = 1500;

class CompiledProgramsTest : public DeviceTest {
 protected:
  Runtime& runtime(std::uint32_t after = 1) {
    if (!runtime_) {
      Options how = options();
      how.compile_programs_after = after;
      how.warn = [](std::string_view line) { ADD_FAILURE() << line; };
      runtime_.emplace(how);
    }
    return *runtime_;
  }

  template <class T>
  Buffer<T> filled(std::size_t count, const std::function<double(std::size_t)>& value) {
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(number<T>(value(i)));
    Buffer<T> buffer = runtime().allocate<T>(count);
    buffer.write(values);
    return buffer;
  }
  // 16-bit floats are constructed from float only.
  template <class T>
  static T number(double value) {
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      return T(static_cast<float>(value));
    else
      return static_cast<T>(value);
  }

  // Runs `collect` until all programs of the batch are compiled. False if that takes too long.
  static bool run_compiled(Batch& batch, const std::function<void()>& collect) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(240);
    while (std::chrono::steady_clock::now() < end) {
      const BatchStats before = batch.stats();
      collect();
      batch.flush().wait();
      const BatchStats now = batch.stats();
      if (now.compiled - before.compiled == now.programs - before.programs) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  // Compares the bytes of interpreted and compiled results. Overwrites the results in between.
  void expect_same_bits(const std::function<void(Batch&)>& collect, std::vector<Buffer<std::byte>>& results) {
    Batch batch(runtime());
    collect(batch);
    batch.flush().wait();
    EXPECT_EQ(batch.stats().compiled, 0U);
    std::vector<std::vector<std::byte>> interpreted;
    for (Buffer<std::byte>& result : results) {
      interpreted.push_back(read(result));
      result.write(std::vector<std::byte>(result.size(), std::byte{0xA5}));
    }
    ASSERT_TRUE(run_compiled(batch, [&] { collect(batch); }));
    for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(read(results[i]), interpreted[i]) << "result " << i;
  }

  // Checks all operations on x, y and z; with `own_only`, only those whose results have the type of x or bool: other integer operations
  // compute in floats, independently of the integer type. Operations share a program because they read what it has written.
  void expect_same_bits_of_operations(const TensorView& x, const TensorView& y, const TensorView& z, bool own_only = false) {
    std::vector<Buffer<std::byte>> results;
    std::vector<std::function<void(Batch&)>> operations;
    const auto memory = runtime().allocate<std::byte>(static_cast<std::size_t>(x.elements()) * bytes_of(x.type()));
    const TensorView written(reinterpret_cast<std::uint64_t>(memory.data()), x.type(), x.shape());
    int all = 0;
    const auto add = [&](TensorOp op, const std::vector<TensorView>& operands) {
      std::vector<Expression> given(operands.begin(), operands.end());
      std::optional<Expression> result;
      try {
        result = given.size() == 1   ? Expression::of(op, given[0])
                 : given.size() == 2 ? Expression::of(op, given[0], given[1])
                                     : Expression::of(op, given[0], given[1], given[2]);
      } catch (const Error&) {
        return;  // undefined for this element type
      }
      if (own_only && result->type() != x.type() && result->type() != ElementType::boolean) return;
      if (kSanitized && all++ % 8 != 0) return;  // compilation takes ten times as long with a sanitizer
      results.push_back(runtime().allocate<std::byte>(static_cast<std::size_t>(x.elements()) * bytes_of(result->type())));
      const TensorView to(reinterpret_cast<std::uint64_t>(results.back().data()), result->type(), x.shape());
      operations.emplace_back([to, expression = *result](Batch& batch) { batch.assign(to, expression); });
    };
#define DWELL_ADD(name, operands, ...) add(TensorOp::name, first_of({written, y, z}, operands));
    DWELL_COMPUTED_OPS(DWELL_ADD)
#undef DWELL_ADD
    ASSERT_GT(results.size(), kSanitized ? 2U : 18U);
    expect_same_bits(
        [&](Batch& batch) {
          constexpr std::size_t kBurst = 12;  // the capacity of a program
          for (std::size_t i = 0; i < operations.size(); ++i) {
            if (i % kBurst == 0) {
              batch.flush();
              batch.assign(written, x);
            }
            operations[i](batch);
          }
        },
        results);
  }
  // The second operand is every `step`-th element of memory, from the last one if `step` is negative.
  template <class T>
  void expect_same_bits_of_floats(std::int64_t step) {
    const auto x = filled<T>(kElements, [](std::size_t i) { return i % 97 == 0 ? NAN : std::sin(static_cast<double>(i)) * 5; });
    const auto y = filled<T>(2 * kElements, [](std::size_t i) { return i % 7 == 0 ? 0 : std::cos(static_cast<double>(i) * 3) * 4; });
    const auto z = filled<T>(1, [](std::size_t) { return 0.625; });
    expect_same_bits_of_operations(x, every(step, y), z);
  }
  template <class T>
  void expect_same_bits_of_integers(std::int64_t step) {
    std::vector<T> values;
    for (std::uint64_t i = 0; i < kElements; ++i) values.push_back(static_cast<T>((i * 0x9E3779B97F4A7C15U) >> (64U - 8 * sizeof(T))));
    auto x = runtime().template allocate<T>(kElements);
    x.write(values);
    const auto y = filled<T>(2 * kElements, [](std::size_t i) { return static_cast<double>(static_cast<T>(static_cast<int>(i % 9) - 4)); });
    const auto z = filled<T>(1, [](std::size_t) { return 3; });
    expect_same_bits_of_operations(x, every(step, y), z, sizeof(T) != 4);
  }
  template <class T>
  static TensorView every(std::int64_t step, const Buffer<T>& of) {
    return TensorView(of).slice(0, step < 0 ? kElements - 1 : 0, kElements, step);
  }
  static std::vector<TensorView> first_of(std::vector<TensorView> all, std::size_t count) {
    all.resize(count);
    return all;
  }

 private:
  std::optional<Runtime> runtime_;
};
DWELL_ON_EVERY_DEVICE(CompiledProgramsTest);

TEST_P(CompiledProgramsTest, OperationsOnFloatsGiveTheSameBits) { expect_same_bits_of_floats<float>(1); }
TEST_P(CompiledProgramsTest, OperationsOnDoublesGiveTheSameBits) { expect_same_bits_of_floats<double>(-1); }
TEST_P(CompiledProgramsTest, OperationsOnHalvesGiveTheSameBits) { expect_same_bits_of_floats<half>(2); }
TEST_P(CompiledProgramsTest, OperationsOnBfloatsGiveTheSameBits) { expect_same_bits_of_floats<bfloat16>(1); }

TEST_P(CompiledProgramsTest, OperationsOnIntegersGiveTheSameBits) { expect_same_bits_of_integers<std::int32_t>(1); }
TEST_P(CompiledProgramsTest, OperationsOnLongIntegersGiveTheSameBits) { expect_same_bits_of_integers<std::int64_t>(2); }
TEST_P(CompiledProgramsTest, OperationsOnShortIntegersGiveTheSameBits) { expect_same_bits_of_integers<std::int16_t>(-1); }
TEST_P(CompiledProgramsTest, OperationsOnBytesGiveTheSameBits) {
  expect_same_bits_of_integers<std::int8_t>(1);
  expect_same_bits_of_integers<std::uint8_t>(1);
}

TEST_P(CompiledProgramsTest, OperationsOnBoolsGiveTheSameBits) {
  const auto seen = [](const Buffer<std::uint8_t>& bytes) {
    return TensorView(reinterpret_cast<std::uint64_t>(bytes.data()), ElementType::boolean, {static_cast<std::int64_t>(bytes.size())});
  };
  const auto x = filled<std::uint8_t>(kElements, [](std::size_t i) { return i % 3 == 0; });
  const auto y = filled<std::uint8_t>(kElements, [](std::size_t i) { return i % 5 < 2; });
  const auto z = filled<std::uint8_t>(1, [](std::size_t) { return 1; });
  expect_same_bits_of_operations(seen(x), seen(y), seen(z), true);
}

// Numbers that integers cannot represent.
TEST_P(CompiledProgramsTest, TruncationsGiveTheSameBits) {
  if (kSanitized) GTEST_SKIP() << "compiles a program for each pair of types: minutes under sanitizers";
  const auto edge = [](std::size_t i) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    constexpr double kEdges[] = {std::numeric_limits<double>::quiet_NaN(),
                                 kInfinite,
                                 -kInfinite,
                                 3e9,
                                 -3e9,
                                 300,
                                 -200.5,
                                 0x1p31,
                                 -0x1p31,
                                 0x1p63,
                                 -0x1p63,
                                 1e19,
                                 -1e19};
    return kEdges[i % std::size(kEdges)];
  };
  const auto floats = filled<float>(kElements, edge);
  const auto doubles = filled<double>(kElements, edge);
  std::vector<Buffer<std::byte>> results;
  std::vector<std::function<void(Batch&)>> assignments;
  const auto add = [&](const TensorView& from) {
    results.push_back(runtime().allocate<std::byte>(kElements * bytes_of(from.type())));
    const TensorView written(reinterpret_cast<std::uint64_t>(results.back().data()), from.type(), {kElements});
    assignments.emplace_back([=](Batch& batch) { batch.assign(written, from); });
    for (const ElementType type : {ElementType::i8, ElementType::i16, ElementType::i32, ElementType::i64, ElementType::u8})
      for (const bool computed : {false, true}) {
        results.push_back(runtime().allocate<std::byte>(kElements * bytes_of(type)));
        const TensorView to(reinterpret_cast<std::uint64_t>(results.back().data()), type, {kElements});
        assignments.emplace_back([=](Batch& batch) { batch.assign(to, computed ? -Expression(written) : Expression(written)); });
      }
  };
  add(TensorView(floats));
  add(TensorView(doubles));
  expect_same_bits(
      [&](Batch& batch) {
        for (const auto& assign : assignments) assign(batch);
      },
      results);
}

// Conversions, temporaries, conditions, indices, operands on either side, strides in several dimensions, and stores that are read again.
TEST_P(CompiledProgramsTest, ExpressionsOfAllKindsGiveTheSameBits) {
  const auto a = filled<float>(30 * 50, [](std::size_t i) { return std::sin(static_cast<double>(i)); });
  const auto b = filled<half>(30 * 50, [](std::size_t i) { return static_cast<double>(i % 100) / 16; });
  const auto c = filled<double>(50, [](std::size_t i) { return static_cast<double>(i) / 3; });
  const auto d = filled<std::uint8_t>(30, [](std::size_t i) { return static_cast<double>(i * 37 % 256); });
  const TensorView rows(a, {30, 50});
  const TensorView halves(b, {30, 50});
  const TensorView turned = TensorView(a, {50, 30}).transpose(0, 1);
  const TensorView bytes = TensorView(d, {30, 1}).expand({30, 50});

  std::vector<Buffer<std::byte>> results;
  const auto result = [&](ElementType type) {
    results.push_back(runtime().allocate<std::byte>(std::size_t{30} * 50 * bytes_of(type)));
    return TensorView(reinterpret_cast<std::uint64_t>(results.back().data()), type, {30, 50});
  };
  const TensorView first = result(ElementType::f32);
  const TensorView second = result(ElementType::f32);
  const TensorView third = result(ElementType::f64);
  const TensorView fourth = result(ElementType::i16);
  const TensorView fifth = result(ElementType::f16);
  const TensorView sixth = result(ElementType::boolean);
  expect_same_bits(
      [&](Batch& batch) {
        const Expression x(rows);
        const Expression product = x * turned;
        batch.assign(first, 1.0 - product / (product * product + 1.0));
        batch.assign(second, ops::where(Expression(first), x, ops::lt(x, Expression(turned))) * 3.0 - Expression(first));
        batch.assign(third, Expression(c) * x + Expression::index());
        batch.assign(fourth, Expression(bytes) * 3 - Expression::index());
        batch.assign(fifth, ops::gelu(Expression(halves)) * 2.5 + Expression(halves));
        batch.assign(sixth, ops::logical_and(ops::gt(x, 0.0), Expression(bytes)));
      },
      results);
}

TEST_P(CompiledProgramsTest, SizesAndNumbersShareAnOperator) {
  Batch batch(runtime());
  const auto axpy = [&](const Buffer<float>& y, const Buffer<float>& x, double factor) { batch.assign(y, Expression(x) * factor + 1.0); };
  const auto x = filled<float>(16, [](std::size_t i) { return static_cast<double>(i); });
  const auto y = filled<float>(16, [](std::size_t) { return 0; });
  ASSERT_TRUE(run_compiled(batch, [&] { axpy(y, x, 2); }));
  EXPECT_EQ(read(y)[5], 11.0F);

  const std::uint64_t before = batch.stats().compiled;
  for (const std::size_t count : {std::size_t{2}, std::size_t{1023}, std::size_t{1024}, std::size_t{1025}, std::size_t{100'000}}) {
    const auto from = filled<float>(count + 1, [](std::size_t i) { return static_cast<double>(i); });
    const auto to = filled<float>(count + 2, [](std::size_t) { return -1; });
    // Also at addresses that are not aligned for packs.
    for (const std::size_t first : {0U, 1U}) {
      batch.assign(TensorView(to.slice(first, count)), Expression(TensorView(from.slice(first, count))) * 3.0 + 1.0);
      batch.flush().wait();
      const std::vector<float> found = read(to);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(found[first + i], 3 * static_cast<float>(first + i) + 1) << count << ' ' << i;
      EXPECT_EQ(found[first + count], -1.0F);
    }
  }
  EXPECT_EQ(batch.stats().compiled - before, 10U);
}

TEST_P(CompiledProgramsTest, BatchesShareThem) {
  Batch first(runtime(8));
  Batch second(runtime());
  const auto x = filled<float>(64, [](std::size_t i) { return static_cast<double>(i); });
  const auto y = filled<float>(64, [](std::size_t) { return 0; });
  for (int i = 0; i < 7; ++i) {
    first.assign(y, Expression(x) - 3.0);
    first.flush().wait();
  }
  ASSERT_TRUE(run_compiled(second, [&] { second.assign(y, Expression(x) - 3.0); }));
  first.assign(y, Expression(x) - 4.0);
  first.flush().wait();
  EXPECT_EQ(first.stats().programs, 8U);
  EXPECT_EQ(first.stats().compiled, 1U);
  EXPECT_EQ(read(y)[9], 5.0F);
}

// A node keeps the program that it was captured with.
TEST_P(CompiledProgramsTest, LongCapturedProgramsAreCompiled) {
  runtime(1000);
  const auto x = filled<float>(kElements, [](std::size_t i) { return static_cast<double>(i % 100) / 64; });
  auto y = filled<float>(kElements, [](std::size_t) { return 0; });
  const auto collect = [&](Batch& batch, int times) {
    batch.assign(y, Expression(x) + 0.5);
    for (int i = 0; i < times; ++i) batch.assign(y, ops::sigmoid(Expression(y) * 1.25) / (Expression(x) + 0.75));
  };
  for (const int times : {1, 8}) {
    Batch batch(runtime());
    collect(batch, times);
    batch.flush().wait();
    EXPECT_EQ(batch.stats().compiled, 0U);
    const std::vector<float> expected = read(y);
    y.write(std::vector<float>(kElements, -1));

    BatchStats stats;
    const Graph graph = runtime().capture([&] {
      Batch captured(runtime());
      collect(captured, times);
      captured.submit();
      stats = captured.stats();
    });
    EXPECT_EQ(stats.programs, 1U);
    EXPECT_EQ(stats.compiled, times > 1 ? 1U : 0U);
    const GraphExec exec = runtime().instantiate(graph);
    runtime().launch(exec).wait();
    EXPECT_EQ(read(y), expected) << times;
  }
}

TEST_P(CompiledProgramsTest, ProgramsCutShortAreNotCounted) {
  Batch batch(runtime(3));
  const auto x = filled<float>(64, [](std::size_t i) { return static_cast<double>(i); });
  const auto y = filled<float>(64, [](std::size_t) { return 0; });
  const auto other = filled<float>(32, [](std::size_t) { return 0; });
  const auto run = [&](bool cut_short) {
    batch.assign(y, Expression(x) - 2.0);
    for (const Ticket& ticket : batch.submit(cut_short)) ticket.wait();
  };
  const auto runs_compiled = [&] {
    const std::uint64_t before = batch.stats().compiled;
    run(true);
    return batch.stats().compiled != before;
  };
  for (int i = 0; i < 10; ++i) run(true);
  run(false);
  run(false);
  // An earlier request would have been compiled by now.
  ASSERT_TRUE(run_compiled(batch, [&] { batch.assign(other, Expression(other) - 5.0); }));
  EXPECT_FALSE(runs_compiled());
  ASSERT_TRUE(run_compiled(batch, [&] { run(false); }));
  EXPECT_TRUE(runs_compiled()) << "they are looked up all the same";
  // Programs before the last one are complete, and are counted.
  ASSERT_TRUE(run_compiled(batch, [&] {
    batch.assign(y, Expression(x) * 3.0);
    batch.assign(other, Expression(other) + 1.0);
    for (const Ticket& ticket : batch.submit(true)) ticket.wait();
    batch.assign(other, Expression(other) + 1.0);
  }));
}

TEST_P(CompiledProgramsTest, NoneIsCompiledAfterZeroTasks) {
  Batch batch(runtime(0));
  const std::uint64_t sources = runtime().metrics().compiled;
  const auto x = filled<float>(64, [](std::size_t i) { return static_cast<double>(i); });
  const auto y = filled<float>(64, [](std::size_t) { return 0; });
  for (int i = 0; i < 100; ++i) {
    batch.assign(y, Expression(x) - static_cast<double>(i));
    batch.flush().wait();
  }
  EXPECT_EQ(batch.stats().programs, 100U);
  EXPECT_EQ(batch.stats().operations, 100U);
  EXPECT_EQ(batch.stats().compiled, 0U);
  EXPECT_EQ(runtime().metrics().compiled, sources);
}

}  // namespace
}  // namespace dwell::test
