// Products of matrices, and elements that an index chooses, against the same in plain loops.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>

#include <dwell/batch.hpp>

#include "tests/conformance/suite.hpp"
#include "tests/conformance/tensor_places.hpp"

namespace dwell::test {
namespace {

// ---- Tensors in memory of any layout -------------------------------------------------------------------------------------------------

// How the elements of a tensor lie in memory.
enum class Lie : unsigned char { rows, columns, gaps, backwards };
constexpr Lie kAllLies[] = {Lie::rows, Lie::columns, Lie::gaps, Lie::backwards};

// Numbers of any type that tensors have, as doubles hold them. Those of 64 bits lie within 2^53.
template <class T>
double number(T element) {
  return static_cast<double>(element);
}
double number(half element) { return static_cast<double>(static_cast<float>(element)); }
double number(bfloat16 element) { return static_cast<double>(static_cast<float>(element)); }

// The element that a number is rounded to, or of which it has the lower bits.
template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::int64_t>(value));
  else if constexpr (sizeof(T) == 2)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

std::size_t place(const Dims& strides, const std::vector<std::int64_t>& at, std::int64_t first) {
  std::int64_t offset = first;
  for (std::size_t dim = 0; dim < at.size(); ++dim) offset += at[dim] * strides[dim];
  return static_cast<std::size_t>(offset);
}

// A tensor and the memory around it, in which nothing else may change.
template <class T>
class Placed {
 public:
  // A vector<bool> has no elements in memory.
  using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

  Placed(Runtime& runtime, const Dims& shape, Lie lie) {
    Dims strides = TensorView::row_major(shape);
    if (lie == Lie::columns) {  // the last two dimensions, or the only one with a gap
      Dims turned = shape;
      const std::size_t dims = shape.size();
      if (dims > 1) std::swap(turned[dims - 1], turned[dims - 2]);
      strides = TensorView::row_major(turned);
      if (dims > 1) std::swap(strides[dims - 1], strides[dims - 2]);
    }
    first_ = 3;
    if (lie == Lie::gaps)
      for (std::size_t dim = 0; dim < shape.size(); ++dim) strides[dim] *= dim + 1 == shape.size() ? 2 : 3;
    std::int64_t reach = 0;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) reach += std::max<std::int64_t>(shape[dim] - 1, 0) * strides[dim];
    if (lie == Lie::rows) first_ = 0;
    if (lie == Lie::backwards)
      for (std::size_t dim = 0; dim < shape.size(); ++dim) {
        first_ += std::max<std::int64_t>(shape[dim] - 1, 0) * strides[dim];
        strides[dim] = -strides[dim];
      }
    memory_ = std::vector<Stored>(static_cast<std::size_t>(reach) + 8, element<T>(77));
    buffer_ = runtime.allocate<Stored>(memory_.size());
    const TensorView all(buffer_);
    view_ = TensorView(all.address() + static_cast<std::uint64_t>(first_) * sizeof(T),
                       std::is_same_v<T, bool> ? ElementType::boolean : all.type(), shape, strides);
    buffer_.write(memory_);
  }

  const TensorView& view() const { return view_; }
  const Dims& shape() const { return view_.shape(); }
  // Of the memory as this program knows it.
  double at(const std::vector<std::int64_t>& where) const { return number(memory_[place(view_.strides(), where, first_)]); }
  void set(const std::vector<std::int64_t>& where, double value) { memory_[place(view_.strides(), where, first_)] = element<T>(value); }
  template <class F>
  Placed& fill(F f) {
    expect(f);
    buffer_.write(memory_);
    return *this;
  }
  // What the device should have written.
  template <class F>
  void expect(F f) {
    for_each(shape(), [&](const std::vector<std::int64_t>& where) { set(where, f(where)); });
  }
  // Where the device's memory differs from it, as bits; empty when it does not.
  std::string difference() const {
    const std::vector<Stored> got = read(buffer_);
    const auto bytes = [](const Stored& of) { return std::string_view(reinterpret_cast<const char*>(&of), sizeof(of)); };
    for (std::size_t i = 0; i < got.size(); ++i)
      if (bytes(got[i]) != bytes(memory_[i]))
        return "at " + std::to_string(static_cast<std::int64_t>(i) - first_) + ": " + std::to_string(number(got[i])) + " instead of " +
               std::to_string(number(memory_[i]));
    return {};
  }
  std::vector<Stored> elements() const {
    const std::vector<Stored> got = read(buffer_);
    std::vector<Stored> all;
    for_each(shape(), [&](const std::vector<std::int64_t>& where) { all.push_back(got[place(view_.strides(), where, first_)]); });
    return all;
  }

 private:
  Buffer<Stored> buffer_;
  std::vector<Stored> memory_;
  std::int64_t first_ = 0;
  TensorView view_;
};

using At = const std::vector<std::int64_t>&;

// An element of the product of two matrices, or of two of a batch.
template <class T>
double product(const Placed<T>& a, const Placed<T>& b, At at) {
  const std::size_t row = at.size() - 2;
  std::vector<std::int64_t> of_a = at;
  std::vector<std::int64_t> of_b = at;
  double sum = 0;
  for (std::int64_t d = 0; d < a.shape()[row + 1]; ++d) {
    of_a[row + 1] = d;
    of_b[row] = d;
    sum += a.at(of_a) * b.at(of_b);
  }
  return sum;
}

class TensorDenseTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    runtime_.emplace(options());
    batch_.emplace(*runtime_);
  }

  Runtime& runtime() { return *runtime_; }
  Batch& batch() { return *batch_; }
  Random& random() { return random_; }
  Lie lie() { return kAllLies[random_() % 4]; }
  // A quarter of a small number, whose products and their sums floats hold.
  double quarter() { return (static_cast<double>(random_() % 17) - 8) / 4; }
  double whole() { return static_cast<double>(random_() % 17) - 8; }

  template <class T>
  Placed<T> any(const Dims& shape) {
    Placed<T> made(runtime(), shape, lie());
    made.fill([&](const auto&) { return std::is_integral_v<T> ? whole() : quarter(); });
    return made;
  }

  // The same elements elsewhere.
  template <class T>
  Placed<T> copy_of(const Placed<T>& other) {
    Placed<T> made(runtime(), other.shape(), lie());
    made.fill([&](At at) { return other.at(at); });
    return made;
  }

  // Multiplies matrices whose products and sums are exact.
  template <class T>
  void check_product(std::int64_t m, std::int64_t n, std::int64_t k) {
    const Placed<T> a = any<T>({m, k});
    const Placed<T> b = any<T>({k, n});
    Placed<T> c(runtime(), {m, n}, lie());
    batch().mm(c.view(), a.view(), b.view());
    batch().flush().wait();
    c.expect([&](const std::vector<std::int64_t>& at) { return product(a, b, at); });
    ASSERT_EQ(c.difference(), "") << m << " x " << n << " x " << k << ", strides " << to_string(c.view().strides()) << ", "
                                  << to_string(a.view().strides()) << ", " << to_string(b.view().strides());
  }
  template <class T>
  void check_products(int rounds) {
    constexpr std::int64_t kSizes[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 100};
    for (const std::int64_t m : {1, 2, 5, 33})
      for (const std::int64_t n : {1, 3, 17})
        for (const std::int64_t k : {1, 4, 33}) check_product<T>(m, n, k);
    for (int round = 0; round < rounds; ++round)
      check_product<T>(kSizes[random_() % std::size(kSizes)], kSizes[random_() % std::size(kSizes)], kSizes[random_() % std::size(kSizes)]);
  }

 private:
  std::optional<Runtime> runtime_;
  std::optional<Batch> batch_;
  Random random_{11};
};
DWELL_ON_EVERY_DEVICE(TensorDenseTest);

// ---- Products ------------------------------------------------------------------------------------------------------------------------

TEST_P(TensorDenseTest, ProductsOfFloats) {
  check_products<float>(60);
  check_product<float>(256, 256, 256);
}
TEST_P(TensorDenseTest, ProductsOfDoubles) { check_products<double>(30); }
TEST_P(TensorDenseTest, ProductsOfHalves) {
  check_products<half>(60);
  check_product<half>(256, 100, 64);
}
TEST_P(TensorDenseTest, ProductsOfBfloats) { check_products<bfloat16>(60); }
TEST_P(TensorDenseTest, ProductsOfIntegers) {
  check_products<std::int8_t>(20);  // beyond 127: the lower bits
  check_products<std::int16_t>(5);
  check_products<std::int32_t>(10);
  check_products<std::int64_t>(10);
  check_products<std::uint8_t>(5);
}

// Where warps multiply matrices of 16-bit numbers by themselves, this compares them with the plain loops: the sums of these numbers are
// exact, so that both must give the same bits.
template <class T>
void check_against_floats(Runtime& runtime, Batch& batch, Random& random) {
  for (const auto& [m, n, k] : {std::tuple<int, int, int>{64, 64, 64}, {33, 47, 129}, {16, 8, 16}, {100, 31, 65}, {5, 256, 256}}) {
    for (const Lie of_a : {Lie::rows, Lie::columns, Lie::gaps}) {
      for (const Lie of_b : {Lie::rows, Lie::columns, Lie::backwards}) {
        const auto of_random = [&](const auto&) { return (static_cast<double>(random() % 33) - 16) / 8; };
        Placed<T> a(runtime, {m, k}, of_a);
        Placed<T> b(runtime, {k, n}, of_b);
        a.fill(of_random);
        b.fill(of_random);
        Placed<float> wide_a(runtime, {m, k}, Lie::rows);
        Placed<float> wide_b(runtime, {k, n}, Lie::rows);
        const Placed<T> got(runtime, {m, n}, Lie::rows);
        const Placed<float> sums(runtime, {m, n}, Lie::rows);
        const Placed<T> expected(runtime, {m, n}, Lie::rows);
        batch.assign(wide_a.view(), a.view());
        batch.assign(wide_b.view(), b.view());
        batch.mm(got.view(), a.view(), b.view());
        batch.mm(sums.view(), wide_a.view(), wide_b.view());
        batch.assign(expected.view(), sums.view());
        batch.flush().wait();
        const std::vector<T> one = got.elements();
        const std::vector<T> other = expected.elements();
        ASSERT_EQ(std::memcmp(one.data(), other.data(), one.size() * sizeof(T)), 0) << m << " x " << n << " x " << k;
      }
    }
  }
}
TEST_P(TensorDenseTest, ProductsOfSixteenBitsAreThoseOfFloats) {
  check_against_floats<half>(runtime(), batch(), random());
  check_against_floats<bfloat16>(runtime(), batch(), random());
}

