// Batches: programs of several operations, their order, and fusion.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/conformance/tensor_test.hpp"

namespace dwell::test {
namespace {

class BatchTest : public TensorTest {};
DWELL_ON_EVERY_DEVICE(BatchTest);

TEST_P(BatchTest, ProgramsBeyondTheLimitsAreRefused) {
  auto x = runtime().allocate<float>(8);
  auto y = runtime().allocate<float>(20);
  Expression sum = TensorView(x);
  for (int i = 0; i < 70; ++i) {
    try {
      sum = sum + 1.0;
      batch().assign(x, sum);
      ASSERT_LT(i, 63);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), errc::resource_limit) << error.what();
      ASSERT_GE(i, 60);
      break;
    }
  }
  Expression many = TensorView(x);
  for (int i = 0; i < 16; ++i) many = many + TensorView(y).slice(0, i, 1);
  DWELL_EXPECT_ERROR(batch().assign(x, many), errc::resource_limit, HasSubstr("16 tensors"));
}

TEST_P(BatchTest, LongProgramsAreStoredOutsideTheRing) {
  // Eight dimensions that cannot be joined, and many tensors.
  Dims shape{2, 2, 2, 2, 2, 2, 2, 2};
  std::vector<Buffer<float>> buffers;
  Expression sum = 0.0;
  for (int i = 0; i < 15; ++i) {
    std::vector<float> values(512);
    std::iota(values.begin(), values.end(), static_cast<float>(i));
    buffers.push_back(filled_with(values));
    Dims strides;
    for (int dim = 0; dim < 8; ++dim) strides.push_back(std::int64_t{2} << ((dim + i) % 8));
    sum = sum + TensorView(reinterpret_cast<std::uint64_t>(buffers.back().data()), ElementType::f32, shape, strides);
  }
  const auto result = runtime().allocate<float>(256);
  batch().assign(TensorView(result, shape), sum);
  batch().flush().wait();
  const std::vector<float> got = read(result);
  for (unsigned i = 0; i < 256; ++i) {
    float expected = 0;
    for (unsigned tensor = 0; tensor < 15; ++tensor) {
      unsigned at = 0;
      for (unsigned dim = 0; dim < 8; ++dim)
        if ((i >> (7 - dim) & 1U) != 0) at += 2U << ((dim + tensor) % 8);
      expected += static_cast<float>(at + tensor);
    }
    ASSERT_EQ(got[i], expected) << i;
  }
}

// Twelve steps from 3 towards 2, exact in both types, on all elements but the last kBehind.
template <class T>
void expect_steps(Runtime& runtime, std::size_t count) {
  constexpr std::size_t kBehind = 64;
  SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(sizeof(T)) + " bytes");
  auto memory = runtime.allocate<T>(count + kBehind);
  memory.write(std::vector<T>(memory.size(), 3));
  const TensorView part(memory.slice(0, count));
  Batch batch(runtime);
  for (int i = 0; i < 12; ++i) {
    batch.apply(TensorOp::mul, part, {part, 0.5});
    batch.apply(TensorOp::add, part, {part, 1.0});
  }
  batch.flush().wait();
  const std::vector<T> got = read(memory);
  const T expected = 2 + std::ldexp(T{1}, -12);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i < count ? expected : 3) << i;
}

// Counts for which some groups are idle, one has a partial share, or all make several rounds.
TEST_P(BatchTest, GroupsShareLongProgramsOfAnySize) {
  Options several = options();
  several.workers = 5;
  Runtime runtime(several);
  for (const std::size_t count : {1U, 100U, 127U, 128U, 129U, 600U, 1000U, 1024U, 1025U, 5000U, 8192U, 9001U, 40'000U, 70'001U}) {
    expect_steps<float>(runtime, count);
    expect_steps<double>(runtime, count);
  }
}

// ---- Order -----------------------------------------------------------------------------------------------------------------------

