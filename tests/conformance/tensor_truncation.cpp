// Conversion of floating point to integers: numbers out of range give the same result on all devices and paths.
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <dwell/element_type.hpp>

#include "tests/conformance/tensor_test.hpp"

namespace dwell::test {
namespace {

// The rule of docs/tensors.md for a double.
template <class T>
T integer_of(double value) {
  using Between = std::conditional_t<std::is_same_v<T, std::uint8_t> || sizeof(T) == 8, std::int64_t, std::int32_t>;
  const double end = std::ldexp(1, sizeof(Between) * 8 - 1);
  Between between = std::numeric_limits<Between>::min();
  if (value >= end)
    between = std::numeric_limits<Between>::max();
  else if (std::trunc(value) >= -end)
    between = static_cast<Between>(value);
  return static_cast<T>(between);
}

const std::vector<double>& edge_numbers() {
  static const std::vector<double> all = [] {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    std::vector<double> values = {std::numeric_limits<double>::quiet_NaN(),
                                  kInfinite,
                                  -kInfinite,
                                  0,
                                  -0.0,
                                  0.5,
                                  -0.5,
                                  0.999,
                                  -0.999,
                                  std::numeric_limits<double>::max(),
                                  std::numeric_limits<double>::lowest(),
                                  5e-324};
    for (const int bits : {7, 8, 15, 16, 31, 32, 62, 63, 64, 100})
      for (const double delta : {-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5})
        for (const double sign : {-1.0, 1.0}) values.push_back(sign * (std::ldexp(1, bits) + delta));
    for (const int bits : {31, 63}) {
      values.push_back(std::nextafter(std::ldexp(1, bits), 0));
      values.push_back(static_cast<double>(std::nextafterf(std::ldexp(1.0F, bits), 0)));
      values.push_back(-std::nextafter(std::ldexp(1, bits), kInfinite));
      values.push_back(-static_cast<double>(std::nextafterf(std::ldexp(1.0F, bits), std::numeric_limits<float>::infinity())));
    }
    return values;
  }();
  return all;
}

template <class T>
T rounded_to(double value) {
  if constexpr (sizeof(T) == 2)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

class TensorTruncationTest : public TensorTest {
 protected:
  template <class From, class To>
  void check(From, To) {
    const std::size_t count = edge_numbers().size();
    std::vector<From> values;
    std::vector<To> wanted;
    for (const double value : edge_numbers()) {
      values.push_back(rounded_to<From>(value));
      wanted.push_back(
          integer_of<To>(static_cast<double>(static_cast<std::conditional_t<sizeof(From) == 8, double, float>>(values.back()))));
    }
    const Buffer<From> from = filled_with(values);
    const ElementType type = TensorView(runtime().allocate<To>(1)).type();
    SCOPED_TRACE(std::string(name_of(TensorView(from).type())) + " to " + std::string(name_of(type)));
    EXPECT_EQ(values_of<To>(from, count), wanted) << "elements";
    EXPECT_EQ(values_of<To>(-(-Expression(from)), count), wanted) << "results of an expression";
    EXPECT_EQ(values_of<To>(Expression(from).as(type) + Expression(Expression::index()).as(type) * 0, count), wanted) << "operands";
    EXPECT_EQ((applied<To>(TensorOp::maximum, {from, from}, count)), wanted) << "results of one operation";
    // Every second element, reversed.
    Buffer<To> strided = runtime().allocate<To>(2 * count);
    batch().assign(TensorView(strided).slice(0, 2 * static_cast<std::int64_t>(count) - 1, static_cast<std::int64_t>(count), -2), from);
    Buffer<To> remembered = runtime().allocate<To>(count);
    const TensorView view(from);
    for (int time = 0; time < 2; ++time) {
      const Operand operands[] = {view};
      batch().apply([](std::span<const Expression> x) { return x[0] * 1.0; }, view.type(), remembered, operands);
    }
    batch().flush().wait();
    const std::vector<To> got = read(strided);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(got[2 * count - 1 - 2 * i], wanted[i]) << edge_numbers()[i];
    EXPECT_EQ(read(remembered), wanted) << "a formula";
  }
  template <class From>
  void check_all(From from) {
    check(from, std::int8_t());
    check(from, std::int16_t());
    check(from, std::int32_t());
    check(from, std::int64_t());
    check(from, std::uint8_t());
  }
  template <class To>
  void check_number(To) {
    for (const double value : edge_numbers()) EXPECT_EQ(values_of<To>(value, 1).front(), integer_of<To>(value)) << value;
  }
};
DWELL_ON_EVERY_DEVICE(TensorTruncationTest);

TEST_P(TensorTruncationTest, ElementsOfEveryType) {
  check_all(float());
  check_all(double());
  check_all(half());
  check_all(bfloat16());
}

TEST_P(TensorTruncationTest, Numbers) {
  check_number(std::int8_t());
  check_number(std::int16_t());
  check_number(std::int32_t());
  check_number(std::int64_t());
  check_number(std::uint8_t());
}

}  // namespace
}  // namespace dwell::test