template <class T>
void check_accuracy(Runtime& runtime, Batch& batch, double tolerance) {
  std::mt19937 engine(5);
  std::normal_distribution<double> normal;
  for (const auto& [m, n, k] : {std::tuple<int, int, int>{64, 64, 256}, {1, 256, 256}, {256, 3, 100}}) {
    Placed<T> a(runtime, {m, k}, Lie::rows);
    Placed<T> b(runtime, {k, n}, Lie::columns);
    a.fill([&](const auto&) { return normal(engine); });
    b.fill([&](const auto&) { return normal(engine); });
    const Placed<T> c(runtime, {m, n}, Lie::rows);
    batch.mm(c.view(), a.view(), b.view());
    batch.flush().wait();
    const std::vector<T> got = c.elements();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        double size = 0;
        for (std::int64_t d = 0; d < k; ++d) {
          sum += a.at({i, d}) * b.at({d, j});
          size += std::fabs(a.at({i, d}) * b.at({d, j}));
        }
        ASSERT_NEAR(number(got[static_cast<std::size_t>(i * n + j)]), sum, tolerance * (std::fabs(sum) + size / 64)) << i << ", " << j;
      }
  }
}
TEST_P(TensorDenseTest, SumsAreAsAccurateAsTheirTypes) {
  check_accuracy<float>(runtime(), batch(), 1e-5);
  check_accuracy<double>(runtime(), batch(), 1e-14);
  check_accuracy<half>(runtime(), batch(), 1e-3);  // 2^-11 for the result; sums of halves would lose ten times as much
  check_accuracy<bfloat16>(runtime(), batch(), 8e-3);
}

TEST_P(TensorDenseTest, ResultsDoNotDependOnTheWorkers) {
  std::vector<std::vector<float>> results;
  for (const std::uint32_t workers : {1U, 3U}) {
    Options one = options();
    if (on_cpu()) one.workers = workers;
    Runtime other(one);
    Batch batch(other);
    std::mt19937 engine(6);
    std::normal_distribution<double> normal;
    Placed<float> a(other, {130, 200}, Lie::rows);
    Placed<float> b(other, {200, 150}, Lie::rows);
    a.fill([&](const auto&) { return normal(engine); });
    b.fill([&](const auto&) { return normal(engine); });
    const Placed<float> c(other, {130, 150}, Lie::rows);
    for (int round = 0; round < 3; ++round) {
      batch.mm(c.view(), a.view(), b.view());
      batch.flush().wait();
      results.push_back(c.elements());
    }
  }
  for (const std::vector<float>& result : results) ASSERT_EQ(result, results.front());
}

TEST_P(TensorDenseTest, BiasAndFactors) {
  const auto check = [&]<class T>(T) {
    for (const auto& [m, n, k] : {std::tuple<int, int, int>{33, 20, 17}, {1, 40, 50}, {40, 2, 3}, {3, 5, 0}}) {
      for (const Dims& of_bias : {Dims{m, n}, Dims{n}, Dims{m, 1}, Dims{}}) {
        for (const auto& [beta, alpha] : {std::pair{1.0, 1.0}, {-2.0, 3.0}, {3.0, 0.0}}) {
          const Placed<T> a = any<T>({m, k});
          const Placed<T> b = any<T>({k, n});
          const Placed<T> bias = any<T>(of_bias);
          Placed<T> c(runtime(), {m, n}, lie());
          batch().addmm(c.view(), bias.view(), a.view(), b.view(), beta, alpha);
          batch().flush().wait();
          c.expect([&, beta = beta, alpha = alpha](At at) {
            std::vector<std::int64_t> where(at.end() - static_cast<std::ptrdiff_t>(of_bias.size()), at.end());
            for (std::size_t dim = 0; dim < where.size(); ++dim) where[dim] = of_bias[dim] == 1 ? 0 : where[dim];
            return beta * bias.at(where) + alpha * product(a, b, at);
          });
          ASSERT_EQ(c.difference(), "") << m << " x " << n << " x " << k << ", bias " << to_string(of_bias) << ", " << beta << ", "
                                        << alpha;
        }
      }
    }
  };
  check(float());
  check(double());
  check(half());
  check(std::int32_t());
  check(std::int64_t());
}

TEST_P(TensorDenseTest, FactorsOfZeroReadNothing) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Placed<float> a = any<float>({5, 6});
  Placed<float> b = any<float>({6, 7});
  Placed<float> bias(runtime(), {7}, Lie::rows);
  bias.fill([](At) { return kNan; });
  Placed<float> c(runtime(), {5, 7}, Lie::rows);
  batch().addmm(c.view(), bias.view(), a.view(), b.view(), 0, 1);
  batch().flush().wait();
  c.expect([&](At at) { return product(a, b, at); });
  EXPECT_EQ(c.difference(), "");
  a.fill([](At) { return kNan; });
  bias.fill([](At at) { return static_cast<double>(at[0]); });
  batch().addmm(c.view(), bias.view(), a.view(), b.view(), 2, 0);
  batch().flush().wait();
  c.expect([&](At at) { return 2.0 * static_cast<double>(at[1]); });
  EXPECT_EQ(c.difference(), "");
}