TEST_P(BatchTest, OrderFollowsFromMemory) {
  Random random(8);
  constexpr std::size_t kElements = 600;
  std::vector<u64> expected(kElements);
  std::iota(expected.begin(), expected.end(), 1U);
  std::vector<i64> initial(expected.begin(), expected.end());
  auto memory = filled_with(initial);
  const TensorView all(memory);
  Ticket last;
  for (int round = 0; round < (kSanitized ? 400 : 3000); ++round) {
    const std::size_t count = 1 + random() % 100;
    const std::size_t to = random() % (kElements - count + 1);
    const std::size_t a = random() % (kElements - count + 1);
    const std::size_t b = random() % (kElements - count + 1);
    const auto part = [&](std::size_t first) { return all.slice(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)); };
    batch().assign(part(to), Expression(part(a)) * 3 + part(b));
    std::vector<u64> result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = expected[a + i] * 3 + expected[b + i];
    std::copy(result.begin(), result.end(), expected.begin() + static_cast<std::ptrdiff_t>(to));
    if (random() % 8 == 0) last = batch().flush();
  }
  batch().flush().wait();
  const std::vector<i64> got = read(memory);
  for (std::size_t i = 0; i < kElements; ++i) ASSERT_EQ(got[i], static_cast<i64>(expected[i])) << i;
}

// A view of `columns` times `rows` elements in random directions, with or without gaps, without overlap.
TensorView any_view(Random& random, const TensorView& all, std::int64_t rows, std::int64_t columns) {
  const bool turned = random() % 2 == 0;
  std::int64_t inner = 1 + random() % 2;
  std::int64_t outer = (turned ? rows : columns) * inner + random() % 3;
  if (turned) std::swap(inner, outer);
  const std::int64_t reach = (rows - 1) * outer + (columns - 1) * inner;
  std::int64_t first = random() % static_cast<u32>(all.elements() - reach);
  for (auto& [count, stride] : {std::pair<std::int64_t, std::int64_t&>{rows, outer}, {columns, inner}}) {
    if (random() % 2 == 0) continue;
    first += (count - 1) * stride;
    stride = -stride;
  }
  return {all.address() + static_cast<std::uint64_t>(first) * 8, all.type(), {rows, columns}, {outer, inner}};
}

TEST_P(BatchTest, OrderFollowsFromMemoryOfViewsInAnyDirection) {
  Random random(10);
  constexpr std::size_t kElements = 4000;
  std::vector<u64> expected(kElements);
  std::iota(expected.begin(), expected.end(), 1U);
  const auto memory = filled_with(std::vector<i64>(expected.begin(), expected.end()));
  const TensorView all(memory);
  const auto at = [&](const TensorView& view, std::int64_t row, std::int64_t column) -> u64& {
    const auto first = static_cast<std::int64_t>((view.address() - all.address()) / 8);
    return expected[static_cast<std::size_t>(first + row * view.strides()[0] + column * view.strides()[1])];
  };
  for (int round = 0; round < (kSanitized ? 300 : 1500); ++round) {
    const std::int64_t rows = 1 + random() % 29;  // more elements than are read at once
    const std::int64_t columns = 1 + random() % 29;
    const TensorView to = any_view(random, all, rows, columns);
    TensorView a = any_view(random, all, rows, columns);
    const TensorView b = any_view(random, all, rows, columns);
    if (random() % 6 == 0) a = a.slice(0, rows - 1, 1).expand({rows, columns});  // one row, broadcast
    std::vector<u64> result;
    const u32 how = random() % 4;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        result.push_back(how % 3 == 0 ? at(a, row, column) * 3 + at(b, row, column) : at(a, row, column) - at(b, row, column));
    if (how == 0)
      batch().assign(to, Expression(a) * 3 + b);
    else if (how == 1)
      batch().assign(to, Expression(a) - b);
    else if (how == 2)
      batch().apply(TensorOp::sub, to, {a, b});
    else
      batch().apply([](std::span<const Expression> n) { return n[0] * n[1] + n[2]; }, ElementType::i64, to,
                    std::array<Operand, 3>{a, 3, b});
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        at(to, row, column) = result[static_cast<std::size_t>(row * columns + column)];
    if (random() % 8 == 0) batch().flush();
  }
  batch().flush().wait();
  const std::vector<i64> got = read(memory);
  for (std::size_t i = 0; i < kElements; ++i) ASSERT_EQ(got[i], static_cast<i64>(expected[i])) << i;
}

