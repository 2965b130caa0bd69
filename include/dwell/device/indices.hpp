// The numbers 0 .. n - 1 as template arguments: std::index_sequence, which NVRTC does not have.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

template <u32... Index>
struct Indices {};
template <u32 Count, u32... Index>
struct CountUp : CountUp<Count - 1, Count - 1, Index...> {};
template <u32... Index>
struct CountUp<0, Index...> {
  using type = Indices<Index...>;
};
template <u32 Count>
using MakeIndices = typename CountUp<Count>::type;

}  // namespace device
}  // namespace dwell