TEST_P(TensorDenseTest, ResultsMayLieInTheirOperands) {
  // The bias is the result.
  const Placed<float> a = any<float>({40, 33});
  const Placed<float> b = any<float>({33, 50});
  Placed<float> c = any<float>({40, 50});
  batch().addmm(c.view(), c.view(), a.view(), b.view(), 2, 1);
  batch().addmm(c.view(), c.view(), a.view(), b.view());
  batch().flush().wait();
  c.expect([&](At at) { return 2 * c.at(at) + 2 * product(a, b, at); });
  EXPECT_EQ(c.difference(), "");
  // So is a factor, and the other one lies across it.
  Placed<double> square = any<double>({40, 40});
  const Placed<double> before = copy_of(square);
  batch().mm(square.view(), square.view(), square.view().transpose(0, 1));
  batch().flush().wait();
  square.expect([&](At at) {
    double sum = 0;
    for (std::int64_t d = 0; d < 40; ++d) sum += before.at({at[0], d}) * before.at({at[1], d});
    return sum;
  });
  EXPECT_EQ(square.difference(), "");
  // The bias is the result turned around.
  const Placed<float> narrow = any<float>({9, 2});
  Placed<float> turned = any<float>({9, 9});
  const Placed<float> was = copy_of(turned);
  batch().addmm(turned.view(), turned.view().transpose(0, 1), narrow.view(), narrow.view().transpose(0, 1));
  batch().flush().wait();
  turned.expect([&](At at) {
    return was.at({at[1], at[0]}) + narrow.at({at[0], 0}) * narrow.at({at[1], 0}) + narrow.at({at[0], 1}) * narrow.at({at[1], 1});
  });
  EXPECT_EQ(turned.difference(), "");
}

TEST_P(TensorDenseTest, Batches) {
  for (const auto& [count, m, n, k] : {std::tuple<int, int, int, int>{5, 33, 40, 20}, {40, 3, 5, 7}, {7, 1, 64, 33}, {3, 35, 2, 64}}) {
    const Placed<half> a = any<half>({count, m, k});
    const Placed<half> b = any<half>({count, k, n});
    const Placed<half> bias = any<half>({count, 1, n});
    Placed<half> c(runtime(), {count, m, n}, lie());
    batch().bmm(c.view(), a.view(), b.view());
    batch().baddbmm(c.view(), bias.view(), a.view(), b.view(), 0.5, 2);
    batch().flush().wait();
    c.expect([&](At at) { return 0.5 * bias.at({at[0], 0, at[2]}) + 2 * product(a, b, at); });
    ASSERT_EQ(c.difference(), "") << count << " of " << m << " x " << n << " x " << k;
    // The same matrix for all.
    batch().bmm(c.view(), a.view(), b.view().select(0, 1).expand({count, k, n}));
    batch().flush().wait();
    c.expect([&, k = k](At at) {
      double sum = 0;
      for (std::int64_t d = 0; d < k; ++d) sum += a.at({at[0], at[1], d}) * b.at({1, d, at[2]});
      return sum;
    });
    ASSERT_EQ(c.difference(), "") << count << " of " << m << " x " << n << " x " << k << ", one b";
  }
}

TEST_P(TensorDenseTest, MatmulBroadcasts) {
  struct Case {
    Dims a, b, to;
  };
  const Case cases[] = {{{3, 4}, {4, 5}, {3, 5}},
                        {{4}, {4, 5}, {5}},
                        {{3, 4}, {4}, {3}},
                        {{4}, {4}, {}},
                        {{2, 3, 4}, {4, 5}, {2, 3, 5}},
                        {{3, 4}, {2, 4, 5}, {2, 3, 5}},
                        {{2, 1, 3, 4}, {6, 4, 5}, {2, 6, 3, 5}},
                        {{1, 6, 3, 4}, {2, 1, 4, 5}, {2, 6, 3, 5}},
                        {{4}, {2, 6, 4, 5}, {2, 6, 5}},
                        {{2, 6, 3, 4}, {4}, {2, 6, 3}},
                        {{2, 1, 3, 1, 2, 4}, {5, 1, 3, 4, 6}, {2, 5, 3, 3, 2, 6}}};
  for (const Case& each : cases) {
    const Placed<float> a = any<float>(each.a);
    const Placed<float> b = any<float>(each.b);
    Placed<float> c(runtime(), each.to, lie());
    batch().matmul(c.view(), a.view(), b.view());
    batch().flush().wait();
    c.expect([&](At at) {
      // Coordinates with both dimensions of matrices.
      std::vector<std::int64_t> all = at;
      if (each.a.size() == 1) all.insert(all.end() - (each.b.size() == 1 ? 0 : 1), 0);
      if (each.b.size() == 1) all.push_back(0);
      const auto of = [&](const Placed<float>& tensor, bool left, std::int64_t d) {
        std::vector<std::int64_t> where = all;
        where[where.size() - (left ? 1 : 2)] = d;
        if (tensor.shape().size() == 1) return tensor.at({d});
        where.erase(where.begin(), where.end() - static_cast<std::ptrdiff_t>(tensor.shape().size()));
        for (std::size_t dim = 0; dim < where.size(); ++dim)
          if (tensor.shape()[dim] == 1) where[dim] = 0;
        return tensor.at(where);
      };
      double sum = 0;
      for (std::int64_t d = 0; d < 4; ++d) sum += of(a, true, d) * of(b, false, d);
      return sum;
    });
    ASSERT_EQ(c.difference(), "") << to_string(each.a) << " times " << to_string(each.b);
  }
}