// Operations that keep a worker busy for long, beside short ones.
constexpr std::size_t kLong = 8000;
constexpr int kRounds = 20;
Expression long_work(const TensorView& x) {
  Expression value = x;
  for (int i = 0; i < 10; ++i) value = ops::sin(value) * 0.25 + value + 1.0;
  return value;
}
float long_work(float x) {
  for (int i = 0; i < 10; ++i) x = std::sin(x) * 0.25F + x + 1.0F;
  return x;
}

TEST_P(BatchTest, AReaderWaitsForALongWriter) {
  auto x = filled_with(std::vector<float>(kLong, 0.5F));
  auto y = runtime().allocate<float>(1);
  float expected = 0.5F;
  for (int round = 0; round < kRounds; ++round) {
    batch().assign(x, long_work(x));
    expected = long_work(expected);
  }
  batch().assign(y, TensorView(x).slice(0, kLong - 1, 1));
  batch().flush();
  EXPECT_NEAR(read(y)[0], expected, 0.1);
}

TEST_P(BatchTest, AWriterWaitsForALongReader) {
  auto x = filled_with(std::vector<float>(kLong, 0.5F));
  auto y = runtime().allocate<float>(kLong);
  for (int round = 0; round < kRounds; ++round) batch().assign(y, long_work(x));
  batch().flush();
  batch().assign(TensorView(x).slice(0, kLong - 8, 8), 100.0);  // another flush changes nothing
  batch().flush();
  EXPECT_NEAR(read(y)[kLong - 1], long_work(0.5F), 0.1);
}

TEST_P(BatchTest, TicketCoversAllTasks) {
  auto x = runtime().allocate<float>(kLong, Memory::host);
  std::ranges::fill(x.host(), 0.5F);
  std::vector<Buffer<float>> buffers;
  for (int i = 0; i < 300; ++i) buffers.push_back(runtime().allocate<float>(16, Memory::host));
  for (int i = 0; i < 300; ++i) {
    if (i == 150) batch().assign(x, long_work(x));
    batch().assign(buffers[static_cast<std::size_t>(i)], static_cast<double>(i));
  }
  batch().flush().wait();
  EXPECT_NEAR(x.host()[kLong - 1], long_work(0.5F), 0.1);
  for (int i = 0; i < 300; ++i) ASSERT_THAT(buffers[static_cast<std::size_t>(i)].host(), testing::Each(static_cast<float>(i)));
}

// Captures a write, `between`, and a read of the written tensor. Returns the number of edges.
std::size_t edges_of_capture(Runtime& runtime, const Buffer<float>& x, const std::function<void(Batch&)>& between) {
  const std::string dot = runtime
                              .capture([&] {
                                Batch batch(runtime);
                                batch.assign(x, 1.0);
                                EXPECT_EQ(batch.submit().size(), 1U);
                                between(batch);
                                batch.assign(x, Expression(x) + 1.0);
                                EXPECT_EQ(batch.submit().size(), 1U);
                              })
                              .dot();
  std::size_t edges = 0;
  for (std::size_t at = dot.find("->"); at != std::string::npos; at = dot.find("->", at + 2)) ++edges;
  return edges;
}

TEST_P(BatchTest, ForgottenTasksAreNotWaitedFor) {
  const auto x = runtime().allocate<float>(8);
  EXPECT_EQ(edges_of_capture(runtime(), x, [](Batch&) {}), 1U);
  EXPECT_EQ(edges_of_capture(runtime(), x, [](Batch& batch) { batch.forget(); }), 0U);
}

