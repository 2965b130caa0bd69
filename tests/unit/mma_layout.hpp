// Element positions of mma.m16n8k16 by the PTX ISA: the row and column of element i of a lane (a0 to a7, b0 to b3, c0 to c3).
#pragma once

#include <utility>

#include <dwell/device/platform.hpp>

namespace dwell::test {

inline std::pair<u32, u32> a_element(u32 lane, u32 i) {
  const u32 group = lane >> 2U;
  return {i < 2 || (4 <= i && i < 6) ? group : group + 8, lane % 4 * 2 + (i & 1U) + (i < 4 ? 0 : 8)};
}
inline std::pair<u32, u32> b_element(u32 lane, u32 i) { return {lane % 4 * 2 + (i & 1U) + (i < 2 ? 0 : 8), lane >> 2U}; }
inline std::pair<u32, u32> c_element(u32 lane, u32 i) { return {(lane >> 2U) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1U)}; }

}  // namespace dwell::test