TEST_P(TensorDenseTest, Vectors) {
  for (const auto& [m, k] : {std::pair<int, int>{1, 1}, {5, 7}, {100, 33}, {33, 256}, {256, 100}}) {
    const Placed<float> a = any<float>({m, k});
    const Placed<float> x = any<float>({k});
    const Placed<float> y = any<float>({k});
    const Placed<float> bias = any<float>({m});
    Placed<float> c(runtime(), {m}, lie());
    Placed<float> sum(runtime(), {}, Lie::rows);
    Placed<float> outer(runtime(), {m, k}, lie());
    batch().mv(c.view(), a.view(), x.view());
    batch().dot(sum.view(), x.view(), y.view());
    batch().outer(outer.view(), bias.view(), x.view());
    batch().flush().wait();
    const auto times_x = [&, k = k](std::int64_t row) {
      double all = 0;
      for (std::int64_t d = 0; d < k; ++d) all += a.at({row, d}) * x.at({d});
      return all;
    };
    c.expect([&](At at) { return times_x(at[0]); });
    sum.expect([&, k = k](At) {
      double all = 0;
      for (std::int64_t d = 0; d < k; ++d) all += x.at({d}) * y.at({d});
      return all;
    });
    outer.expect([&](At at) { return bias.at({at[0]}) * x.at({at[1]}); });
    ASSERT_EQ(c.difference(), "") << m << " x " << k;
    ASSERT_EQ(sum.difference(), "") << k;
    ASSERT_EQ(outer.difference(), "") << m << " x " << k;
    batch().addmv(c.view(), bias.view(), a.view(), x.view(), 3, -1);
    batch().flush().wait();
    c.expect([&](At at) { return 3 * bias.at(at) - times_x(at[0]); });
    ASSERT_EQ(c.difference(), "") << m << " x " << k;
  }
}

TEST_P(TensorDenseTest, NothingToMultiply) {
  const Placed<float> a(runtime(), {4, 0}, Lie::rows);
  const Placed<float> b(runtime(), {0, 5}, Lie::rows);
  Placed<float> c(runtime(), {4, 5}, Lie::gaps);
  batch().mm(c.view(), a.view(), b.view());
  batch().flush().wait();
  c.expect([](At) { return 0.0; });
  EXPECT_EQ(c.difference(), "");
  Placed<float> sum(runtime(), {}, Lie::rows);
  batch().dot(sum.view(), a.view().select(0, 0), b.view().select(1, 0));
  batch().flush().wait();
  sum.expect([](At) { return 0.0; });
  EXPECT_EQ(sum.difference(), "");
  batch().mm(TensorView(c.view()).slice(0, 0, 0), a.view().slice(0, 0, 0), b.view());
  batch().bmm(c.view().expand({1, 4, 5}).slice(0, 0, 0), a.view().expand({1, 4, 0}).slice(0, 0, 0),
              b.view().expand({1, 0, 5}).slice(0, 0, 0));
  EXPECT_TRUE(batch().flush().done());
}

TEST_P(TensorDenseTest, ProductsThatDoNotFitAreRefused) {
  const Placed<float> a(runtime(), {4, 3}, Lie::rows);
  const Placed<float> b(runtime(), {3, 5}, Lie::rows);
  const Placed<double> wide(runtime(), {3, 5}, Lie::rows);
  const Placed<float> c(runtime(), {4, 5}, Lie::rows);
  const Placed<bool> truths(runtime(), {3, 3}, Lie::rows);
  const Placed<std::int32_t> integers(runtime(), {3, 3}, Lie::rows);
  DWELL_EXPECT_ERROR(batch().mm(c.view(), a.view(), a.view()), errc::invalid_argument,
                     HasSubstr("mm: argument b, f32 of shape (4, 3), must have the shape (3, 3)"));
  DWELL_EXPECT_ERROR(batch().mm(a.view(), a.view(), b.view()), errc::invalid_argument, HasSubstr("argument to, f32 of shape (4, 3)"));
  DWELL_EXPECT_ERROR(batch().mm(c.view(), a.view().select(0, 0), b.view()), errc::invalid_argument, HasSubstr("must have 2 dimensions"));
  DWELL_EXPECT_ERROR(batch().mm(c.view(), a.view(), wide.view()), errc::invalid_argument,
                     HasSubstr("argument b, f64 of shape (3, 5), must hold f32"));
  DWELL_EXPECT_ERROR(batch().mm(c.view().slice(0, 0, 1).expand({4, 5}), a.view(), b.view()), errc::invalid_argument,
                     HasSubstr("share memory"));
  DWELL_EXPECT_ERROR(batch().mm(truths.view(), truths.view(), truths.view()), errc::unsupported, HasSubstr("bool have no products"));
  DWELL_EXPECT_ERROR(batch().addmm(c.view(), a.view(), a.view(), b.view()), errc::invalid_argument,
                     HasSubstr("addmm: argument bias, f32 of shape (4, 3), must broadcast to the shape (4, 5)"));
  DWELL_EXPECT_ERROR(batch().addmm(integers.view(), integers.view(), integers.view(), integers.view(), 0.5), errc::invalid_argument,
                     HasSubstr("argument beta, 0.500000, must be a whole number for tensors of i32"));
  DWELL_EXPECT_ERROR(batch().mv(c.view().select(1, 0), a.view(), b.view().select(0, 0)), errc::invalid_argument,
                     HasSubstr("mv: argument x, f32 of shape (5,), must have the shape (3,)"));
  DWELL_EXPECT_ERROR(batch().matmul(c.view(), a.view(), c.view()), errc::invalid_argument, HasSubstr("must have 3 rows"));
  DWELL_EXPECT_ERROR(batch().matmul(c.view(), a.view().expand({2, 4, 3}), b.view().expand({3, 3, 5})), errc::invalid_argument,
                     HasSubstr("must broadcast with a, of shape (2, 4, 3)"));
  EXPECT_TRUE(batch().flush().done());
}

// ---- Elements chosen by an index ---------------------------------------------------------------------------------------------------