TEST_P(BatchTest, SubmitGivesTheTicketsOfAllTasks) {
  std::vector<Buffer<float>> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back(runtime().allocate<float>(16, Memory::host));
  for (int i = 0; i < 100; ++i) {
    if (i == 40) batch().flush();
    batch().assign(buffers[static_cast<std::size_t>(i)], static_cast<double>(i));
  }
  const std::uint64_t before = batch().stats().tasks;
  const std::vector<Ticket> tickets = batch().submit();
  EXPECT_EQ(tickets.size(), 60U);
  EXPECT_LE(batch().stats().tasks - before, 16U);  // only programs that could still have grown, none that waits for others
  for (const Ticket& ticket : tickets) ticket.wait();
  for (int i = 40; i < 100; ++i) ASSERT_THAT(buffers[static_cast<std::size_t>(i)].host(), testing::Each(static_cast<float>(i)));
  EXPECT_TRUE(batch().submit().empty());
}

// ---- Fusion ----------------------------------------------------------------------------------------------------------------------

TEST_P(BatchTest, DependentOperationsAreFused) {
  const auto x = filled_with(std::vector<float>(3000, 2.0F));
  auto y = runtime().allocate<float>(3000);
  auto z = runtime().allocate<float>(3000);
  const auto tasks = [&](const std::function<void()>& assignments) {
    const std::uint64_t before = runtime().metrics().submitted;
    assignments();
    batch().flush().wait();
    return runtime().metrics().submitted - before;
  };
  EXPECT_EQ(tasks([&] {
              batch().assign(y, Expression(x) + 1.0);
              batch().assign(y, Expression(y) * y);
              batch().assign(z, Expression(x) - y);
              batch().assign(y, Expression(z) + y);
            }),
            1U);
  EXPECT_EQ(read(y), std::vector<float>(3000, 2.0F));
  EXPECT_EQ(read(z), std::vector<float>(3000, -7.0F));
  // Other elements of the same memory, or another shape of it, need tasks of their own.
  EXPECT_EQ(tasks([&] {
              batch().assign(y, Expression(x) + 1.0);
              batch().assign(TensorView(z).slice(0, 0, 1000), TensorView(y).slice(0, 1000, 1000));
              batch().assign(TensorView(z, {30, 100}).transpose(0, 1).slice(0, 40, 1), Expression(5));
            }),
            3U);
}

