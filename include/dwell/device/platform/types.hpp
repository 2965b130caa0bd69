// Types and constants of all platforms.
#pragma once

// A constant of these headers. In an image it is a variable too: one for all operators where the language can say so, and in C++14 one for
// each, which loading the image has to pay for.
#if __cplusplus >= 201703L
#define DWELL_CONSTANT inline constexpr
#else
#define DWELL_CONSTANT constexpr
#endif

namespace dwell {

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "dwell needs 16, 32 and 64-bit integers");

}  // namespace dwell
