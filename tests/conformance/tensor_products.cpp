// Products of matrices, compared with plain loops.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <utility>

#include "tests/conformance/accuracy.hpp"
#include "tests/conformance/dense_suite.hpp"

namespace dwell::test {
namespace {

// An element of the product of two matrices, or of two batches of matrices.
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

class TensorProductsTest : public DenseSuite {
 protected:
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
      check_product<T>(kSizes[random()() % std::size(kSizes)], kSizes[random()() % std::size(kSizes)],
                       kSizes[random()() % std::size(kSizes)]);
  }
};
DWELL_ON_EVERY_DEVICE(TensorProductsTest);

TEST_P(TensorProductsTest, ProductsOfFloats) {
  check_products<float>(60);
  check_product<float>(256, 256, 256);
}
TEST_P(TensorProductsTest, ProductsOfDoubles) { check_products<double>(30); }
TEST_P(TensorProductsTest, ProductsOfHalves) {
  check_products<half>(60);
  check_product<half>(256, 100, 64);
}
TEST_P(TensorProductsTest, ProductsOfBfloats) { check_products<bfloat16>(60); }
TEST_P(TensorProductsTest, ProductsOfIntegers) {
  check_products<std::int8_t>(20);  // beyond 127: keeps the lower bits
  check_products<std::int16_t>(5);
  check_products<std::int32_t>(10);
  check_products<std::int64_t>(10);
  check_products<std::uint8_t>(5);
}

TEST_P(TensorProductsTest, FewRows) {
  const auto check = [&]<class T>(T) {
    for (const auto& [n, k] : {std::pair{4, 4}, {12, 36}, {256, 72}, {40, 1028}, {17, 33}, {3, 260}, {130, 4}}) {
      for (std::int64_t m = 1; m <= 9; ++m) {
        const Placed<T> a = any<T>({m, k});
        // Both layouts, aligned; the second factor is the first one's transpose.
        const auto of_b = [](At at) { return static_cast<double>((at[0] * 5 + at[1] * 3) % 7 - 3); };
        Placed<T> rows(runtime(), {k, n}, Lie::rows);
        Placed<T> columns(runtime(), {n, k}, Lie::rows);
        rows.fill(of_b);
        columns.fill([&](At at) { return of_b({at[1], at[0]}); });
        Placed<T> c = any<T>({m, n});
        Placed<T> d(runtime(), {m, n}, lie());
        const Placed<T> before = copy_of(c);
        batch().addmm(c.view(), c.view(), a.view(), rows.view());  // in place
        batch().mm(d.view(), a.view(), columns.view().transpose(0, 1));
        batch().flush().wait();
        c.expect([&](At at) { return before.at(at) + product(a, rows, at); });
        d.expect([&](At at) { return product(a, rows, at); });
        ASSERT_EQ(c.difference(), "") << m << " x " << n << " x " << k << ", by rows";
        ASSERT_EQ(d.difference(), "") << m << " x " << n << " x " << k << ", by columns";
      }
    }
  };
  check(float());
  check(half());
  check(bfloat16());
  check(double());
}

TEST_P(TensorProductsTest, ResultsDoNotDependOnAlignment) {
  constexpr std::int64_t kN = 72;
  constexpr std::int64_t kK = 300;
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(kN * kK);
  for (float& number : numbers) number = normal(engine);
  for (const std::int64_t m : {1, 6}) {
    Placed<float> a(runtime(), {m, kK}, Lie::rows);
    a.fill([&](At) { return normal(engine); });
    std::vector<std::vector<float>> results;
    for (const std::size_t shift : {0U, 1U}) {
      std::vector<float> all(numbers.size() + 1);
      std::ranges::copy(numbers, all.begin() + static_cast<std::ptrdiff_t>(shift));
      Buffer<float> memory = runtime().allocate<float>(all.size());
      memory.write(all);
      const TensorView b(TensorView(memory).address() + shift * sizeof(float), ElementType::f32, {kN, kK});
      const Placed<float> c(runtime(), {m, kN}, Lie::rows);
      batch().mm(c.view(), a.view(), b.transpose(0, 1));
      batch().flush().wait();
      results.push_back(c.elements());
    }
    ASSERT_EQ(results[0], results[1]) << m << " rows";
  }
}

// Compares the path in which warps multiply 16-bit matrices with plain loops: sums of these numbers are exact, so both must give the same
// bits.
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
TEST_P(TensorProductsTest, ProductsOfSixteenBitsAreThoseOfFloats) {
  check_against_floats<half>(runtime(), batch(), random());
  check_against_floats<bfloat16>(runtime(), batch(), random());
}

template <class T>
void check_accuracy(Runtime& runtime, Batch& batch) {
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
        double squares = 0;
        for (std::int64_t d = 0; d < k; ++d) {
          sum += a.at({i, d}) * b.at({d, j});
          squares += std::pow(a.at({i, d}) * b.at({d, j}), 2);
        }
        const double scale = std::max(std::fabs(sum), std::sqrt(squares));
        const double value = number(got[static_cast<std::size_t>(i * n + j)]);
        ASSERT_NEAR(value, sum, allowed_error(element_type_of<T>().value(), scale)) << i << ", " << j;
      }
  }
}
TEST_P(TensorProductsTest, SumsAreAsAccurateAsTheirTypes) {
  check_accuracy<float>(runtime(), batch());
  check_accuracy<double>(runtime(), batch());
  check_accuracy<half>(runtime(), batch());  // 2^-11 for the result; sums of halves would lose ten times as much
  check_accuracy<bfloat16>(runtime(), batch());
}

TEST_P(TensorProductsTest, ResultsDoNotDependOnTheWorkers) {
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

TEST_P(TensorProductsTest, BiasAndFactors) {
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

TEST_P(TensorProductsTest, FactorsOfZeroReadNothing) {
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

TEST_P(TensorProductsTest, ResultsMayOverlapOperands) {
  // The bias is also the result.
  const Placed<float> a = any<float>({40, 33});
  const Placed<float> b = any<float>({33, 50});
  Placed<float> c = any<float>({40, 50});
  batch().addmm(c.view(), c.view(), a.view(), b.view(), 2, 1);
  batch().addmm(c.view(), c.view(), a.view(), b.view());
  batch().flush().wait();
  c.expect([&](At at) { return 2 * c.at(at) + 2 * product(a, b, at); });
  EXPECT_EQ(c.difference(), "");
  // A factor is the result, and the other factor its transpose.
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
  // The bias is the transposed result.
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

TEST_P(TensorProductsTest, Batches) {
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
    // One matrix for the whole batch.
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

TEST_P(TensorProductsTest, MatmulBroadcasts) {
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
      // Adds the missing matrix dimension of vectors.
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

TEST_P(TensorProductsTest, Vectors) {
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

TEST_P(TensorProductsTest, NothingToMultiply) {
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

TEST_P(TensorProductsTest, ProductsThatDoNotFitAreRefused) {
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

}  // namespace
}  // namespace dwell::test