TEST_P(BatchTest, ContiguousTensorsFuseAcrossShapes) {
  const auto x = filled_with(std::vector<float>{1, 2, 3, 4, 5, 6});
  auto y = runtime().allocate<float>(6);
  auto z = runtime().allocate<float>(6);
  const auto tasks = [&](const std::function<void()>& assignments) {
    const std::uint64_t before = batch().stats().tasks;
    assignments();
    batch().flush().wait();
    return batch().stats().tasks - before;
  };
  EXPECT_EQ(tasks([&] {
              batch().assign(TensorView(y, {2, 3}), Expression(TensorView(x, {2, 3})) + 1.0);
              batch().assign(y, Expression(y) * y);
              batch().apply(TensorOp::sub, TensorView(z, {3, 2}), {TensorView(y, {3, 2}), 1});
            }),
            1U);
  EXPECT_EQ(read(z), (std::vector<float>{3, 8, 15, 24, 35, 48}));
  // A broadcast row, and columns as rows: these need a shape, which all others adopt.
  EXPECT_EQ(tasks([&] {
              batch().assign(y, Expression(x) + 1.0);
              batch().apply(TensorOp::add, TensorView(z, {2, 3}), {TensorView(y, {2, 3}), TensorView(x).slice(0, 0, 3)});
              batch().apply(TensorOp::mul, z, {TensorView(z), 2});
              batch().apply(TensorOp::sub, TensorView(z, {2, 3}), {TensorView(z, {2, 3}), TensorView(x, {3, 2}).transpose(0, 1)});
            }),
            1U);
  EXPECT_EQ(read(z), (std::vector<float>{5, 7, 9, 10, 12, 14}));
  // The same elements in another order.
  EXPECT_EQ(tasks([&] {
              batch().assign(TensorView(y, {2, 3}), Expression(TensorView(x, {2, 3})));
              batch().assign(TensorView(z, {3, 2}), Expression(TensorView(y, {2, 3}).transpose(0, 1)));
            }),
            2U);
  EXPECT_EQ(read(z), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

// ---- Formulas --------------------------------------------------------------------------------------------------------------------

using Numbers = std::span<const Expression>;

TEST_P(BatchTest, FormulasMatchTheirExpressions) {
  const auto x = filled_with(std::vector<float>{1, -2, 3, 0.5F, -5, 1'000'003});
  const auto y = filled_with(std::vector<float>{4, 4, -1, 2, 0.25F, 7});
  const auto one = filled_with(std::vector<float>{3});
  const auto wide = filled_with(std::vector<double>{1.0 / 3, 2, 3, 4, 5, 6});
  auto narrow = runtime().allocate<std::int8_t>(6);
  batch().assign(narrow, y);
  // All results are finite, because some become integers.
  const std::vector<Batch::Formula> formulas = {
      [](Numbers n) { return n[0] + n[2] * n[1]; },
      [](Numbers n) { return n[0] - n[1] * n[1] / (n[2] + 1.5); },
      [](Numbers n) { return ops::where(0.0, n[0], ops::le(n[1], n[2])); },
      [](Numbers n) { return n[0] * n[1] * (n[1] - n[0]) + ops::exp(n[2] * 1e-6) * (1.0 - n[2]); },
      [](Numbers n) { return n[1]; },
      [](Numbers n) { return n[2]; },
      [](Numbers n) { return ops::lt(n[0], n[1]); },
  };
  const auto same_in = [&]<class Result>(Result zero, ElementType computed, const auto& a, const auto& b, const auto& c) {
    const auto as_expression = [&](const auto& given) {
      if constexpr (std::is_same_v<std::decay_t<decltype(given)>, TensorView>)
        return Expression(given).as(computed);
      else
        return Expression(given);
    };
    const std::array<Operand, 3> operands{a, b, c};
    const std::array<Expression, 3> expressions{as_expression(a), as_expression(b), as_expression(c)};
    for (std::size_t i = 0; i < formulas.size(); ++i) {
      auto by_formula = filled_with(std::vector<Result>(12, zero));
      auto by_expression = filled_with(std::vector<Result>(12, zero));
      const auto half = [](const Buffer<Result>& of, std::int64_t first) { return TensorView(of).slice(0, first, 6); };
      batch().apply(TensorOp::neg, half(by_formula, 6), {half(by_formula, 6)});  // an existing program
      for (const std::int64_t first : {0, 6}) {
        batch().apply(formulas[i], computed, half(by_formula, first), operands);
        batch().assign(half(by_expression, first), formulas[i](expressions));
      }
      batch().flush().wait();
      const std::vector<Result> expected = read(by_expression);
      const std::vector<Result> got = read(by_formula);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(Result)), 0) << "formula " << i;
    }
  };
  const auto same = [&](ElementType computed, const auto& a, const auto& b, const auto& c) {
    same_in(0.0F, computed, a, b, c);
    same_in(0.0, computed, a, b, c);
    same_in(0, computed, a, b, c);
  };
  const TensorView several(x);
  same(ElementType::f32, several, TensorView(y), 1.0);  // the formulas contain this number too
  same(ElementType::f32, several, TensorView(y), 1'000'003.0);
  same(ElementType::f32, several, several, 2);
  same(ElementType::f32, several, TensorView(y), true);
  same(ElementType::f32, several, TensorView(one), 0.5);
  same(ElementType::f32, TensorView(one, {}), TensorView(y), 0.5);
  same(ElementType::f32, TensorView(narrow), TensorView(y), -1);
  same(ElementType::f64, TensorView(wide), several, TensorView(narrow));
}