TEST_P(TensorDenseTest, RowsOfATable) {
  const auto check = [&]<class T, class Index>(T, Index) {
    for (const std::int64_t columns : {1, 3, 8, 64, 100}) {
      for (const Dims& shape : {Dims{7}, Dims{5, 3}, Dims{}, Dims{0}, Dims{300}}) {
        const Placed<T> table = any<T>({50, columns});
        Placed<Index> index(runtime(), shape, lie());
        index.fill([&](At) { return static_cast<double>(random()() % 50); });
        Dims whole = shape;
        whole.push_back(columns);
        Placed<T> to(runtime(), whole, lie());
        batch().embedding(to.view(), table.view(), index.view());
        batch().flush().wait();
        to.expect([&](At at) {
          const std::vector<std::int64_t> where(at.begin(), at.end() - 1);
          return table.at({static_cast<std::int64_t>(index.at(where)), at.back()});
        });
        ASSERT_EQ(to.difference(), "") << to_string(whole) << ", strides " << to_string(to.view().strides()) << ", "
                                       << to_string(table.view().strides());
      }
    }
  };
  check(float(), std::int64_t());
  check(half(), std::int32_t());
  check(double(), std::int32_t());
  check(std::uint8_t(), std::int64_t());
  check(bool(), std::int64_t());
}

TEST_P(TensorDenseTest, IndexSelect) {
  const auto check = [&]<class T>(T) {
    const Dims shape{4, 9, 6};
    for (std::size_t dim = 0; dim < 3; ++dim) {
      for (const std::int64_t count : {1, 5, 40}) {
        const Placed<T> from = any<T>(shape);
        Placed<std::int32_t> index(runtime(), {count}, lie());
        index.fill([&](At) { return static_cast<double>(random()() % static_cast<u32>(shape[dim])); });
        Dims whole = shape;
        whole[dim] = count;
        Placed<T> to(runtime(), whole, lie());
        batch().index_select(to.view(), from.view(), dim, index.view());
        batch().flush().wait();
        to.expect([&](At at) {
          std::vector<std::int64_t> where = at;
          where[dim] = static_cast<std::int64_t>(index.at({at[dim]}));
          return from.at(where);
        });
        ASSERT_EQ(to.difference(), "") << "dimension " << dim << ", " << count;
      }
    }
  };
  check(float());
  check(bfloat16());
  check(std::int64_t());
  check(std::int8_t());
}

TEST_P(TensorDenseTest, GatherAndScatterAdd) {
  const auto check = [&]<class T, class Index>(T, Index) {
    const Dims of_index{5, 7, 4};
    for (std::size_t dim = 0; dim < 3; ++dim) {
      for (const std::int64_t size : {1, 3, 12}) {
        Dims larger{6, 8, 4};
        larger[dim] = size;
        Placed<Index> index(runtime(), of_index, lie());
        index.fill([&](At) { return static_cast<double>(random()() % static_cast<u32>(size)); });
        const auto chosen = [&](At at) {
          std::vector<std::int64_t> where = at;
          where[dim] = static_cast<std::int64_t>(index.at(at));
          return where;
        };
        Placed<T> there = any<T>(larger);
        Placed<T> to(runtime(), of_index, lie());
        batch().gather(to.view(), there.view(), dim, index.view());
        const Placed<T> from = any<T>({9, 7, 5});
        batch().scatter_add(there.view(), dim, index.view(), from.view());
        batch().flush().wait();
        to.expect([&](At at) { return there.at(chosen(at)); });
        ASSERT_EQ(to.difference(), "") << "dimension " << dim << " of size " << size;
        for_each(of_index, [&](At at) { there.set(chosen(at), there.at(chosen(at)) + from.at(at)); });
        ASSERT_EQ(there.difference(), "") << "dimension " << dim << " of size " << size;
      }
    }
  };
  check(float(), std::int64_t());
  check(double(), std::int32_t());
  check(std::int32_t(), std::int64_t());
  check(std::int64_t(), std::int32_t());
  check(half(), std::int64_t());  // the sums are exact
  check(std::int8_t(), std::int32_t());
  check(bool(), std::int64_t());
}

TEST_P(TensorDenseTest, ManyAddedToOne) {
  // As the gradient of a table, and of a histogram.
  Placed<float> table(runtime(), {20, 64}, Lie::rows);
  table.fill([](At) { return 0.0; });
  const Placed<float> from = any<float>({2000, 64});
  Placed<std::int64_t> index(runtime(), {2000}, Lie::rows);
  index.fill([&](At) { return static_cast<double>(random()() % 20); });
  batch().scatter_add(table.view(), 0, index.view().expand({64, 2000}).transpose(0, 1), from.view());
  Placed<std::int32_t> counts(runtime(), {20}, Lie::rows);
  counts.fill([](At) { return 0.0; });
  Placed<std::int32_t> one(runtime(), {1}, Lie::rows);
  one.fill([](At) { return 1.0; });
  batch().scatter_add(counts.view(), 0, index.view(), one.view().expand({2000}));
  batch().flush().wait();
  for (std::int64_t i = 0; i < 2000; ++i) {
    const auto row = static_cast<std::int64_t>(index.at({i}));
    for (std::int64_t j = 0; j < 64; ++j) table.set({row, j}, table.at({row, j}) + from.at({i, j}));
    counts.set({row}, counts.at({row}) + 1);
  }
  EXPECT_EQ(table.difference(), "");
  EXPECT_EQ(counts.difference(), "");
}

