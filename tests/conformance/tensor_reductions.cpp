// Reductions of tensors, compared with plain loops.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/conformance/accuracy.hpp"
#include "tests/conformance/tensor_test.hpp"

namespace dwell::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class TensorReductionTest : public TensorTest {
 protected:
  void run() { batch().flush().wait(); }
};
DWELL_ON_EVERY_DEVICE(TensorReductionTest);

// ---- Plain loops -----------------------------------------------------------------------------------------------------------------

// Double results must be as accurate as float ones.
double sum_of(const std::vector<double>& x) { return static_cast<double>(std::accumulate(x.begin(), x.end(), 0.0L)); }

double reference(Reduction reduction, const std::vector<double>& x, double parameter) {
  const auto n = static_cast<double>(x.size());
  const double sum = sum_of(x);
  switch (reduction) {
    case Reduction::sum: return sum;
    case Reduction::mean: return sum / n;
    case Reduction::prod: {
      double product = 1;
      for (const double value : x) product *= value;
      return product;
    }
    case Reduction::amax:
    case Reduction::amin:
    case Reduction::argmax:
    case Reduction::argmin: {
      const bool most = reduction == Reduction::amax || reduction == Reduction::argmax;
      std::size_t best = 0;
      for (std::size_t i = 1; i < x.size(); ++i) {
        if (std::isnan(x[best])) break;
        if (std::isnan(x[i]) || (most ? x[i] > x[best] : x[i] < x[best])) best = i;
      }
      return reduction == Reduction::amax || reduction == Reduction::amin ? x[best] : static_cast<double>(best);
    }
    case Reduction::any: return static_cast<double>(std::ranges::any_of(x, [](double value) { return value != 0; }));
    case Reduction::all: return static_cast<double>(std::ranges::all_of(x, [](double value) { return value != 0; }));
    case Reduction::var:
    case Reduction::stddev: {
      long double squares = 0;
      for (const double value : x) squares += (value - sum / n) * (value - sum / n);
      const double variance = static_cast<double>(squares) / std::max(0.0, n - parameter);
      return reduction == Reduction::var ? variance : std::sqrt(variance);
    }
    case Reduction::norm: {
      long double result = parameter == -kInfinity ? std::numeric_limits<long double>::infinity() : 0;
      for (const double value : x) {
        const double size = std::fabs(value);
        if (parameter == kInfinity)
          result = std::max<long double>(result, size);
        else if (parameter == -kInfinity)
          result = std::min<long double>(result, size);
        else
          result += parameter == 0 ? static_cast<long double>(size != 0) : std::pow(size, parameter);
      }
      const auto all = static_cast<double>(result);
      return std::isinf(parameter) || parameter == 0 ? all : std::pow(all, 1 / parameter);
    }
    case Reduction::logsumexp: {
      double most = -kInfinity;
      for (const double value : x) most = std::max(most, value);
      if (std::isinf(most)) most = 0;
      long double exponentials = 0;
      for (const double value : x) exponentials += std::exp(value - most);
      return std::log(static_cast<double>(exponentials)) + most;
    }
  }
  return 0;
}