TEST_P(BatchTest, FormulasContinueAnAssignment) {
  const auto x = filled_with(std::vector<float>{1, 2, 3});
  auto y = runtime().allocate<float>(3);
  auto z = runtime().allocate<float>(3);
  const auto scaled = [](Numbers n) { return n[0] * n[1] + n[0]; };
  for (const double factor : {2.0, 3.0}) {
    const std::uint64_t before = batch().stats().tasks;
    batch().apply(TensorOp::add, y, {TensorView(x), 1.0});
    batch().apply(scaled, ElementType::f32, z, std::array<Operand, 2>{TensorView(y), factor});
    batch().apply(scaled, ElementType::f32, z, std::array<Operand, 2>{TensorView(z), factor});
    batch().flush().wait();
    EXPECT_EQ(batch().stats().tasks - before, 1U);
    const auto more = static_cast<float>((factor + 1) * (factor + 1));
    EXPECT_EQ(read(z), (std::vector<float>{2 * more, 3 * more, 4 * more}));
  }
}

// ---- Dead stores -----------------------------------------------------------------------------------------------------------------

TEST_P(BatchTest, OverwrittenResultsUseNoSpace) {
  const auto x = filled_with(std::vector<float>(500, 1.0F));
  auto y = filled_with(std::vector<float>(500, 0.0F));
  auto z = runtime().allocate<float>(500);
  for (int i = 0; i < 100; ++i) batch().apply(TensorOp::add, y, {TensorView(y), TensorView(x)});
  batch().flush().wait();
  EXPECT_EQ(read(y), std::vector<float>(500, 100.0F));
  EXPECT_EQ(batch().stats().tasks, 2U);  // 50 to 60 additions each, not 25 with their stores
  for (int i = 0; i < 1000; ++i) batch().apply(TensorOp::add, z, {TensorView(x), i});
  batch().flush().wait();
  EXPECT_EQ(read(z), std::vector<float>(500, 1000.0F));
  EXPECT_EQ(batch().stats().tasks, 3U);
}

TEST_P(BatchTest, ResultsReadBeforeBeingOverwrittenAreStored) {
  const auto x = filled_with(std::vector<float>(500, 3.0F));
  auto y = runtime().allocate<float>(500);
  auto z = runtime().allocate<float>(500);
  batch().assign(y, Expression(x) + 1.0);
  batch().assign(z, Expression(x) * 2.0);
  batch().assign(z, Expression(z) + y);
  batch().assign(y, Expression(x));
  batch().flush().wait();
  EXPECT_EQ(read(z), std::vector<float>(500, 10.0F));
  EXPECT_EQ(read(y), std::vector<float>(500, 3.0F));
}

TEST_P(BatchTest, UnneededResultsAreNotStored) {
  const auto x = filled_with(std::vector<float>(500, 3.0F));
  auto between = filled_with(std::vector<float>(500, -1.0F));
  auto y = runtime().allocate<float>(500);
  const TensorView::Extent gone = TensorView(between).extent();
  batch().store_only([gone](const TensorView::Extent& memory) { return !gone.overlaps(memory); });
  batch().assign(between, Expression(x) * 2.0);
  batch().assign(y, Expression(between) + 1.0);
  batch().flush().wait();
  EXPECT_EQ(read(y), std::vector<float>(500, 7.0F));
  EXPECT_EQ(read(between), std::vector<float>(500, -1.0F));
  // Nothing has to be stored.
  const std::uint64_t tasks = batch().stats().tasks;
  batch().assign(between, Expression(x) * 2.0);
  EXPECT_TRUE(batch().flush().done());
  EXPECT_EQ(batch().stats().tasks, tasks);
  batch().store_only({});
  batch().assign(between, Expression(x) * 2.0);
  batch().flush().wait();
  EXPECT_EQ(read(between), std::vector<float>(500, 6.0F));
}

