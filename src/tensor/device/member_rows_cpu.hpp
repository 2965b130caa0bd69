// Reductions of rows of floats, and rows that are replaced, as the one member of a gang on a CPU computes them (member_rows.hpp).
#pragma once

#include "tensor/device/lanes.hpp"
#include "tensor/device/member.hpp"

namespace dwell {
namespace device {

// R is as in member_rows.hpp, with the type of the numbers that rows are reduced in: Number.

template <RowMap map, class C>
DWELL_DEVICE C mapped(C x) {
  return map == RowMap::square ? x * x : map == RowMap::abs ? math::abs(x) : x;
}
template <RowFold fold, class C>
DWELL_DEVICE C folded(C x, C y) {
  switch (fold) {
    case RowFold::product: return x * y;
    case RowFold::max: return math::maximum(x, y);
    case RowFold::min: return math::minimum(x, y);
    default: return x + y;
  }
}
template <RowFold fold, class C>
DWELL_DEVICE C identity() {
  switch (fold) {
    case RowFold::product: return 1;
    case RowFold::max: return RowMath<C>::least();
    case RowFold::min: return RowMath<C>::most();
    default: return 0;
  }
}

// e to the x, which is not above 0, or NaN. Without a call and without branches, so that loops of it are vectorized; within one unit of
// the last place. Source: Cody and Waite's reduction of the argument, and the polynomial of Cephes' expf.
DWELL_DEVICE float exp_of_negative(float x) {
  constexpr float kLeast = -105;           // e to that is 0
  constexpr float kRounding = 12'582'912;  // 1.5 * 2^23: the sum's last place is 1
  const float bounded = x < kLeast ? kLeast : x;
  const float rounded = bounded * 1.44269504F + kRounding;
  const float n = rounded - kRounding;
  const float r = bounded - n * 0.693359375F - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1;
  // Times 2^n, in two steps: the result may be subnormal.
  const i32 power = static_cast<i32>(bits_as<u32>(rounded) - bits_as<u32>(kRounding));
  const i32 half = power >> 1;
  const auto power_of_two = [](i32 exponent) { return bits_as<float>(static_cast<u32>(exponent + 127) << 23U); };
  return p * power_of_two(half) * power_of_two(power - half);
}
DWELL_DEVICE double exp_of_negative(double x) { return RowMath<double>::exp(x); }

// Folds value(column) over a row. Several partial results, so that the compiler vectorizes, and no addition waits for the one before.
template <RowFold fold, class C, u32 columns, class Value>
DWELL_DEVICE C fold_row(const Value& value) {
  constexpr u32 kAtOnce = 16;
  constexpr u32 kWhole = columns / kAtOnce * kAtOnce;
  C all = identity<fold, C>();
  if (kWhole != 0) {
    C part[kAtOnce];
    for (u32 i = 0; i < kAtOnce; ++i) part[i] = identity<fold, C>();
    for (u32 column = 0; column < kWhole; column += kAtOnce)
      for (u32 i = 0; i < kAtOnce; ++i) part[i] = folded<fold>(part[i], value(column + i));
    for (u32 half = kAtOnce / 2; half != 0; half /= 2)
      for (u32 i = 0; i < half; ++i) part[i] = folded<fold>(part[i], part[i + half]);
    all = part[0];
  }
  for (u32 column = kWhole; column < columns; ++column) all = folded<fold>(all, value(column));
  return all;
}

template <class R, u32 members, u32 threads>
DWELL_DEVICE void reduce_rows(const Member&, float* to, const float* from, const float* third, const float* fourth) {
  static_assert(members == 1 && threads == 1, "a gang on a CPU is one thread");
  using C = typename R::Number;
  constexpr u32 kColumns = R::columns;
  constexpr u32 kMostKept = 4096;  // exponentials of a row, on the stack
  constexpr bool kMoments = R::statistic == RowStatistic::moments;
  for (u32 row = 0; row < R::rows; ++row) {
    const auto at = [&](u32 column) { return static_cast<C>(from[R::input(row, column)]); };
    // The statistic, as member_rows.hpp: the fold; mean and sum of squared differences; the largest and the sum of exponentials.
    C number = 0;
    C second = 0;
    if (R::statistic == RowStatistic::fold) {
      number = fold_row<R::fold, C, kColumns>([&](u32 column) { return mapped<R::map>(at(column)); });
    } else if (kMoments) {
      number = fold_row<RowFold::sum, C, kColumns>(at) / static_cast<C>(kColumns);
      second = fold_row<RowFold::sum, C, kColumns>([&](u32 column) { return (at(column) - number) * (at(column) - number); });
    } else {
      number = fold_row<RowFold::max, C, kColumns>(at);
      if (R::result == RowResult::softmax && kColumns <= kMostKept) {
        C exponentials[kColumns <= kMostKept ? kColumns : 1];
        DWELL_INDEPENDENT_STEPS
        for (u32 column = 0; column < kColumns; ++column) exponentials[column] = exp_of_negative(at(column) - number);
        second = fold_row<RowFold::sum, C, kColumns>([&](u32 column) { return exponentials[column]; });
        DWELL_INDEPENDENT_STEPS
        for (u32 column = 0; column < kColumns; ++column) to[R::output(row, column)] = static_cast<float>(exponentials[column] / second);
        continue;
      }
      second = fold_row<RowFold::sum, C, kColumns>([&](u32 column) { return exp_of_negative(at(column) - number); });
    }
    if (R::result < RowResult::softmax) {
      const C parameter = static_cast<C>(R::parameter());
      if (R::result == RowResult::mean) number /= static_cast<C>(kColumns);
      if (R::result == RowResult::root) number = math::sqrt(number);
      if (R::result == RowResult::variance) number = second / (static_cast<C>(kColumns) - parameter);
      if (R::result == RowResult::deviation) number = math::sqrt(second / (static_cast<C>(kColumns) - parameter));
      if (R::result == RowResult::log) number = number + math::log(second);
      to[R::output(row, 0)] = static_cast<float>(number);
      continue;
    }
    C factor = 1;
    if (R::result == RowResult::log_softmax) factor = math::log(second);
    if (R::result == RowResult::layer_norm) factor = 1 / math::sqrt(second / static_cast<C>(kColumns) + static_cast<C>(R::parameter()));
    if (R::result == RowResult::rms_norm) factor = 1 / math::sqrt(number / static_cast<C>(kColumns) + static_cast<C>(R::parameter()));
    DWELL_INDEPENDENT_STEPS
    for (u32 column = 0; column < kColumns; ++column) {
      C x = at(column);
      if (R::result == RowResult::softmax)
        x = exp_of_negative(x - number) / second;
      else if (R::result == RowResult::log_softmax)
        x = x - number - factor;
      else
        x = (R::result == RowResult::layer_norm ? x - number : x) * factor;
      if (R::has_third) x *= static_cast<C>(third[R::third(row, column)]);
      if (R::has_fourth) x += static_cast<C>(fourth[R::fourth(row, column)]);
      to[R::output(row, column)] = static_cast<float>(x);
    }
  }
}

}  // namespace device
}  // namespace dwell