TEST_P(TensorDenseTest, AdditionsOfSixteenBitsAreRoundedInOrder) {
  // 2048 + 1 has no place in a half: with the largest number first, the ones are lost.
  Placed<half> sum(runtime(), {1}, Lie::rows);
  sum.fill([](At) { return 0.0; });
  Placed<half> from(runtime(), {9}, Lie::rows);
  from.fill([](At at) { return at[0] == 0 ? 2048.0 : 1.0; });
  Placed<std::int32_t> index(runtime(), {9}, Lie::rows);
  index.fill([](At) { return 0.0; });
  batch().scatter_add(sum.view(), 0, index.view(), from.view());
  batch().flush().wait();
  sum.expect([](At) { return 2048.0; });
  EXPECT_EQ(sum.difference(), "");
}

TEST_P(TensorDenseTest, IndicesThatDoNotExistFailTheTask) {
  const auto check = [&]<class Index>(Index) {
    for (const double bad : {-1.0, 6.0, -2147483648.0, sizeof(Index) == 8 ? 4294967296.0 : 2147483647.0}) {
      for (const bool rows : {true, false}) {
        Batch batch(runtime());  // what comes behind a failure in the same memory would be cancelled
        // Neighbours as one element, and each for itself.
        const Placed<float> from = any<float>({6, 8});
        Placed<Index> index(runtime(), {10}, Lie::rows);
        index.fill([&](At at) { return at[0] == 4 ? bad : static_cast<double>(random()() % 6); });
        Placed<float> to(runtime(), rows ? Dims{10, 8} : Dims{6, 10}, Lie::gaps);
        if (rows) {
          batch.index_select(to.view(), from.view(), 0, index.view());
        } else {
          batch.index_select(to.view(), from.view().slice(1, 0, 6), 1, index.view());
        }
        const Ticket ticket = batch.flush();
        DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("an index is below 0, or not below the size"));
        EXPECT_EQ(ticket.status(), status::index_out_of_range);
        to.expect([&](At at) {
          const std::int64_t place = at[rows ? 0 : 1];
          if (place == 4) return to.at(at);
          const auto chosen = static_cast<std::int64_t>(index.at({place}));
          return rows ? from.at({chosen, at[1]}) : from.at({at[0], chosen});
        });
        ASSERT_EQ(to.difference(), "") << bad;

        Placed<float> sums = any<float>({6});
        const Placed<float> more = any<float>({10});
        batch.scatter_add(sums.view(), 0, index.view(), more.view());
        EXPECT_EQ(batch.flush().status(), status::index_out_of_range);
        for (std::int64_t i = 0; i < 10; ++i) {
          const auto chosen = static_cast<std::int64_t>(index.at({i}));
          if (i != 4) sums.set({chosen}, sums.at({chosen}) + more.at({i}));
        }
        ASSERT_EQ(sums.difference(), "") << bad;
      }
    }
  };
  check(std::int32_t());
  check(std::int64_t());
}

TEST_P(TensorDenseTest, ChosenElementsMayLieInTheResult) {
  Placed<std::int64_t> table(runtime(), {6, 40}, Lie::rows);
  table.fill([&](At at) { return static_cast<double>(at[1] % 6); });
  const Placed<std::int64_t> before = copy_of(table);
  // The index is a column of the table, which is turned upside down by itself.
  batch().index_select(table.view(), table.view(), 0, table.view().select(0, 5).slice(0, 0, 6));
  batch().flush().wait();
  table.expect([&](At at) { return before.at({at[0], at[1]}); });
  EXPECT_EQ(table.difference(), "");
  Placed<std::int64_t> line(runtime(), {8}, Lie::rows);
  line.fill([](At at) { return static_cast<double>(7 - at[0]); });
  batch().gather(line.view(), line.view(), 0, line.view());  // line[line[i]]
  batch().flush().wait();
  line.expect([](At at) { return static_cast<double>(at[0]); });
  EXPECT_EQ(line.difference(), "");
  Placed<std::int32_t> turned(runtime(), {8}, Lie::rows);
  turned.fill([](At at) { return static_cast<double>(7 - at[0]); });
  batch().scatter_add(line.view(), 0, turned.view(), line.view());  // as if of a copy
  batch().flush().wait();
  line.expect([](At) { return 7.0; });
  EXPECT_EQ(line.difference(), "");
  Placed<std::int64_t> one(runtime(), {1}, Lie::rows);
  one.fill([](At) { return 1.0; });
  line.fill([](At at) { return static_cast<double>(7 - at[0]); });
  batch().scatter_add(line.view(), 0, line.view(), one.view().expand({8}));  // of an index that it changes
  batch().flush().wait();
  line.expect([](At at) { return static_cast<double>(8 - at[0]); });
  EXPECT_EQ(line.difference(), "");
}