TEST_P(BatchTest, ResultsReadByOtherProgramsAreStored) {
  const auto x = filled_with(std::vector<float>(500, 3.0F));
  auto between = filled_with(std::vector<float>(500, -1.0F));
  auto y = runtime().allocate<float>(100);
  batch().store_only([](const TensorView::Extent& memory) { return memory.end - memory.first != 500 * sizeof(float); });
  batch().assign(between, Expression(x) * 2.0);
  batch().assign(y, Expression(TensorView(between).slice(0, 7, 100)) + 1.0);  // other elements: another program
  batch().flush().wait();
  EXPECT_EQ(read(y), std::vector<float>(100, 7.0F));
}

TEST_P(BatchTest, FullProgramDropsUnneededResults) {
  constexpr std::size_t kSteps = 100;
  const auto x = filled_with(std::vector<float>(500, 1.0F));
  std::vector<Buffer<float>> between;
  for (std::size_t i = 0; i <= kSteps; ++i) between.push_back(filled_with(std::vector<float>(500, 0.0F)));
  std::size_t newest = 1;
  batch().store_only([&](const TensorView::Extent& memory) { return memory.first >= TensorView(between[newest - 1]).address(); });
  std::ranges::sort(between, {}, [](const Buffer<float>& buffer) { return TensorView(buffer).address(); });
  for (; newest <= kSteps; ++newest) batch().apply(TensorOp::add, between[newest], {TensorView(between[newest - 1]), TensorView(x)});
  batch().flush().wait();
  EXPECT_EQ(read(between[kSteps]), std::vector<float>(500, 100.0F));
  EXPECT_LE(batch().stats().tasks, 3U);  // a program names 16 tensors
}

TEST_P(BatchTest, ProgramContinuesPastAnOperationThatDoesNotFit) {
  const auto x = filled_with(std::vector<float>(100, 2.0F));
  auto y = runtime().allocate<float>(100);
  auto z = runtime().allocate<float>(100);
  auto w = runtime().allocate<float>(100);
  auto wide = runtime().allocate<double>(100);
  batch().assign(y, Expression(x) + 1.0);
  batch().assign(z, Expression(y) * 2.0);
  batch().assign(wide, Expression(z) / 8.0);  // 64-bit: another program
  batch().assign(w, -Expression(y));
  batch().flush().wait();
  EXPECT_EQ(read(z), std::vector<float>(100, 6.0F));
  EXPECT_EQ(read(wide), std::vector<double>(100, 0.75));
  EXPECT_EQ(read(w), std::vector<float>(100, -3.0F));
}