double root_of_squares(const std::vector<double>& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

constexpr Reduction kAll[] = {Reduction::sum,    Reduction::mean,   Reduction::prod,     Reduction::amax, Reduction::amin,
                              Reduction::argmax, Reduction::argmin, Reduction::any,      Reduction::all,  Reduction::var,
                              Reduction::stddev, Reduction::norm,   Reduction::logsumexp};

// ---- Layouts ---------------------------------------------------------------------------------------------------------------------

// The elements along the axes, one vector for each result, in row-major order.
template <class T>
std::vector<std::vector<double>> rows_of(const std::vector<T>& memory, std::int64_t first, const Dims& shape, const Dims& strides,
                                         const std::vector<bool>& along) {
  std::vector<std::vector<double>> rows;
  std::vector<std::int64_t> at(shape.size());
  const auto walk = [&](auto&& self, std::size_t dim, bool inner, const auto& visit) -> void {
    if (dim == shape.size()) return visit();
    if (along[dim] != inner) return self(self, dim + 1, inner, visit);
    for (at[dim] = 0; at[dim] < shape[dim]; ++at[dim]) self(self, dim + 1, inner, visit);
  };
  walk(walk, 0, false, [&] {
    rows.emplace_back();
    walk(walk, 0, true, [&] {
      std::int64_t offset = first;
      for (std::size_t dim = 0; dim < shape.size(); ++dim) offset += at[dim] * strides[dim];
      rows.back().push_back(static_cast<double>(memory[static_cast<std::size_t>(offset)]));
    });
  });
  return rows;
}

struct Layout {
  Dims shape;
  Dims strides;
  std::int64_t first = 0;
};

// One more than the highest index of its elements.
std::int64_t reach(const Layout& layout) {
  std::int64_t reach = layout.first + 1;
  for (std::size_t dim = 0; dim < layout.shape.size(); ++dim)
    reach += std::max<std::int64_t>(0, layout.strides[dim]) * std::max<std::int64_t>(0, layout.shape[dim] - 1);
  return reach;
}

// Dimensions in random order, some reversed, repeated or with gaps.
Layout random_layout(Random& random, const Dims& shape) {
  Layout layout{shape, shape};
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  if (random() % 3 == 0) std::ranges::sort(order, std::greater<>());  // row-major
  std::int64_t step = random() % 4 == 0 ? 2 : 1;
  for (const std::size_t dim : order) {
    layout.strides[dim] = step;
    step *= shape[dim] + (random() % 4 == 0 ? 1 : 0);
    if (random() % 5 == 0) {
      layout.first += (shape[dim] - 1) * layout.strides[dim];
      layout.strides[dim] = -layout.strides[dim];
    } else if (random() % 8 == 0) {
      layout.strides[dim] = 0;
    }
  }
  return layout;
}

template <class T>
constexpr ElementType kType = ElementType::f32;
template <>
constexpr ElementType kType<double> = ElementType::f64;
template <>
constexpr ElementType kType<half> = ElementType::f16;
template <>
constexpr ElementType kType<bfloat16> = ElementType::bf16;
template <>
constexpr ElementType kType<std::int8_t> = ElementType::i8;
template <>
constexpr ElementType kType<std::int16_t> = ElementType::i16;
template <>
constexpr ElementType kType<std::int32_t> = ElementType::i32;
template <>
constexpr ElementType kType<i64> = ElementType::i64;
template <>
constexpr ElementType kType<std::uint8_t> = ElementType::u8;
template <>
constexpr ElementType kType<bool> = ElementType::boolean;

template <class T>
constexpr bool kFloating =
    kType<T> == ElementType::f32 || kType<T> == ElementType::f64 || kType<T> == ElementType::f16 || kType<T> == ElementType::bf16;

// std::vector<bool> stores no addressable elements.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

// Small random numbers. Every fourth vector has few distinct ones, to get ties.
template <class T>
std::vector<Stored<T>> numbers(Random& random, std::size_t count) {
  std::vector<Stored<T>> values(count);
  const bool coarse = random() % 4 == 0;
  for (Stored<T>& value : values) {
    if constexpr (std::is_same_v<T, bool>)
      value = random() % 2;
    else if constexpr (kFloating<T>)
      value = static_cast<T>(coarse ? static_cast<float>(static_cast<int>(random() % 5) - 2) / 2
                                    : static_cast<float>(random()) / 2147483648.0F - 1.0F);
    else
      value = static_cast<T>(static_cast<int>(random() % 21) - (std::is_signed_v<T> ? 10 : 0));
  }
  return values;
}

TensorView view_of(std::uint64_t address, ElementType type, const Layout& layout) {
  return {address + static_cast<std::uint64_t>(layout.first) * bytes_of(type), type, layout.shape, layout.strides};
}
template <class T>
std::uint64_t address_of(const Buffer<T>& buffer) {
  return reinterpret_cast<std::uint64_t>(buffer.data());
}

// Applies all reductions of the type along some axes, and compares.
template <class T>
void check_reductions(Runtime& runtime, Batch& batch, Random& random, const Layout& layout, const Dims& axes, bool keep) {
  const std::vector<Stored<T>> memory = numbers<T>(random, static_cast<std::size_t>(reach(layout)));
  Buffer<Stored<T>> given = runtime.allocate<Stored<T>>(memory.size());
  given.write(memory);
  const TensorView x = view_of(address_of(given), kType<T>, layout);
  std::vector<bool> along(layout.shape.size(), axes.size() == 0);
  for (const std::int64_t axis : axes)
    along[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(along.size()) : axis)] = true;
  const auto rows = rows_of(memory, layout.first, layout.shape, layout.strides, along);
  const Dims shape = reduced_shape(layout.shape, axes, keep);
  constexpr double kExponents[] = {2, 1, 0, 3.5, kInfinity, -kInfinity};
  const double exponent = kExponents[random() % 6];
  std::vector<Buffer<double>> results;
  for (const Reduction reduction : kAll) {
    results.push_back(runtime.allocate<double>(rows.size()));
    // Results in PyTorch's type, read as doubles.
    ElementType type = ElementType::f64;
    if (kFloating<T> ||
        (reduction != Reduction::mean && reduction != Reduction::var && reduction != Reduction::stddev && reduction != Reduction::norm))
      type = result_of(reduction, kType<T>);
    Buffer<std::byte> own = runtime.allocate<std::byte>(rows.size() * bytes_of(type));
    const TensorView result(reinterpret_cast<std::uint64_t>(own.data()), type, shape);
    batch.reduce(reduction, result, x, axes, reduction == Reduction::norm ? exponent : 1);
    batch.assign(TensorView(results.back(), shape), result);
    batch.flush().wait();
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Reduction reduction = kAll[i];
    const std::vector<double> got = read(results[i]);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const double expected = reference(reduction, rows[row], reduction == Reduction::norm ? exponent : 1);
      if (got[row] == expected || (std::isnan(got[row]) && std::isnan(expected))) continue;
      // Integer products wrap, which doubles do not represent.
      if (!kFloating<T> && reduction == Reduction::prod && !(std::fabs(expected) < 9e15)) continue;
      const ElementType accuracy = kFloating<T> ? kType<T> : reduction == Reduction::logsumexp ? ElementType::f32 : ElementType::f64;
      const double size = std::max(std::fabs(expected), reduction == Reduction::sum ? root_of_squares(rows[row]) : 0.0);
      ASSERT_NEAR(got[row], expected, allowed_error(accuracy, size))
          << name_of(reduction) << " of " << name_of(kType<T>) << ", shape " << to_string(layout.shape) << ", strides "
          << to_string(layout.strides) << ", axes " << to_string(axes) << ", row " << row << ", exponent " << exponent;
    }
  }
}

