// The types that elements of arrays have, as data.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

// g++ finds that the enumerators shadow the types of these names.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
// half, bfloat16, float, double, the integers, bool, complex<float>, complex<double>. Layouts shared by host and device hold these numbers.
enum class ElementType : u8 { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, complex64, complex128 };
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

}  // namespace dwell
