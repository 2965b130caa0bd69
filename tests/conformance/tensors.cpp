// Expressions over tensors, compared with plain loops.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "tests/conformance/accuracy.hpp"
#include "tests/conformance/tensor_places.hpp"
#include "tests/conformance/tensor_test.hpp"

namespace dwell::test {
namespace {

DWELL_ON_EVERY_DEVICE(TensorTest);

// ---- Operations ------------------------------------------------------------------------------------------------------------------

using Reference = std::function<double(double, double, double)>;

struct Operation {
  TensorOp op;
  int operands;
  Reference reference;
  double low = -10;  // of the first operand
  double high = 10;
  // Factor by which later steps amplify the rounding of an intermediate result, for these operands.
  Reference grows = [](double, double, double) { return 1; };
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double clamp(double x, double low, double high) { return std::min(std::max(x, low), high); }
double python_remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

std::vector<Operation> operations() {
  using Op = TensorOp;
  const auto of1 = [](double (*f)(double)) { return [f](double x, double, double) { return f(x); }; };
  const auto of2 = [](double (*f)(double, double)) { return [f](double x, double y, double) { return f(x, y); }; };
  const double inf = std::numeric_limits<double>::infinity();
  return {
      {Op::add, 2, [](double a, double b, double) { return a + b; }},
      {Op::sub, 2, [](double a, double b, double) { return a - b; }},
      {Op::mul, 2, [](double a, double b, double) { return a * b; }},
      {Op::div, 2, [](double a, double b, double) { return a / b; }},
      {Op::floor_divide, 2, [](double a, double b, double) { return std::floor(a / b); }},
      {Op::trunc_divide, 2, [](double a, double b, double) { return std::trunc(a / b); }},
      {Op::remainder, 2, [](double a, double b, double) { return python_remainder(a, b); }},
      {Op::fmod, 2, of2(std::fmod)},
      {Op::pow, 2, of2(std::pow), 0.1, 4},
      {Op::maximum, 2, [](double a, double b, double) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }},
      {Op::minimum, 2, [](double a, double b, double) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }},
      {Op::fmax, 2, of2(std::fmax)},
      {Op::fmin, 2, of2(std::fmin)},
      {Op::atan2, 2, of2(std::atan2)},
      {Op::hypot, 2, of2(std::hypot)},
      {Op::neg, 1, [](double x, double, double) { return -x; }},
      {Op::abs, 1, of1(std::fabs)},
      {Op::sign, 1, [](double x, double, double) { return (0 < x) - (x < 0); }},
      {Op::relu, 1, [](double x, double, double) { return x < 0 ? 0 : x; }},
      {Op::floor, 1, of1(std::floor)},
      {Op::ceil, 1, of1(std::ceil)},
      {Op::round, 1, of1(std::rint)},
      {Op::trunc, 1, of1(std::trunc)},
      {Op::frac, 1, [](double x, double, double) { return x - std::trunc(x); }},
      {Op::reciprocal, 1, [](double x, double, double) { return 1 / x; }},
      {Op::sqrt, 1, of1(std::sqrt), 0},
      {Op::rsqrt, 1, [](double x, double, double) { return 1 / std::sqrt(x); }, 0.01},
      {Op::exp, 1, of1(std::exp)},
      {Op::exp2, 1, of1(std::exp2)},
      {Op::expm1, 1, of1(std::expm1)},
      {Op::log, 1, of1(std::log), 0.01},
      {Op::log2, 1, of1(std::log2), 0.01},
      {Op::log10, 1, of1(std::log10), 0.01},
      {Op::log1p, 1, of1(std::log1p), -0.9},
      {Op::sin, 1, of1(std::sin)},
      {Op::cos, 1, of1(std::cos)},
      {Op::tan, 1, of1(std::tan), -1.5, 1.5},
      {Op::asin, 1, of1(std::asin), -1, 1},
      {Op::acos, 1, of1(std::acos), -1, 1},
      {Op::atan, 1, of1(std::atan)},
      {Op::sinh, 1, of1(std::sinh)},
      {Op::cosh, 1, of1(std::cosh)},
      {Op::asinh, 1, of1(std::asinh)},
      {Op::acosh, 1, of1(std::acosh), 1, 50},
      {Op::atanh, 1, of1(std::atanh), -0.99, 0.99},
      {Op::tanh, 1, of1(std::tanh)},
      {Op::erf, 1, of1(std::erf)},
      {Op::erfc, 1, of1(std::erfc), -4, 4},
      {Op::sigmoid, 1, of1(sigmoid)},
      {Op::logit, 1, [](double x, double, double) { return std::log(x / (1 - x)); }, 0.01, 0.99},
      {Op::silu, 1, [](double x, double, double) { return x * sigmoid(x); }},
      {Op::mish, 1, [](double x, double, double) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {Op::gelu, 1, [](double x, double, double) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
      {Op::gelu_tanh, 1,
       [](double x, double, double) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {Op::selu, 1, [](double x, double, double) { return 1.0507009873554804934 * (x < 0 ? 1.6732632423543772848 * std::expm1(x) : x); }},
      // The exponential of a rounded product, as in PyTorch, with its error.
      {Op::elu, 3, [](double x, double factor, double exponent) { return x < 0 ? factor * std::expm1(x * exponent) : x; }, -10, 10,
       [](double x, double, double exponent) { return std::max(1.0, std::fabs(x * exponent)); }},
      {Op::leaky_relu, 2, [](double x, double slope, double) { return x > 0 ? x : x * slope; }},
      {Op::hardsigmoid, 1, [](double x, double, double) { return clamp(x + 3, 0, 6) / 6; }},
      {Op::hardswish, 1, [](double x, double, double) { return x * clamp(x + 3, 0, 6) / 6; }},
      {Op::softplus, 3, [](double x, double beta, double limit) { return x * beta > limit ? x : std::log1p(std::exp(x * beta)) / beta; }},
      {Op::softsign, 1, [](double x, double, double) { return x / (1 + std::fabs(x)); }},
      {Op::lerp, 3, [](double from, double to, double weight) { return from + weight * (to - from); }},
      {Op::clamp, 3, [](double x, double low, double high) { return std::isnan(x) ? x : std::min(std::max(x, low), high); }},
      {Op::clamp_min, 2, [](double x, double low, double) { return std::isnan(x) ? x : std::max(x, low); }},
      {Op::clamp_max, 2, [](double x, double high, double) { return std::isnan(x) ? x : std::min(x, high); }},
      {Op::threshold, 3, [](double x, double limit, double value) { return x <= limit ? value : x; }},
      {Op::eq, 2, [](double a, double b, double) { return a == b; }},
      {Op::ne, 2, [](double a, double b, double) { return a != b; }},
      {Op::lt, 2, [](double a, double b, double) { return a < b; }},
      {Op::le, 2, [](double a, double b, double) { return a <= b; }},
      {Op::gt, 2, [](double a, double b, double) { return a > b; }},
      {Op::ge, 2, [](double a, double b, double) { return a >= b; }},
      {Op::logical_and, 2, [](double a, double b, double) { return a != 0 && b != 0; }},
      {Op::logical_or, 2, [](double a, double b, double) { return a != 0 || b != 0; }},
      {Op::logical_xor, 2, [](double a, double b, double) { return (a != 0) != (b != 0); }},
      {Op::logical_not, 1, [](double x, double, double) { return x == 0; }},
      {Op::where, 3, [](double a, double b, double c) { return c != 0 ? a : b; }, -inf},
  };
}

// More than two blocks of a group.
constexpr std::size_t kOperandElements = 2 * 1024 + 77;

template <class T>
std::vector<T> operand(Random& random, const Operation& of, int place) {
  std::vector<T> values(kOperandElements);
  const double low = place == 0 && std::isfinite(of.low) ? of.low : of.op == TensorOp::pow ? -2 : -10;
  const double high = place == 0 ? of.high : of.op == TensorOp::pow ? 2 : 10;
  for (T& value : values) {
    value = static_cast<T>(static_cast<float>(low + (high - low) * (static_cast<double>(random()) / 4294967295.0)));
    if (place == 0 && of.low == -10 && random() % 64 == 0) value = static_cast<T>(random() % 2 == 0 ? 0.0F : NAN);
  }
  // softplus needs a positive beta.
  if (of.op == TensorOp::softplus && place == 1)
    for (T& value : values) value = static_cast<T>(0.5F + std::fabs(static_cast<float>(value)));
  return values;
}

template <class T>
double rounded(double value) {
  return static_cast<double>(static_cast<T>(static_cast<float>(value)));
}
template <>
double rounded<double>(double value) {
  return value;
}

// A single operation on floats rounds less near 0 than PyTorch's tolerance allows.
template <class T>
double allowed_for(double size) {
  return std::is_same_v<T, float> ? 1.3e-6 * (1 + size) : allowed_error(element_type_of<T>().value(), size);
}

template <class T, class Values, class Applied>
void check_operation(const Operation& of, const Values& values_of, const Applied& values_of_applied, Random& random,
                     const std::function<TensorView(const std::vector<T>&)>& tensor) {
  std::vector<std::vector<T>> given;
  std::vector<TensorView> tensors;
  std::vector<Expression> operands;
  for (int place = 0; place < of.operands; ++place) {
    given.push_back(operand<T>(random, of, place));
    tensors.push_back(tensor(given.back()));
    operands.emplace_back(tensors.back());
  }
  if (of.op == TensorOp::where) operands[2] = ops::gt(operands[2], 0.0);
  Expression result = of.operands == 1   ? Expression::of(of.op, operands[0])
                      : of.operands == 2 ? Expression::of(of.op, operands[0], operands[1])
                                         : Expression::of(of.op, operands[0], operands[1], operands[2]);
  const std::vector<T> got = values_of(result);
  if (of.op != TensorOp::where) {
    const std::vector<T> applied = values_of_applied(of.op, tensors);
    ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(applied)), std::as_bytes(std::span(got))))
        << "operation " << static_cast<int>(of.op) << " by apply";
  }
  for (std::size_t i = 0; i < kOperandElements; ++i) {
    const auto at = [&](int place) { return place < of.operands ? static_cast<double>(given[static_cast<std::size_t>(place)][i]) : 0.0; };
    const double third = of.op == TensorOp::where ? static_cast<double>(at(2) > 0) : at(2);
    const double expected = rounded<T>(of.reference(at(0), at(1), third));
    const auto value = static_cast<double>(got[i]);
    if (std::isnan(expected) ? std::isnan(value) : value == expected) continue;
    // A quotient next to an integer may be rounded to either side.
    if ((of.op == TensorOp::floor_divide || of.op == TensorOp::trunc_divide) && std::fabs(value - expected) <= 1) continue;
    const double allowed = allowed_for<T>(std::fabs(expected)) * of.grows(at(0), at(1), third);
    const double near = 100 * allowed_for<T>(1);
    // A remainder near 0 may wrap to the divisor.
    const bool at_edge = std::min(std::fabs(expected), std::fabs(expected - at(1))) <= near;
    if (of.op == TensorOp::remainder && at_edge && std::fabs(std::fabs(value - expected) - std::fabs(at(1))) <= near) continue;
    ASSERT_NEAR(value, expected, allowed) << "operation " << static_cast<int>(of.op) << " of " << at(0) << ", " << at(1) << ", " << third;
  }
}

TEST_P(TensorTest, OperationsOnFloats) {
  Random random(1);
  std::vector<Buffer<float>> keep;
  for (const Operation& of : operations())
    check_operation<float>(
        of, [&](const Expression& e) { return values_of<float>(e, kOperandElements); },
        [&](TensorOp op, const std::vector<TensorView>& x) { return applied<float>(op, x, kOperandElements); }, random,
        [&](const std::vector<float>& values) {
          keep.push_back(filled_with(values));
          return TensorView(keep.back());
        });
}

TEST_P(TensorTest, OperationsOnDoubles) {
  Random random(2);
  std::vector<Buffer<double>> keep;
  for (const Operation& of : operations())
    check_operation<double>(
        of, [&](const Expression& e) { return values_of<double>(e, kOperandElements); },
        [&](TensorOp op, const std::vector<TensorView>& x) { return applied<double>(op, x, kOperandElements); }, random,
        [&](const std::vector<double>& values) {
          keep.push_back(filled_with(values));
          return TensorView(keep.back());
        });
}

TEST_P(TensorTest, OperationsOnHalves) {
  Random random(3);
  std::vector<Buffer<half>> keep;
  for (const Operation& of : operations())
    check_operation<half>(
        of, [&](const Expression& e) { return values_of<half>(e, kOperandElements); },
        [&](TensorOp op, const std::vector<TensorView>& x) { return applied<half>(op, x, kOperandElements); }, random,
        [&](const std::vector<half>& values) {
          keep.push_back(filled_with(values));
          return TensorView(keep.back());
        });
}

TEST_P(TensorTest, OperationsOnBfloats) {
  Random random(4);
  std::vector<Buffer<bfloat16>> keep;
  for (const Operation& of : operations())
    check_operation<bfloat16>(
        of, [&](const Expression& e) { return values_of<bfloat16>(e, kOperandElements); },
        [&](TensorOp op, const std::vector<TensorView>& x) { return applied<bfloat16>(op, x, kOperandElements); }, random,
        [&](const std::vector<bfloat16>& values) {
          keep.push_back(filled_with(values));
          return TensorView(keep.back());
        });
}

template <class T>
void check_integers(const std::function<std::vector<T>(const Expression&)>& values_of, const TensorView& x, const TensorView& y,
                    const std::vector<T>& a, const std::vector<T>& b) {
  using Wide = std::int64_t;
  using Of = std::function<Wide(Wide, Wide)>;
  const auto floor_divide = [](Wide p, Wide q) { return p / q - (p % q != 0 && (p % q < 0) != (q < 0) ? 1 : 0); };
  const std::vector<std::pair<TensorOp, Of>> all = {
      {TensorOp::add, [](Wide p, Wide q) { return static_cast<Wide>(static_cast<u64>(p) + static_cast<u64>(q)); }},
      {TensorOp::sub, [](Wide p, Wide q) { return static_cast<Wide>(static_cast<u64>(p) - static_cast<u64>(q)); }},
      {TensorOp::mul, [](Wide p, Wide q) { return static_cast<Wide>(static_cast<u64>(p) * static_cast<u64>(q)); }},
      {TensorOp::floor_divide, floor_divide},
      {TensorOp::trunc_divide, [](Wide p, Wide q) { return p / q; }},
      {TensorOp::remainder, [](Wide p, Wide q) { return p % q != 0 && (p % q < 0) != (q < 0) ? p % q + q : p % q; }},
      {TensorOp::fmod, [](Wide p, Wide q) { return p % q; }},
      {TensorOp::maximum, [](Wide p, Wide q) { return std::max(p, q); }},
      {TensorOp::minimum, [](Wide p, Wide q) { return std::min(p, q); }},
      {TensorOp::bitwise_and, [](Wide p, Wide q) { return p & q; }},
      {TensorOp::bitwise_or, [](Wide p, Wide q) { return p | q; }},
      {TensorOp::bitwise_xor, [](Wide p, Wide q) { return p ^ q; }},
      {TensorOp::gt, [](Wide p, Wide q) { return static_cast<Wide>(p > q); }},
      {TensorOp::eq, [](Wide p, Wide q) { return static_cast<Wide>(p == q); }},
  };
  for (const auto& [op, reference] : all) {
    const std::vector<T> got = values_of(Expression::of(op, x, y));
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(got[i], static_cast<T>(reference(a[i], b[i]))) << static_cast<int>(op) << " of " << +a[i] << ", " << +b[i];
  }
  const std::vector<std::pair<TensorOp, std::function<Wide(Wide)>>> unary = {
      {TensorOp::neg, [](Wide p) { return static_cast<Wide>(-static_cast<u64>(p)); }},
      {TensorOp::abs, [](Wide p) { return p < 0 ? static_cast<Wide>(-static_cast<u64>(p)) : p; }},
      {TensorOp::sign, [](Wide p) { return static_cast<Wide>((p > 0) - (p < 0)); }},
      {TensorOp::bitwise_not, [](Wide p) { return ~p; }},
      {TensorOp::relu, [](Wide p) { return p < 0 ? 0 : p; }},
  };
  for (const auto& [op, reference] : unary) {
    const std::vector<T> got = values_of(Expression::of(op, x));
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(got[i], static_cast<T>(reference(a[i]))) << static_cast<int>(op) << " of " << +a[i];
  }
}

template <class T>
std::pair<std::vector<T>, std::vector<T>> integers(Random& random) {
  std::vector<T> a(kOperandElements);
  std::vector<T> b(kOperandElements);
  for (std::size_t i = 0; i < kOperandElements; ++i) {
    a[i] = static_cast<T>(static_cast<u64>(random()) << 32U | random());
    b[i] = static_cast<T>(static_cast<u64>(random()) << 32U | random());
    if (i % 3 == 0) b[i] = static_cast<T>(static_cast<int>(random() % 21) - 10);
    if (b[i] == 0 || (b[i] == static_cast<T>(-1) && a[i] == std::numeric_limits<T>::min())) b[i] = 1;
  }
  return {a, b};
}

TEST_P(TensorTest, OperationsOnIntegers) {
  Random random(5);
  const auto check = [&]<class T>(T) {
    const auto [a, b] = integers<T>(random);
    const auto x = filled_with(a);
    const auto y = filled_with(b);
    check_integers<T>([&](const Expression& e) { return values_of<T>(e, kOperandElements); }, x, y, a, b);
  };
  check(std::int8_t{});
  check(std::int16_t{});
  check(std::int32_t{});
  check(i64{});
  check(std::uint8_t{});
}

TEST_P(TensorTest, DivisionsByZeroEnd) {
  const auto x = filled_with(std::vector<i64>{5, -5, 0, std::numeric_limits<i64>::min()});
  const auto y = filled_with(std::vector<i64>{0, 0, 0, -1});
  EXPECT_EQ(values_of<i64>(ops::trunc_divide(x, y), 4), (std::vector<i64>{-1, -1, -1, std::numeric_limits<i64>::min()}));
  EXPECT_EQ(values_of<i64>(ops::fmod(x, y), 4), (std::vector<i64>{5, -5, 0, 0}));
}

TEST_P(TensorTest, PowersAndShiftsOfIntegers) {
  const auto x = filled_with(std::vector<i64>{2, -2, 1, -1, -1, 7, 0, 3});
  const auto y = filled_with(std::vector<i64>{10, 3, -4, -3, -4, -1, 0, 40});
  const auto power = static_cast<i64>(12157665459056928801ULL);  // 3^40, wrapped
  EXPECT_EQ(values_of<i64>(ops::pow(x, y), 8), (std::vector<i64>{1024, -8, 1, -1, 1, 0, 1, power}));
  const auto bits = filled_with(std::vector<std::int32_t>{1, 1, -8, -8, 5});
  const auto by = filled_with(std::vector<std::int32_t>{4, 40, 1, 100, 0});
  EXPECT_EQ(values_of<std::int32_t>(ops::left_shift(bits, by), 5), (std::vector<std::int32_t>{16, 0, -16, 0, 5}));
  EXPECT_EQ(values_of<std::int32_t>(ops::right_shift(bits, by), 5), (std::vector<std::int32_t>{0, 0, -4, -1, 5}));
}

// ---- Types -----------------------------------------------------------------------------------------------------------------------

TEST_P(TensorTest, TypesOfResults) {
  const auto type = [&](const Expression& e) { return name_of(e.type()); };
  const auto of = [](ElementType element, const Dims& shape = {3}) { return Expression(TensorView(4096, element, shape)); };
  using E = ElementType;
  EXPECT_EQ(type(of(E::f16) + of(E::bf16)), "f32");
  EXPECT_EQ(type(of(E::f16) + of(E::f32)), "f32");
  EXPECT_EQ(type(of(E::i64) + of(E::f16)), "f16");
  EXPECT_EQ(type(of(E::u8) + of(E::i8)), "i16");
  EXPECT_EQ(type(of(E::u8) + of(E::i32)), "i32");
  EXPECT_EQ(type(of(E::boolean) + of(E::boolean)), "bool");
  EXPECT_EQ(type(of(E::i32) / of(E::i32)), "f32");
  EXPECT_EQ(type(ops::sin(of(E::i64))), "f32");
  EXPECT_EQ(type(ops::lt(of(E::f64), 1.0)), "bool");
  // Numbers and 0-dimensional tensors widen only tensors of a lower kind.
  EXPECT_EQ(type(of(E::f16) + 1.5), "f16");
  EXPECT_EQ(type(of(E::i8) + 1000), "i8");
  EXPECT_EQ(type(of(E::i8) + 1.5), "f32");
  EXPECT_EQ(type(of(E::boolean) + 1), "i64");
  EXPECT_EQ(type(of(E::f16) + of(E::f64, {})), "f16");
  EXPECT_EQ(type(of(E::i32) + of(E::f64, {})), "f64");
  EXPECT_EQ(type(of(E::i32, {}) + of(E::u8, {})), "i32");
  EXPECT_EQ(type(of(E::f64, {}) + 1), "f64");
  EXPECT_EQ(type(ops::where(of(E::f16), 0.0, of(E::boolean))), "f16");
  DWELL_EXPECT_ERROR(of(E::boolean) - of(E::boolean), errc::invalid_argument, HasSubstr("logical_xor"));
  DWELL_EXPECT_ERROR(ops::bitwise_and(of(E::f32), 1), errc::invalid_argument, HasSubstr("bitwise_and is not defined for f32"));
  DWELL_EXPECT_ERROR(ops::where(of(E::f32), 0.0, of(E::f32)), errc::invalid_argument, HasSubstr("condition"));
  DWELL_EXPECT_ERROR(of(E::u32) + 1, errc::unsupported, HasSubstr("add: tensors of u32"));
  DWELL_EXPECT_ERROR(Expression::of(TensorOp::add, of(E::f32)), errc::invalid_argument, HasSubstr("add takes 2 operands, not 1"));
  DWELL_EXPECT_ERROR(of(E::f32, {2, 3}) + of(E::f32, {2, 4}), errc::invalid_argument, HasSubstr("(2, 3) and (2, 4) do not broadcast"));
}

TEST_P(TensorTest, SingleOperationsConvertLikeExpressions) {
  const auto x = filled_with(std::vector<float>{-1.5F, 0, 2.25F, 3});
  const auto n = filled_with(std::vector<std::int32_t>{1, 2, -3, 4});
  const auto yes = filled_with(std::vector<std::uint8_t>{1, 0, 0, 1});
  const TensorView condition(reinterpret_cast<std::uint64_t>(yes.data()), ElementType::boolean, {4});
  const auto result = runtime().allocate<double>(4);
  const auto apply = [&](TensorOp op, std::initializer_list<Operand> operands) {
    batch().apply(op, result, operands);
    batch().flush().wait();
    return read(result);
  };
  const TensorView views[] = {x, n};
  EXPECT_EQ(apply(TensorOp::add, {views[0], 0.5}), (std::vector<double>{-1, 0.5, 2.75, 3.5}));
  EXPECT_EQ(apply(TensorOp::sub, {1, views[0]}), (std::vector<double>{2.5, 1, -1.25, -2}));
  EXPECT_EQ(apply(TensorOp::mul, {views[0], views[1]}), (std::vector<double>{-1.5, 0, -6.75, 12}));
  EXPECT_EQ(apply(TensorOp::gt, {views[0], views[1]}), (std::vector<double>{0, 0, 1, 0}));
  EXPECT_EQ(apply(TensorOp::where, {views[0], views[1], condition}), (std::vector<double>{-1.5, 2, -3, 3}));
  EXPECT_EQ(apply(TensorOp::where, {views[0], -7, condition}), (std::vector<double>{-1.5, -7, -7, 3}));
  EXPECT_EQ(apply(TensorOp::clamp, {views[0], -1, views[0]}), (std::vector<double>{-1.5, 0, 2.25, 3}));
  EXPECT_EQ(apply(TensorOp::div, {views[1], 2}), (std::vector<double>{0.5, 1, -1.5, 2}));
  EXPECT_EQ(apply(TensorOp::bitwise_and, {views[1], 5}), (std::vector<double>{1, 0, 5, 4}));
  EXPECT_EQ(apply(TensorOp::add, {views[0], TensorView(n).select(0, 3)}), (std::vector<double>{2.5, 4, 6.25, 7}));
  DWELL_EXPECT_ERROR(apply(TensorOp::add, {views[0]}), errc::invalid_argument, HasSubstr("add takes 2 operands, not 1"));
  DWELL_EXPECT_ERROR(apply(TensorOp::bitwise_and, {views[0], 1}), errc::invalid_argument, HasSubstr("f32"));
}

TEST_P(TensorTest, BitwiseOperationsOnBools) {
  using Truths = std::vector<std::uint8_t>;
  const auto bits = filled_with(Truths{1, 1, 0, 0, 1, 0, 1, 0, 7, 7, 7, 7});
  const auto truths = [&](std::int64_t row) {
    return TensorView(reinterpret_cast<std::uint64_t>(bits.data()) + static_cast<std::uint64_t>(row) * 4, ElementType::boolean, {4});
  };
  const TensorView x = truths(0), y = truths(1), result = truths(2);
  const auto check = [&](TensorOp op, const Truths& expected) {
    batch().flush().wait();
    const Truths all = read(bits);
    EXPECT_EQ(Truths(all.begin() + 8, all.end()), expected) << static_cast<int>(op);
  };
  const std::vector<std::pair<TensorOp, Truths>> binary = {
      {TensorOp::bitwise_and, {1, 0, 0, 0}}, {TensorOp::bitwise_or, {1, 1, 1, 0}}, {TensorOp::bitwise_xor, {0, 1, 1, 0}}};
  for (const auto& [op, expected] : binary) {
    batch().assign(result, Expression::of(op, x, y));
    check(op, expected);
    batch().apply(op, result, {y, x});
    check(op, expected);
  }
  batch().assign(result, ops::bitwise_not(x));
  check(TensorOp::bitwise_not, {0, 0, 1, 1});
  batch().apply(TensorOp::bitwise_not, result, {y});
  check(TensorOp::bitwise_not, {0, 1, 0, 1});
  DWELL_EXPECT_ERROR(ops::left_shift(x, y), errc::invalid_argument, HasSubstr("left_shift is not defined for bool"));
}

TEST_P(TensorTest, SmallestNumbersAreTrue) {
  const auto x = filled_with(std::vector<double>{1e-320, 0, -1e-50, 0.25});
  const auto bits = filled_with(std::vector<std::uint8_t>{7, 7, 7, 7, 7});
  const TensorView result(reinterpret_cast<std::uint64_t>(bits.data()), ElementType::boolean, {5});
  batch().assign(result.slice(0, 0, 4), TensorView(x));
  batch().any(result.select(0, 4), TensorView(x).slice(0, 0, 1));
  batch().flush().wait();
  EXPECT_EQ(read(bits), (std::vector<std::uint8_t>{1, 0, 1, 1, 1}));
}

TEST_P(TensorTest, FractionsAreTrueInIntegerPrograms) {
  const auto x = filled_with(std::vector<float>{0, 0.5F, 1, -0.25F});
  const auto n = filled_with(std::vector<i64>{0, 1, 2, 3});
  const auto made = runtime().allocate<i64>(4);
  const auto bits = filled_with(std::vector<std::uint8_t>(12, 7));
  const auto row = [&](int number) {
    return TensorView(reinterpret_cast<std::uint64_t>(bits.data()) + static_cast<std::uint64_t>(number) * 4, ElementType::boolean, {4});
  };
  batch().assign(made, Expression(n) + 1);  // computed first, which makes the program's numbers wide
  batch().assign(row(0), TensorView(x));
  batch().assign(row(1), Expression(0.5));
  batch().assign(row(2), Expression(x).as(ElementType::f16));
  batch().flush().wait();
  EXPECT_EQ(read(bits), (std::vector<std::uint8_t>{0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}));
}

TEST_P(TensorTest, LargeIntegersFillTensorsExactly) {
  constexpr std::array<std::int64_t, 4> kLarge{(1LL << 53) + 1, std::numeric_limits<std::int64_t>::max(),
                                               std::numeric_limits<std::int64_t>::min(), (1 << 24) + 1};
  const auto x = runtime().allocate<i64>(4);
  for (std::int64_t i = 0; i < 4; ++i) {
    batch().assign(TensorView(x).slice(0, i, 1), Expression(kLarge[static_cast<std::size_t>(i)]));
    batch().flush().wait();
  }
  EXPECT_EQ(read(x), std::vector<i64>(kLarge.begin(), kLarge.end()));
  const auto same = [](std::span<const Expression> numbers) { return numbers[0]; };
  for (std::int64_t i = 0; i < 4; ++i) {
    const Operand number[] = {kLarge[3 - static_cast<std::size_t>(i)]};
    batch().apply(same, ElementType::i64, TensorView(x).slice(0, i, 1), number);
    batch().flush().wait();
  }
  EXPECT_EQ(read(x), std::vector<i64>(kLarge.rbegin(), kLarge.rend()));
}

TEST_P(TensorTest, ConversionsBetweenTypes) {
  const auto x = filled_with(std::vector<float>{-1.7F, 0, 0.3F, 300.9F, 1.0F});
  EXPECT_EQ(values_of<std::int8_t>(x, 5), (std::vector<std::int8_t>{-1, 0, 0, 44, 1}));
  EXPECT_EQ(values_of<i64>(x, 5), (std::vector<i64>{-1, 0, 0, 300, 1}));
  EXPECT_EQ(values_of<float>(Expression(x).as(ElementType::boolean), 5), (std::vector<float>{1, 0, 1, 1, 1}));
  EXPECT_EQ(values_of<double>(Expression(x).as(ElementType::i32).as(ElementType::boolean), 5), (std::vector<double>{1, 0, 0, 1, 1}));
  const auto n = filled_with(std::vector<i64>{16777217, -3, 0, 1LL << 40, 2});
  EXPECT_EQ(values_of<float>(n, 5), (std::vector<float>{16777216.0F, -3, 0, 1099511627776.0F, 2}));
  EXPECT_EQ(values_of<float>(Expression(n) * x, 5)[3], 1099511627776.0F * 300.9F);
  const std::vector<half> halves = values_of<half>(Expression(x) * 0.1 + n, 5);  // computed in float, rounded twice
  EXPECT_EQ(static_cast<float>(halves[1]), -3.0F);
}

TEST_P(TensorTest, SixteenBitResultsAreRoundedAfterEachOperation) {
  const auto x = filled_with(std::vector<half>{half(1.0F), half(2048.0F)});
  const auto y = filled_with(std::vector<half>{half(0.00048828125F), half(1.0F)});
  // A half cannot represent 2048 + 1: ties go to even. In floats it would be 2050.
  const std::vector<half> sums = values_of<half>(Expression(x) + y + y, 2);
  EXPECT_EQ(static_cast<float>(sums[1]), 2048.0F);
}

TEST_P(TensorTest, NumbersAreComparedAs16BitOperands) {
  // Neither type can represent the number; the element is the nearest value.
  const auto check = [&]<class T>(const std::vector<T>& elements) {
    const auto x = filled_with(elements);
    const TensorView view(x);
    auto results = runtime().allocate<bool>(elements.size());
    for (const TensorOp op : {TensorOp::eq, TensorOp::le, TensorOp::ge}) {
      EXPECT_EQ(values_of<u8>(Expression::of(op, x, 0.1), 1)[0], 1);
      EXPECT_EQ(values_of<u8>(Expression::of(op, 0.1, x), 1)[0], 1);
      EXPECT_EQ(values_of<u8>(Expression::of(op, ops::neg(ops::neg(x)), 0.1), 1)[0], 1) << "in an expression";
      batch().apply(op, results, {view, 0.1});
      batch().flush().wait();
      bool first = false;
      results.read(std::span(&first, 1));
      EXPECT_TRUE(first) << "by apply";
    }
    for (const TensorOp op : {TensorOp::remainder, TensorOp::fmod})
      EXPECT_EQ(static_cast<float>(values_of<T>(Expression::of(op, x, 0.1), 1)[0]), 0.0F);
    EXPECT_EQ(static_cast<float>(values_of<T>(ops::floor_divide(0.1, x), 1)[0]), 1.0F);
    EXPECT_EQ(static_cast<float>(values_of<T>(ops::pow(x, 0.1), 1)[0]),
              static_cast<float>(T(std::pow(static_cast<float>(elements[0]), static_cast<float>(elements[0])))));
  };
  check(std::vector<half>{half(0.1F)});
  check(std::vector<bfloat16>{bfloat16(0.1F)});
  // Other operations use the exact number, and round only the result.
  const auto x = filled_with(std::vector<half>{half(7.0F)});
  EXPECT_EQ(static_cast<float>(values_of<half>(ops::mul(x, 1.0 / 3), 1)[0]), static_cast<float>(half(7.0F / 3.0F)));
}

TEST_P(TensorTest, LerpStartsFromTheCloserEnd) {
  // The difference is rounded to 2^25, which shows the end from which it is taken.
  const auto from = filled_with(std::vector<float>{1.0F});
  const auto to = filled_with(std::vector<float>{33554432.0F});
  EXPECT_EQ(values_of<float>(ops::lerp(from, to, -0.25), 1)[0], -8388607.0F);
  EXPECT_EQ(values_of<float>(ops::lerp(from, to, -0.5), 1)[0], -16777216.0F);
  EXPECT_EQ(values_of<float>(ops::lerp(from, to, 1.0), 1)[0], 33554432.0F);
}

// ---- Shapes ----------------------------------------------------------------------------------------------------------------------

// A view with random strides in which no two elements share memory.
TensorView random_view(Random& random, std::uint64_t address, const Dims& shape) {
  // Dimensions in random order, some reversed or with gaps.
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  Dims strides = shape;
  std::int64_t reach = 1 + random() % 2;
  std::int64_t first = 0;
  for (const std::size_t dim : order) {
    strides[dim] = reach;
    reach *= shape[dim] + random() % 2;
    if (random() % 3 == 0) {
      first += (shape[dim] - 1) * strides[dim];
      strides[dim] = -strides[dim];
    }
  }
  return {address + static_cast<std::uint64_t>(first) * 4, ElementType::i32, shape, strides};
}

std::size_t offset(const TensorView& view, std::uint64_t base, const std::vector<std::int64_t>& at) {
  auto offset = static_cast<std::int64_t>(view.address() - base) / 4;
  for (std::size_t dim = 0; dim < view.dims(); ++dim) offset += at[dim] * view.strides()[dim];
  return static_cast<std::size_t>(offset);
}

TEST_P(TensorTest, AnyStrides) {
  Random random(6);
  constexpr std::size_t kMemory = 40'000;
  std::vector<std::int32_t> a(kMemory);
  std::vector<std::int32_t> b(kMemory);
  for (std::size_t i = 0; i < kMemory; ++i) {
    a[i] = static_cast<std::int32_t>(random());
    b[i] = static_cast<std::int32_t>(random());
  }
  const auto x = filled_with(a);
  const auto y = filled_with(b);
  const auto z = runtime().allocate<std::int32_t>(kMemory);
  const auto address = [](const Buffer<std::int32_t>& buffer) { return reinterpret_cast<std::uint64_t>(buffer.data()); };
  const auto start = Clock::now();
  for (int round = 0; round < 60 && Clock::now() - start < 20s; ++round) {
    Dims shape;
    const std::size_t dims = random() % 6;
    for (std::size_t dim = 0; dim < dims; ++dim) shape.push_back(1 + random() % (dims > 3 ? 5 : 17));
    const TensorView to = random_view(random, address(z), shape);
    const TensorView p = random_view(random, address(x), shape);
    TensorView q = random_view(random, address(y), shape);
    if (dims > 1 && random() % 2 == 0) q = q.select(0, 0);                   // broadcast along the first dimension
    if (q.dims() > 0 && random() % 2 == 0) q = q.slice(q.dims() - 1, 0, 1);  // and along the last
    batch().assign(to, Expression(p) - q);
    batch().flush().wait();
    const std::vector<std::int32_t> got = read(z);
    const TensorView all = q.expand(shape);
    bool same = true;
    for_each(shape, [&](const std::vector<std::int64_t>& at) {
      const auto expected =
          static_cast<std::int32_t>(static_cast<u32>(a[offset(p, address(x), at)]) - static_cast<u32>(b[offset(all, address(y), at)]));
      same = same && got[offset(to, address(z), at)] == expected;
    });
    ASSERT_TRUE(same) << "round " << round << ", shape " << to_string(shape) << ", strides " << to_string(to.strides()) << ", "
                      << to_string(p.strides()) << ", " << to_string(q.strides());
  }
}

TEST_P(TensorTest, EmptyAndSingle) {
  auto x = filled_with(std::vector<float>{1, 2, 3, 4, 5, 6});
  const TensorView all(x, {2, 3});
  batch().assign(all.slice(1, 0, 0), 7.0);
  EXPECT_TRUE(batch().flush().done());
  batch().assign(all.select(0, 1).select(0, 2), Expression(all.select(0, 0).select(0, 1)) * 10);
  batch().flush().wait();
  EXPECT_EQ(read(x), (std::vector<float>{1, 2, 3, 4, 5, 20}));
  batch().assign(all.select(1, 1), all.select(0, 0).select(0, 0));  // one number broadcast
  batch().flush().wait();
  EXPECT_EQ(read(x), (std::vector<float>{1, 1, 3, 4, 1, 20}));
}

TEST_P(TensorTest, IndexCountsRows) {
  auto x = runtime().allocate<float>(12);
  batch().assign(TensorView(x, {4, 3}).transpose(0, 1), Expression::index() * 0.5 + 1.0);
  batch().flush().wait();
  EXPECT_EQ(read(x), (std::vector<float>{1, 3, 5, 1.5, 3.5, 5.5, 2, 4, 6, 2.5, 4.5, 6.5}));
}

TEST_P(TensorTest, ResultMayOverlapOperands) {
  std::vector<float> values(5000);
  std::iota(values.begin(), values.end(), 0.0F);
  auto x = filled_with(values);
  const TensorView all(x);
  batch().assign(all.slice(0, 1, 4999), all.slice(0, 0, 4999));                                      // forwards
  batch().assign(all, all.slice(0, 4999, 5000, -1));                                                 // reversed
  batch().assign(all.slice(0, 0, 2500), Expression(all.slice(0, 0, 2500)) + all.slice(0, 0, 2500));  // the same elements: no copy
  batch().flush().wait();
  std::copy_backward(values.begin(), values.end() - 1, values.end());
  std::reverse(values.begin(), values.end());
  for (std::size_t i = 0; i < 2500; ++i) values[i] *= 2;
  EXPECT_EQ(read(x), values);
  DWELL_EXPECT_ERROR(batch().assign(all.slice(0, 0, 1).expand({10}), 1.0), errc::invalid_argument, HasSubstr("share memory"));
  DWELL_EXPECT_ERROR(batch().assign(all.slice(0, 0, 10), all), errc::invalid_argument, HasSubstr("(5000,) does not fit"));
}

// ---- Programs --------------------------------------------------------------------------------------------------------------------

// A random expression, and its value for each element.
struct Pair {
  Expression expression;
  std::vector<i64> values;
};

TEST_P(TensorTest, RandomExpressions) {
  Random random(7);
  constexpr std::size_t kElements = 300;
  std::vector<std::vector<i64>> given(6, std::vector<i64>(kElements));
  std::vector<Buffer<i64>> buffers;
  for (auto& values : given) {
    for (i64& value : values) value = static_cast<i64>(static_cast<u64>(random()) << 32U | random());
    buffers.push_back(filled_with(values));
  }
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Pair> made;
    for (std::size_t i = 0; i < given.size(); ++i) made.push_back({TensorView(buffers[i]), given[i]});
    made.push_back({3, std::vector<i64>(kElements, 3)});
    const int operations = 1 + static_cast<int>(random() % 24);
    for (int i = 0; i < operations; ++i) {
      // Mostly recent expressions, to get chains; sometimes any, to share results.
      const auto pick = [&] {
        return made[random() % 3 == 0 ? random() % made.size() : made.size() - 1 - random() % std::min<std::size_t>(4, made.size())];
      };
      const Pair a = pick();
      const Pair b = pick();
      const Pair c = pick();
      std::vector<i64> values(kElements);
      const auto fill = [&](auto f) {
        for (std::size_t k = 0; k < kElements; ++k)
          values[k] = static_cast<i64>(f(static_cast<u64>(a.values[k]), static_cast<u64>(b.values[k]), c.values[k]));
      };
      switch (random() % 6) {
        case 0:
          fill([](u64 p, u64 q, i64) { return p + q; });
          made.push_back({a.expression + b.expression, values});
          break;
        case 1:
          fill([](u64 p, u64 q, i64) { return p - q; });
          made.push_back({a.expression - b.expression, values});
          break;
        case 2:
          fill([](u64 p, u64 q, i64) { return p * q; });
          made.push_back({a.expression * b.expression, values});
          break;
        case 3:
          fill([](u64 p, u64, i64) { return ~p; });
          made.push_back({ops::bitwise_not(a.expression), values});
          break;
        case 4:
          fill([](u64 p, u64 q, i64 r) { return r > 0 ? p : q; });
          made.push_back({ops::where(a.expression, b.expression, ops::gt(c.expression, 0)), values});
          break;
        default:
          fill([](u64 p, u64 q, i64 r) { return std::min(std::max(static_cast<i64>(p), static_cast<i64>(q)), r); });
          made.push_back({ops::clamp(a.expression, b.expression, c.expression), values});
      }
    }
    try {
      ASSERT_EQ(values_of<i64>(made.back().expression, kElements), made.back().values) << "round " << round;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), errc::resource_limit) << error.what();
      ++refused;
    }
  }
  EXPECT_LT(refused, 60);
}

}  // namespace
}  // namespace dwell::test