template <class F>
void for_each_type(F f) {
  f(float{}), f(double{}), f(half{}), f(bfloat16{}), f(std::int8_t{}), f(std::int16_t{}), f(std::int32_t{}), f(i64{}), f(std::uint8_t{}),
      f(bool{});
}

TEST_P(TensorReductionTest, AnyLength) {
  Random random(1);
  for (const std::int64_t length : {0, 1, 2, 31, 32, 33, 127, 128, 129, 1000, 100'000}) {
    if (length == 0) continue;  // covered by EmptyReductions
    const auto check = [&]<class T>(T) {
      // A single row, and a few rows, contiguous and as columns.
      check_reductions<T>(runtime(), batch(), random, {{length}, {1}}, {}, false);
      if (length <= 1000) {
        check_reductions<T>(runtime(), batch(), random, {{5, length}, {length, 1}}, {1}, true);
        check_reductions<T>(runtime(), batch(), random, {{length, 37}, {37, 1}}, {0}, false);
      }
    };
    if (length == 1000 || length == 33)
      for_each_type(check);
    else
      check(float{}), check(half{}), check(i64{});
  }
}

TEST_P(TensorReductionTest, AnyLayout) {
  Random random(2);
  const auto start = Clock::now();
  for (int round = 0; round < 60 && Clock::now() - start < 20s; ++round) {
    Dims shape;
    const std::size_t dims = random() % 6;
    for (std::size_t dim = 0; dim < dims; ++dim) shape.push_back(1 + random() % (dims > 3 ? 5 : dims == 1 ? 3000 : 70));
    Dims axes;
    for (std::size_t dim = 0; dim < dims; ++dim)
      if (random() % 2 == 0) axes.push_back(static_cast<std::int64_t>(dim) - (random() % 2 == 0 ? static_cast<std::int64_t>(dims) : 0));
    const Layout layout = random_layout(random, shape);
    const bool keep = random() % 2 == 0;
    int next = 0;
    const int chosen = static_cast<int>(random() % 10);
    for_each_type([&]<class T>(T) {
      if (next++ == chosen) check_reductions<T>(runtime(), batch(), random, layout, axes, keep);
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(TensorReductionTest, LongRows) {
  Random random(3);
  check_reductions<float>(runtime(), batch(), random, {{3, 40'000}, {40'000, 1}}, {1}, false);
  check_reductions<double>(runtime(), batch(), random, {{40'000, 20}, {20, 1}}, {0}, false);
  check_reductions<std::int32_t>(runtime(), batch(), random, {{20'011, 2}, {2, 1}}, {0}, false);
  check_reductions<bfloat16>(runtime(), batch(), random, {{7, 70, 301}, {21'070, 1, 70}}, {1, 2}, true);
}

TEST_P(TensorReductionTest, EmptyReductions) {
  const auto memory = filled_with(std::vector<float>{1});
  const TensorView x(memory, {1});
  const TensorView none = x.slice(0, 0, 0).reshape({0, 1}).expand({0, 3});
  const auto result = filled_with(std::vector<float>(3, 7));
  const auto value = [&](Reduction reduction, double parameter = 1) {
    batch().reduce(reduction, result, none, {0}, parameter);
    run();
    return read(result);
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(value(Reduction::sum), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(value(Reduction::prod), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(value(Reduction::any), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(value(Reduction::all), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(value(Reduction::norm, 2), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(value(Reduction::logsumexp), (std::vector<float>{-inf, -inf, -inf}));
  for (const Reduction reduction : {Reduction::mean, Reduction::var, Reduction::stddev}) EXPECT_TRUE(std::isnan(value(reduction)[1]));
  for (const Reduction reduction : {Reduction::amax, Reduction::amin, Reduction::argmax, Reduction::argmin})
    DWELL_EXPECT_ERROR(value(reduction), errc::invalid_argument, AllOf(HasSubstr("no elements"), HasSubstr("(0, 3)")));
  DWELL_EXPECT_ERROR(value(Reduction::norm, kInfinity), errc::invalid_argument, HasSubstr("no elements"));
  // No results: nothing to do.
  batch().amax(x.slice(0, 0, 0), none, {1});
  batch().softmax(none, none, 0);
  EXPECT_TRUE(batch().flush().done());
}

TEST_P(TensorReductionTest, NansArePropagated) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t length : {40UL, 20'000UL}) {
    std::vector<float> x(4 * length, 1.0F);
    x[length / 2] = nan, x[length / 2 + 3] = nan;                                    // row 0
    x[length + 5] = inf, x[length + 9] = inf;                                        // row 1
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(2 * length), length, -inf);  // row 2
    x[3 * length + 7] = -inf;                                                        // row 3
    const auto n = static_cast<std::int64_t>(length);
    const auto given = filled_with(x);
    const TensorView rows(given, {4, n});
    const auto result = runtime().allocate<float>(4);
    const auto places = runtime().allocate<i64>(4);
    const auto value = [&](Reduction reduction) {
      batch().reduce(reduction, result, rows, {1}, 1);
      run();
      return read(result);
    };
    const std::vector<float> most = value(Reduction::amax);
    EXPECT_TRUE(std::isnan(most[0]));
    EXPECT_EQ(most[1], inf);
    EXPECT_EQ(most[2], -inf);
    const std::vector<float> least = value(Reduction::amin);
    EXPECT_TRUE(std::isnan(least[0]));
    EXPECT_EQ(least[3], -inf);
    batch().max(result, places, rows, 1);
    run();
    EXPECT_EQ(read(places), (std::vector<i64>{n / 2, 5, 0, 0}));
    EXPECT_TRUE(std::isnan(read(result)[0]));
    EXPECT_EQ(read(result)[1], inf);
    batch().min(result, places, rows, 1);
    run();
    EXPECT_EQ(read(places), (std::vector<i64>{n / 2, 0, 0, 7}));
    const std::vector<float> sums = value(Reduction::logsumexp);
    EXPECT_TRUE(std::isnan(sums[0]));
    EXPECT_EQ(sums[1], inf);
    EXPECT_EQ(sums[2], -inf);
    EXPECT_NEAR(sums[3], 1 + std::log(static_cast<double>(n - 1)), 1e-4);
    const std::vector<float> all = value(Reduction::sum);
    EXPECT_TRUE(std::isnan(all[0]));
    EXPECT_EQ(all[1], inf);
    EXPECT_TRUE(std::isnan(value(Reduction::var)[1]));
    EXPECT_EQ(value(Reduction::any)[0], 1);
  }
}

TEST_P(TensorReductionTest, SumsAreBetterThanSequential) {
  // A sequential sum of so many elements would be off by more than a percent.
  const auto x = filled_with(std::vector<float>(3'000'000, 0.1F));
  const auto result = runtime().allocate<float>(1);
  batch().sum(result, TensorView(x, {1, 3'000'000}), {1});
  run();
  EXPECT_NEAR(read(result)[0], 3e6 * static_cast<double>(0.1F), 0.6);
  // A mean far from 0 does not distort the variance.
  std::vector<float> far(50'000);
  for (std::size_t i = 0; i < far.size(); ++i) far[i] = 10'000.0F + static_cast<float>(i % 2);
  const auto given = filled_with(far);
  batch().var(result, TensorView(given, {1, 50'000}), {1}, 0);
  run();
  EXPECT_NEAR(read(result)[0], 0.25, 1e-3);
}

TEST_P(TensorReductionTest, EqualElementsHaveNoVariance) {
  // The sum of equal numbers, divided by their count, may round to another number. The CPU sums floats in 64 bits, so only doubles show it
  // there.
  const auto check = [&]<class T>(T element, std::size_t n) {
    SCOPED_TRACE(n);
    const auto x = filled_with(std::vector<T>(3 * n, element));
    const auto rows = runtime().allocate<T>(3);
    const auto size = static_cast<std::int64_t>(n);
    for (const Reduction reduction : {Reduction::var, Reduction::stddev}) {
      batch().reduce(reduction, rows, TensorView(x, {3, size}), {1}, 1);
      run();
      EXPECT_EQ(read(rows), std::vector<T>(3));
      batch().reduce(reduction, rows, TensorView(x, {size, 3}), {0}, 1);
      run();
      EXPECT_EQ(read(rows), std::vector<T>(3));
    }
  };
  for (const std::size_t n : {3U, 7U, 125U, 1000U, 100'000U}) {
    check(0.1F, n);
    check(0.1, n);
  }
}

TEST_P(TensorReductionTest, IntegersWrapAndTypesAreConverted) {
  const auto bytes = filled_with(std::vector<std::uint8_t>(1000, 255));
  const auto sum = runtime().allocate<i64>(1);
  const auto narrow = runtime().allocate<std::uint8_t>(1);
  const auto mean = runtime().allocate<half>(1);
  batch().sum(TensorView(sum, {}), bytes);
  batch().sum(TensorView(narrow, {}), bytes);
  batch().mean(TensorView(mean, {}), bytes);
  run();
  EXPECT_EQ(read(sum)[0], 255'000);
  EXPECT_EQ(read(narrow)[0], static_cast<std::uint8_t>(255'000));
  EXPECT_EQ(static_cast<float>(read(mean)[0]), 255.0F);
  const auto large = filled_with(std::vector<i64>{std::numeric_limits<i64>::max(), 1, 16777217});
  batch().sum(sum, large);
  run();
  EXPECT_EQ(read(sum)[0], std::numeric_limits<i64>::min() + 16777217);
  // Floats that a sum in f32 would lose.
  const auto floats = filled_with(std::vector<float>{1e8F, 1, -1e8F});
  const auto exact = runtime().allocate<double>(1);
  batch().sum(exact, floats);
  run();
  EXPECT_EQ(read(exact)[0], 1);
  EXPECT_EQ(result_of(Reduction::sum, ElementType::i8), ElementType::i64);
  EXPECT_EQ(result_of(Reduction::prod, ElementType::boolean), ElementType::i64);
  EXPECT_EQ(result_of(Reduction::amin, ElementType::u8), ElementType::u8);
  EXPECT_EQ(result_of(Reduction::logsumexp, ElementType::i32), ElementType::f32);
  EXPECT_EQ(result_of(Reduction::norm, ElementType::bf16), ElementType::bf16);
}

TEST_P(TensorReductionTest, MismatchesAreRefused) {
  const auto x = runtime().allocate<float>(12);
  const auto y = runtime().allocate<float>(12);
  const auto n = runtime().allocate<i64>(12);
  const TensorView from(x, {3, 4});
  const auto to = [&](const Dims& shape) { return TensorView(address_of(y), ElementType::f32, shape); };
  const auto whole = [&](const Dims& shape) { return TensorView(address_of(n), ElementType::i64, shape); };
  constexpr errc kInvalid = errc::invalid_argument;
  DWELL_EXPECT_ERROR(batch().sum(to({4}), from, {1}), kInvalid,
                     HasSubstr("sum of shape (3, 4) along (1,) has the shape (3,) or (3, 1), not (4,)"));
  DWELL_EXPECT_ERROR(batch().sum(to({3}), from, {2}), kInvalid, HasSubstr("dimension 2 does not exist"));
  DWELL_EXPECT_ERROR(batch().sum(to({}), from, {1, -1}), kInvalid, HasSubstr("named twice"));
  DWELL_EXPECT_ERROR(batch().sum(whole({3}), from, {1}), kInvalid, HasSubstr("sum of f32 does not fit a result of i64"));
  DWELL_EXPECT_ERROR(batch().mean(whole({3}), whole({3, 4}), {1}), kInvalid, HasSubstr("mean of i64"));
  DWELL_EXPECT_ERROR(result_of(Reduction::mean, ElementType::i64), kInvalid, HasSubstr("mean of i64 has no type"));
  DWELL_EXPECT_ERROR(batch().sum(to({1}).expand({3}), from, {1}), kInvalid, HasSubstr("share memory"));
  DWELL_EXPECT_ERROR(batch().softmax(to({4, 3}), from, 1), kInvalid, HasSubstr("softmax of shape (3, 4)"));
  DWELL_EXPECT_ERROR(batch().softmax(whole({3, 4}), from, 1), kInvalid, HasSubstr("softmax of f32"));
  DWELL_EXPECT_ERROR(batch().layer_norm(to({3, 4}), from, {3}), kInvalid, HasSubstr("along its last dimensions, not (3,)"));
  DWELL_EXPECT_ERROR(batch().layer_norm(to({3, 4}), from, {4}, to({3})), kInvalid, HasSubstr("weights of layer_norm"));
  DWELL_EXPECT_ERROR(batch().sum(to({}), TensorView(4096, ElementType::u32, {3})), errc::unsupported, HasSubstr("u32"));
  EXPECT_TRUE(batch().flush().done());
}

// ---- Replaced rows ---------------------------------------------------------------------------------------------------------------

struct Replaced {
  const char* name;
  std::function<void(Batch&, const TensorView&, const TensorView&, std::int64_t)> run;
  std::function<std::vector<double>(const std::vector<double>&)> reference;
};

const std::vector<Replaced>& replacements() {
  static const std::vector<Replaced> all = {
      {"softmax", [](Batch& b, const TensorView& to, const TensorView& x, std::int64_t axis) { b.softmax(to, x, axis); },
       [](const std::vector<double>& x) {
         std::vector<double> y = x;
         for (double& value : y) value = std::exp(value - reference(Reduction::logsumexp, x, 0));
         return y;
       }},
      {"log_softmax", [](Batch& b, const TensorView& to, const TensorView& x, std::int64_t axis) { b.log_softmax(to, x, axis); },
       [](const std::vector<double>& x) {
         std::vector<double> y = x;
         for (double& value : y) value -= reference(Reduction::logsumexp, x, 0);
         return y;
       }},
      {"cumsum", [](Batch& b, const TensorView& to, const TensorView& x, std::int64_t axis) { b.cumsum(to, x, axis); },
       [](const std::vector<double>& x) {
         std::vector<double> y = x;
         std::partial_sum(x.begin(), x.end(), y.begin());
         return y;
       }},
  };
  return all;
}

template <class T>
void check_replaced(Runtime& runtime, Batch& batch, Random& random, const Replaced& of, const Layout& layout, std::int64_t axis,
                    bool in_place) {
  std::vector<T> memory = numbers<T>(random, static_cast<std::size_t>(reach(layout)));
  Buffer<T> given = runtime.allocate<T>(memory.size());
  given.write(memory);
  std::int64_t elements = 1;
  for (const std::int64_t size : layout.shape) elements *= size;
  Buffer<T> result = runtime.allocate<T>(static_cast<std::size_t>(elements));
  std::vector<bool> along(layout.shape.size());
  along[static_cast<std::size_t>(axis)] = true;
  const auto rows = rows_of(memory, layout.first, layout.shape, layout.strides, along);
  const TensorView x = view_of(address_of(given), kType<T>, layout);
  const TensorView y(result, layout.shape);
  of.run(batch, in_place ? x : y, x, axis);
  if (in_place) batch.assign(y, x);
  batch.flush().wait();
  const auto got = rows_of(read(result), 0, layout.shape, TensorView::row_major(layout.shape), along);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    // Computed once for each row: the reference reads the whole row.
    const bool sum = std::string_view(of.name) == "cumsum";
    const double all = sum ? 0 : reference(Reduction::logsumexp, rows[row], 0);
    long double running = 0;
    double squares = 0;
    for (std::size_t i = 0; i < rows[row].size(); ++i) {
      running += rows[row][i];
      squares += rows[row][i] * rows[row][i];
      const double less = rows[row][i] - all;
      const double expected = sum ? static_cast<double>(running) : std::string_view(of.name) == "softmax" ? std::exp(less) : less;
      const double size = std::max(std::fabs(expected), sum ? std::sqrt(squares) : 0.0);
      ASSERT_NEAR(got[row][i], expected, allowed_error(kType<T>, size))
          << of.name << " of " << name_of(kType<T>) << ", shape " << to_string(layout.shape) << ", strides " << to_string(layout.strides)
          << ", axis " << axis << ", row " << row << ", column " << i;
    }
  }
}

TEST_P(TensorReductionTest, RowsAreReplaced) {
  Random random(4);
  for (const Replaced& of : replacements()) {
    for (const std::int64_t length : {1, 2, 31, 32, 33, 127, 128, 129, 1000, 30'000}) {
      check_replaced<float>(runtime(), batch(), random, of, {{3, length}, {length, 1}}, 1, random() % 2 == 0);
      check_replaced<half>(runtime(), batch(), random, of, {{length, 9}, {9, 1}}, 0, random() % 2 == 0);
      if (HasFatalFailure()) return;
    }
    check_replaced<double>(runtime(), batch(), random, of, {{100'000}, {1}}, 0, false);
    check_replaced<bfloat16>(runtime(), batch(), random, of, {{300, 20}, {20, 1}}, 1, true);
  }
  for (int round = 0; round < 60; ++round) {
    Dims shape;
    const std::size_t dims = 1 + random() % 4;
    for (std::size_t dim = 0; dim < dims; ++dim) shape.push_back(1 + random() % (dims > 3 ? 9 : 40));
    const Layout layout = random_layout(random, shape);
    check_replaced<float>(runtime(), batch(), random, replacements()[random() % 3], layout, static_cast<std::int64_t>(random() % dims),
                          false);
    if (HasFatalFailure()) return;
  }
  const auto whole = filled_with(std::vector<std::int32_t>{1, 2, -3, 4});
  const auto sums = runtime().allocate<i64>(4);
  batch().cumsum(sums, whole, 0);
  run();
  EXPECT_EQ(read(sums), (std::vector<i64>{1, 3, 0, 4}));
}

TEST_P(TensorReductionTest, SoftmaxOfInfinities) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto x = filled_with(std::vector<float>{-inf, 0, 0, -inf, -inf, -inf, inf, 0, 0, 300, 0, 300});
  const auto y = runtime().allocate<float>(12);
  batch().softmax(TensorView(y, {4, 3}), TensorView(x, {4, 3}), -1);
  run();
  const std::vector<float> got = read(y);
  EXPECT_EQ((std::vector<float>(got.begin(), got.begin() + 3)), (std::vector<float>{0, 0.5F, 0.5F}));
  for (std::size_t i = 3; i < 9; ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
  EXPECT_EQ(got[9], 0.5F);
}

TEST_P(TensorReductionTest, Normalisation) {
  Random random(5);
  const auto check = [&]<class T>(T, const Dims& shape, const Dims& last) {
    std::int64_t columns = 1;
    for (const std::int64_t size : last) columns *= size;
    const auto n = static_cast<std::size_t>(columns);
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    const std::vector<T> values = numbers<T>(random, static_cast<std::size_t>(elements));
    const std::vector<T> weights = numbers<T>(random, n);
    const std::vector<T> biases = numbers<T>(random, n);
    const auto x = filled_with(values);
    const auto w = filled_with(weights);
    const auto b = filled_with(biases);
    const auto y = runtime().template allocate<T>(values.size());
    const TensorView from(x, shape);
    const TensorView to(y, shape);
    for (int way = 0; way < 5; ++way) {
      const bool rms = way == 2 || way == 3;
      const bool weighted = way == 0 || way == 2;
      std::optional<TensorView> weight;
      std::optional<TensorView> bias;
      if (weighted) weight = TensorView(w, last);
      if (way == 0 || way == 4) bias = TensorView(b, last);  // also without weights
      if (rms)
        batch().rms_norm(to, from, last, weight, 1e-3);
      else
        batch().layer_norm(to, from, last, weight, bias, 1e-3);
      run();
      const std::vector<T> got = read(y);
      for (std::size_t row = 0; row < values.size() / n; ++row) {
        std::vector<double> all;
        for (std::size_t i = 0; i < n; ++i) all.push_back(static_cast<double>(values[row * n + i]));
        const double mean = rms ? 0 : reference(Reduction::mean, all, 0);
        double square = 0;
        for (const double value : all) square += (value - mean) * (value - mean);
        const double scale = 1 / std::sqrt(square / static_cast<double>(n) + 1e-3);
        for (std::size_t i = 0; i < n; ++i) {
          double expected = (all[i] - mean) * scale;
          if (weight) expected *= static_cast<double>(weights[i]);
          if (bias) expected += static_cast<double>(biases[i]);
          ASSERT_NEAR(static_cast<double>(got[row * n + i]), expected, allowed_error(kType<T>, std::fabs(expected)))
              << "way " << way << ", shape " << to_string(shape) << ", row " << row << ", column " << i;
        }
      }
    }
  };
  check(float{}, {5, 64}, {64});
  check(float{}, {200, 33}, {33});
  check(float{}, {2, 3, 5, 7}, {5, 7});
  check(float{}, {2, 30'000}, {30'000});
  check(half{}, {4, 1000}, {1000});
  check(double{}, {3, 1}, {1});
}

// ---- Order -----------------------------------------------------------------------------------------------------------------------

TEST_P(TensorReductionTest, TheOrderDoesNotDependOnWorkers) {
  Random random(6);
  const std::vector<float> values = numbers<float>(random, 200'000);
  const auto results = [&](unsigned workers) {
    Options some = options();
    some.workers = workers;
    Runtime runtime(some);
    Batch batch(runtime);
    Buffer<float> x = runtime.allocate<float>(values.size());
    x.write(values);
    Buffer<float> y = runtime.allocate<float>(200'000 + 5000);
    const TensorView all(y);
    std::int64_t next = 0;
    const auto place = [&](std::int64_t count) { return all.slice(0, (next += count) - count, count); };
    for (const Dims& shape : {Dims{1, 200'000}, Dims{20, 10'000}, Dims{1000, 200}, Dims{2000, 100}}) {
      batch.sum(place(shape[0]), TensorView(x, shape), {1});
      if (shape[1] <= 1000) batch.var(place(shape[1]), TensorView(x, shape), {0});
    }
    batch.norm(place(1).select(0, 0), x, 2);
    batch.logsumexp(place(1).select(0, 0), x);
    batch.mean(place(1).select(0, 0), TensorView(x, {400, 500}).transpose(0, 1), {0, 1});
    batch.flush().wait();
    std::vector<float> got = read(y);
    got.resize(static_cast<std::size_t>(next));
    batch.cumsum(all.slice(0, 0, 200'000), x, 0);
    batch.flush().wait();
    const std::vector<float> sums = read(y);
    got.insert(got.end(), sums.begin(), sums.begin() + 200'000);
    return got;
  };
  const std::vector<float> one = results(1);
  const std::vector<float> four = results(4);
  ASSERT_EQ(one.size(), four.size());
  EXPECT_EQ(std::memcmp(one.data(), four.data(), one.size() * sizeof(float)), 0);
}

TEST_P(TensorReductionTest, ResultsMayOverlapOperands) {
  constexpr std::size_t kColumns = 20'000;
  std::vector<float> values(5 * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
  const auto x = filled_with(values);
  const TensorView all(x, {5, kColumns});
  // Order with operations before and after follows from memory.
  batch().assign(all, Expression(all) + 1.0);
  batch().sum(all.select(0, 4).slice(0, 3, 5), all, {1});
  batch().amax(all.select(1, 0), all, {1});
  batch().cumsum(all.slice(1, 0, kColumns - 1), all.slice(1, 1, kColumns - 1), 1);
  run();
  for (float& value : values) value += 1;
  const auto row = [&](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i * kColumns); };
  std::vector<float> sums;
  for (std::size_t i = 0; i < 5; ++i) sums.push_back(std::accumulate(row(i), row(i) + kColumns, 0.0F));
  std::ranges::copy(sums, row(4) + 3);
  for (std::size_t i = 0; i < 5; ++i) *row(i) = *std::max_element(row(i), row(i) + kColumns);
  for (std::size_t i = 0; i < 5; ++i) std::partial_sum(row(i) + 1, row(i) + kColumns, row(i));
  EXPECT_EQ(read(x), values);
  // Rows that are read after other results were written.
  std::vector<float> short_rows(10'000, 1.0F);
  const auto z = filled_with(short_rows);
  batch().sum(TensorView(z).slice(0, 5000, 1000), TensorView(z, {1000, 10}), {1});
  run();
  std::fill_n(short_rows.begin() + 5000, 1000, 10.0F);
  EXPECT_EQ(read(z), short_rows);
}

}  // namespace
}  // namespace dwell::test