TEST_P(BatchTest, RandomSequencesOnWholeTensors) {
  Random random(9);
  constexpr std::size_t kElements = 2600;  // several blocks of a group
  constexpr std::size_t kTensors = 7;
  std::vector<std::vector<u64>> expected(kTensors, std::vector<u64>(kElements));
  std::vector<Buffer<i64>> buffers;
  for (auto& values : expected) {
    for (u64& value : values) value = static_cast<u64>(random()) << 32U | random();
    buffers.push_back(filled_with(std::vector<i64>(values.begin(), values.end())));
  }
  buffers.push_back(runtime().allocate<i64>(kElements));  // for intermediate results
  const int rounds = kSanitized ? 300 : 1500;
  for (int round = 0; round < rounds; ++round) {
    // From here on, the intermediate tensor is not needed.
    if (round == rounds / 2) {
      const TensorView::Extent between = TensorView(buffers[kTensors]).extent();
      batch().store_only([between](const TensorView::Extent& memory) { return !between.overlaps(memory); });
    }
    const std::size_t to = random() % kTensors;
    const std::size_t a = random() % kTensors;
    const std::size_t b = random() % kTensors;
    // Sometimes half of the elements, every second one, reversed, or one element broadcast.
    const std::size_t first = random() % 10 == 0 ? kElements / 2 : 0;
    const std::size_t step = random() % 10 == 0 ? 2 : 1;
    const std::size_t from_step = random() % 2 == 0 ? step : 1;
    const std::size_t count = (kElements - first) / step;
    const bool backwards = random() % 12 == 0;
    const bool one = random() % 12 == 0;
    const auto n = static_cast<std::int64_t>(count);
    // All elements, sometimes in two or three dimensions.
    const Dims shape = count != kElements || backwards || random() % 3 != 0 ? Dims{n} : random() % 2 == 0 ? Dims{26, 100} : Dims{1, n, 1};
    const auto part = [&](std::size_t tensor, std::size_t by) {
      return TensorView(buffers[tensor]).slice(0, static_cast<std::int64_t>(first), n, static_cast<std::int64_t>(by)).reshape(shape);
    };
    const TensorView left = backwards ? part(a, from_step).slice(0, n - 1, n, -1) : part(a, from_step);
    const TensorView right = one ? TensorView(buffers[b]).slice(0, static_cast<std::int64_t>(first + 3 * step), 1) : part(b, step);
    const bool inverted = random() % 3 == 0;
    const bool reversed = !inverted && random() % 3 == 0;
    std::vector<u64> result(count);
    for (std::size_t i = 0; i < count; ++i) {
      const u64 x = expected[a][first + (backwards ? count - 1 - i : i) * from_step];
      const u64 y = expected[b][first + (one ? 3 : i) * step];
      result[i] = inverted ? ~x - ~y * 3 : reversed ? y - x * 3 : x * 3 - y;
    }
    if (inverted) {
      batch().assign(part(to, step), ops::bitwise_not(left) - ops::bitwise_not(right) * 3);
    } else if (reversed) {
      batch().apply(TensorOp::mul, part(kTensors, step), {left, 3});
      batch().apply(TensorOp::sub, part(to, step), {right, part(kTensors, step)});
    } else if (random() % 2 == 0) {
      batch().assign(part(to, step), Expression(left) * 3 - right);
    } else {
      // The same with single operations; the first may write `right`.
      batch().apply(TensorOp::mul, part(kTensors, step), {left, 3});
      batch().apply(TensorOp::sub, part(to, step), {part(kTensors, step), right});
    }
    for (std::size_t i = 0; i < count; ++i) expected[to][first + i * step] = result[i];
    if (random() % 40 == 0) batch().flush();
  }
  batch().flush();
  for (std::size_t tensor = 0; tensor < kTensors; ++tensor)
    ASSERT_EQ(read(buffers[tensor]), std::vector<i64>(expected[tensor].begin(), expected[tensor].end())) << tensor;
}

TEST_P(BatchTest, ForeignBuffersAreRefused) {
  Runtime other(options());
  auto x = other.allocate<float>(4);
  DWELL_EXPECT_ERROR(batch().assign(x, 1.0), errc::invalid_argument, HasSubstr("another runtime"));
}

TEST_P(BatchTest, TimelineShowsTheTasksOfAFlush) {
  class Flushes : public TraceWriter {
   public:
    void write(const Trace& piece) override {
      for (const TraceEvent& event : piece.events)
        if (event.kind == TraceEvent::Kind::flush) tasks.push_back(event.count);
    }
    void finish() override {}
    std::vector<std::uint32_t> tasks;
  };
  const auto x = filled_with(std::vector<float>(8, 1.0F));
  const auto y = filled_with(std::vector<float>(20, 1.0F));
  const auto flushes = std::make_shared<Flushes>();
  runtime().start_trace(flushes);
  // Shapes that do not fit into one program.
  batch().assign(x, Expression(TensorView(x)) + 1.0);
  batch().assign(y, Expression(TensorView(y)) + 1.0);
  batch().flush().wait();
  runtime().stop_trace();
  ASSERT_EQ(flushes->tasks.size(), 1U);
  EXPECT_EQ(flushes->tasks[0], batch().stats().tasks);
  EXPECT_GE(flushes->tasks[0], 2U);
}

}  // namespace
}  // namespace dwell::test