TEST_P(TensorDenseTest, SelectionsThatDoNotFitAreRefused) {
  const Placed<float> table(runtime(), {6, 4}, Lie::rows);
  const Placed<float> to(runtime(), {3, 4}, Lie::rows);
  const Placed<std::int64_t> index(runtime(), {3}, Lie::rows);
  const Placed<std::int64_t> square(runtime(), {7, 4}, Lie::rows);
  DWELL_EXPECT_ERROR(batch().index_select(to.view(), table.view(), 2, index.view()), errc::invalid_argument,
                     HasSubstr("has no dimension 2"));
  DWELL_EXPECT_ERROR(batch().index_select(to.view(), table.view(), 1, index.view()), errc::invalid_argument,
                     HasSubstr("must have the shape (6, 3)"));
  DWELL_EXPECT_ERROR(batch().index_select(to.view(), table.view(), 0, table.view().select(1, 0)), errc::invalid_argument,
                     HasSubstr("argument index, f32 of shape (6,), must hold i32 or i64"));
  DWELL_EXPECT_ERROR(batch().embedding(table.view(), table.view(), index.view()), errc::invalid_argument,
                     HasSubstr("must have the shape (3, 4)"));
  DWELL_EXPECT_ERROR(batch().gather(table.view(), table.view(), 1, square.view()), errc::invalid_argument,
                     HasSubstr("must not be larger than from, of shape (6, 4), in dimension 0"));
  DWELL_EXPECT_ERROR(batch().scatter_add(table.view(), 1, square.view(), to.view()), errc::invalid_argument,
                     HasSubstr("must not be larger than from"));
  DWELL_EXPECT_ERROR(batch().scatter_add(to.view(), 1, square.view().slice(0, 0, 5), table.view()), errc::invalid_argument,
                     HasSubstr("must not be larger than to, of shape (3, 4), in dimension 0"));
  DWELL_EXPECT_ERROR(batch().tril(to.view().select(0, 0), to.view().select(0, 0)), errc::invalid_argument,
                     HasSubstr("must have 2 dimensions or more"));
  EXPECT_TRUE(batch().flush().done());
}

// ---- Parts of matrices, and tensors put together -----------------------------------------------------------------------------------

TEST_P(TensorDenseTest, Triangles) {
  const auto check = [&]<class T>(T) {
    for (const Dims& shape : {Dims{1, 1}, Dims{5, 9}, Dims{9, 5}, Dims{3, 40, 40}, Dims{2, 3, 4, 4}}) {
      for (const std::int64_t diagonal : {0L, 1L, -2L, 100L, -100L, 1L << 40U}) {
        const Placed<T> from = any<T>(shape);
        Placed<T> lower(runtime(), shape, lie());
        Placed<T> upper = copy_of(from);
        batch().tril(lower.view(), from.view(), diagonal);
        batch().triu(upper.view(), upper.view(), diagonal);  // of itself
        batch().flush().wait();
        const auto beyond = [&](At at) { return at[at.size() - 1] - at[at.size() - 2] - diagonal; };
        lower.expect([&](At at) { return beyond(at) <= 0 ? from.at(at) : 0.0; });
        ASSERT_EQ(lower.difference(), "") << to_string(shape) << ", " << diagonal;
        upper.expect([&](At at) { return beyond(at) >= 0 ? from.at(at) : 0.0; });
        ASSERT_EQ(upper.difference(), "") << to_string(shape) << ", " << diagonal;
      }
    }
  };
  check(float());
  check(half());
  check(std::int64_t());
  check(bool());
  // The other half of a result that lies across its source.
  Placed<float> square = any<float>({30, 30});
  const Placed<float> before = copy_of(square);
  batch().tril(square.view(), square.view().transpose(0, 1));
  batch().flush().wait();
  square.expect([&](At at) { return at[1] <= at[0] ? before.at({at[1], at[0]}) : 0.0; });
  EXPECT_EQ(square.difference(), "");
}

TEST_P(TensorDenseTest, CatAndStack) {
  for (std::size_t dim = 0; dim < 3; ++dim) {
    Dims first{3, 4, 5};
    Dims second = first;
    Dims third = first;
    second[dim] = 2;
    third[dim] = 0;
    Dims all = first;
    all[dim] = first[dim] + 2;
    const Placed<float> a = any<float>(first);
    const Placed<float> b = any<float>(third);
    const Placed<std::int32_t> c = any<std::int32_t>(second);  // converted
    Placed<float> to(runtime(), all, lie());
    const TensorView parts[] = {a.view(), b.view(), c.view()};
    batch().cat(to.view(), parts, dim);
    Dims shape = first;
    shape.push_back(0);
    for (std::size_t i = 3; i > dim; --i) shape[i] = shape[i - 1];
    shape[dim] = 2;
    Placed<float> stacked(runtime(), shape, lie());
    const Placed<float> d = any<float>(first);
    const TensorView layers[] = {a.view(), d.view()};
    batch().stack(stacked.view(), layers, dim);
    batch().flush().wait();
    to.expect([&](At at) {
      if (at[dim] < first[dim]) return a.at(at);
      std::vector<std::int64_t> where = at;
      where[dim] -= first[dim];
      return c.at(where);
    });
    ASSERT_EQ(to.difference(), "") << dim;
    stacked.expect([&](At at) {
      std::vector<std::int64_t> where = at;
      where.erase(where.begin() + static_cast<std::ptrdiff_t>(dim));
      return at[dim] == 0 ? a.at(where) : d.at(where);
    });
    ASSERT_EQ(stacked.difference(), "") << dim;
  }
  // Halves of a line, exchanged in place.
  Placed<float> line(runtime(), {10}, Lie::rows);
  line.fill([](At at) { return static_cast<double>(at[0]); });
  const TensorView halves[] = {line.view().slice(0, 5, 5), line.view().slice(0, 0, 5)};
  batch().cat(line.view(), halves, 0);
  batch().flush().wait();
  line.expect([](At at) { return static_cast<double>((at[0] + 5) % 10); });
  EXPECT_EQ(line.difference(), "");
  DWELL_EXPECT_ERROR(batch().cat(line.view(), std::span(halves, 1), 0), errc::invalid_argument,
                     HasSubstr("must have 5 elements in dimension 0"));
  DWELL_EXPECT_ERROR(batch().stack(line.view(), halves, 0), errc::invalid_argument, HasSubstr("must have the shape ()"));
}

}  // namespace
}  // namespace dwell::test
