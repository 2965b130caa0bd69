// Reductions of rows of floats, and rows that are replaced, as members of a gang compute them (member.hpp).
#pragma once

#include "tensor/device/lanes.hpp"
#include "tensor/device/member.hpp"

namespace dwell {
namespace device {

// R has the shape as constants, in the terms of rows.hpp:
//   rows, columns; statistic, map, fold, result; parameter(); has_third, has_fourth; lanes: threads that share a row, a power of two up to
//   32
// and the offsets of elements: input(row, column), output(row, column), third(row, column), fourth(row, column).

template <RowMap map>
DWELL_DEVICE float mapped(float x) {
  return map == RowMap::square ? x * x : map == RowMap::abs ? math::abs(x) : x;
}
template <RowFold fold>
DWELL_DEVICE float folded(float x, float y) {
  switch (fold) {
    case RowFold::product: return x * y;
    case RowFold::max: return math::maximum(x, y);
    case RowFold::min: return math::minimum(x, y);
    default: return x + y;
  }
}
template <RowFold fold>
DWELL_DEVICE float identity() {
  switch (fold) {
    case RowFold::product: return 1;
    case RowFold::max: return RowMath<float>::least();
    case RowFold::min: return RowMath<float>::most();
    default: return 0;
  }
}

// `members`: that share the rows out.
template <class R, u32 members, u32 threads>
DWELL_DEVICE void reduce_rows(const Member& m, float* to, const float* from, const float* third, const float* fourth) {
  constexpr u32 kAtOnce = threads / R::lanes;
  constexpr bool kReplaces = R::result >= RowResult::softmax;
  const u32 lane = m.thread() % R::lanes;
  const auto sum = [](float x, float y) { return x + y; };
  // All threads of a warp take as many turns: they combine their numbers.
  DWELL_UNROLL_NOT
  for (u32 turn = members == 1 ? 0 : m.rank() * kAtOnce; turn < R::rows; turn += members * kAtOnce) {
    const bool has = turn + m.thread() / R::lanes < R::rows;
    const u32 row = has ? turn + m.thread() / R::lanes : 0;
    // Each statistic is computed only where the result needs it.
    float number = R::statistic == RowStatistic::fold      ? identity<R::fold>()
                   : R::statistic == RowStatistic::moments ? 0
                                                           : RowMath<float>::least();
    for (u32 column = lane; column < R::columns; column += R::lanes) {
      const float x = from[R::input(row, column)];
      if (R::statistic == RowStatistic::fold)
        number = folded<R::fold>(number, mapped<R::map>(x));
      else
        number = R::statistic == RowStatistic::moments ? number + x : math::maximum(number, x);
    }
    if (R::statistic == RowStatistic::fold)
      number = over_lanes<R::lanes>(number, [](float x, float y) { return folded<R::fold>(x, y); });
    else if (R::statistic == RowStatistic::moments)
      number = over_lanes<R::lanes>(number, sum) / static_cast<float>(R::columns);
    else
      number = over_lanes<R::lanes>(number, [](float x, float y) { return math::maximum(x, y); });
    float second = 0;
    if (R::statistic != RowStatistic::fold) {
      for (u32 column = lane; column < R::columns; column += R::lanes) {
        const float apart = from[R::input(row, column)] - number;
        second += R::statistic == RowStatistic::moments ? apart * apart : math::exp(apart);
      }
      second = over_lanes<R::lanes>(second, sum);
    }
    if (!kReplaces) {
      if (R::result == RowResult::mean) number /= static_cast<float>(R::columns);
      if (R::result == RowResult::root) number = math::sqrt(number);
      if (R::result == RowResult::variance) number = second / (static_cast<float>(R::columns) - R::parameter());
      if (R::result == RowResult::deviation) number = math::sqrt(second / (static_cast<float>(R::columns) - R::parameter()));
      if (R::result == RowResult::log) number = number + math::log(second);
      if (lane == 0 && has) to[R::output(row, 0)] = number;
      continue;
    }
    float factor = 1;
    if (R::result == RowResult::log_softmax) factor = math::log(second);
    if (R::result == RowResult::layer_norm) factor = 1 / math::sqrt(second / static_cast<float>(R::columns) + R::parameter());
    if (R::result == RowResult::rms_norm) factor = 1 / math::sqrt(number / static_cast<float>(R::columns) + R::parameter());
    if (!has) continue;
    for (u32 column = lane; column < R::columns; column += R::lanes) {
      float x = from[R::input(row, column)];
      if (R::result == RowResult::softmax)
        x = math::exp(x - number) / second;
      else if (R::result == RowResult::log_softmax)
        x = x - number - factor;
      else
        x = (R::result == RowResult::layer_norm ? x - number : x) * factor;
      if (R::has_third) x *= third[R::third(row, column)];
      if (R::has_fourth) x += fourth[R::fourth(row, column)];
      to[R::output(row, column)] = x;
    }
  }
}

}  // namespace device
}  // namespace dwell
