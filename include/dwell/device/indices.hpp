// Numbers as types: 0 .. n - 1 as template arguments (std::index_sequence, which NVRTC does not have), and the places of declarations.
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

// The place of a declaration among those of its kind in a source.
template <u32 number>
struct Place {
  static constexpr u32 value = number;
};
// Converts to each lower rank, to a near one first: of the overloads of a function, each with a higher rank than the one declared before
// it, a call with the highest rank chooses the last. So a declaration learns how many of its kind stand before it.
template <u32 number>
struct Rank : Rank<number - 1> {};
template <>
struct Rank<0> {};

}  // namespace device
}  // namespace dwell
