// Each tensor operation (tensor_op.hpp) for one element, as PyTorch defines it.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {
namespace math {

// ---- What the language's library has ---------------------------------------------------------------------------------------------

#if DWELL_HAS_MATH
#define DWELL_LIBRARY_FUNCTION(name, of) ::name of
#else
#define DWELL_LIBRARY_FUNCTION(name, of) __builtin_##name of
#endif
#define DWELL_LIBRARY_UNARY(as, name)                                             \
  DWELL_DEVICE float as(float x) { return DWELL_LIBRARY_FUNCTION(name##f, (x)); } \
  DWELL_DEVICE double as(double x) { return DWELL_LIBRARY_FUNCTION(name, (x)); }
#define DWELL_LIBRARY_BINARY(as, name)                                                        \
  DWELL_DEVICE float as(float x, float y) { return DWELL_LIBRARY_FUNCTION(name##f, (x, y)); } \
  DWELL_DEVICE double as(double x, double y) { return DWELL_LIBRARY_FUNCTION(name, (x, y)); }
DWELL_LIBRARY_UNARY(abs, fabs)
DWELL_LIBRARY_UNARY(sqrt, sqrt)
DWELL_LIBRARY_UNARY(exp, exp)
DWELL_LIBRARY_UNARY(exp2, exp2)
DWELL_LIBRARY_UNARY(expm1, expm1)
DWELL_LIBRARY_UNARY(log, log)
DWELL_LIBRARY_UNARY(log2, log2)
DWELL_LIBRARY_UNARY(log10, log10)
DWELL_LIBRARY_UNARY(log1p, log1p)
DWELL_LIBRARY_UNARY(sin, sin)
DWELL_LIBRARY_UNARY(cos, cos)
DWELL_LIBRARY_UNARY(tan, tan)
DWELL_LIBRARY_UNARY(asin, asin)
DWELL_LIBRARY_UNARY(acos, acos)
DWELL_LIBRARY_UNARY(atan, atan)
DWELL_LIBRARY_UNARY(sinh, sinh)
DWELL_LIBRARY_UNARY(cosh, cosh)
DWELL_LIBRARY_UNARY(tanh, tanh)
DWELL_LIBRARY_UNARY(asinh, asinh)
DWELL_LIBRARY_UNARY(acosh, acosh)
DWELL_LIBRARY_UNARY(atanh, atanh)
DWELL_LIBRARY_UNARY(erf, erf)
DWELL_LIBRARY_UNARY(erfc, erfc)
DWELL_LIBRARY_UNARY(floor, floor)
DWELL_LIBRARY_UNARY(ceil, ceil)
DWELL_LIBRARY_UNARY(round, rint)  // ties to even
DWELL_LIBRARY_UNARY(trunc, trunc)
DWELL_LIBRARY_BINARY(fmod, fmod)
DWELL_LIBRARY_BINARY(pow, pow)
DWELL_LIBRARY_BINARY(fmax, fmax)
DWELL_LIBRARY_BINARY(fmin, fmin)
DWELL_LIBRARY_BINARY(atan2, atan2)
DWELL_LIBRARY_BINARY(hypot, hypot)
DWELL_LIBRARY_BINARY(copysign, copysign)
#undef DWELL_LIBRARY_BINARY
#undef DWELL_LIBRARY_UNARY
#undef DWELL_LIBRARY_FUNCTION

// ---- Integers: sums and products wrap, and so do their types (program.hpp) --------------------------------------------------

DWELL_DEVICE i64 add(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) + static_cast<u64>(b)); }
DWELL_DEVICE i64 sub(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) - static_cast<u64>(b)); }
DWELL_DEVICE i64 mul(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) * static_cast<u64>(b)); }
DWELL_DEVICE i64 neg(i64 x) { return sub(0, x); }
DWELL_DEVICE i64 abs(i64 x) { return x < 0 ? neg(x) : x; }
// The quotient by 0 is -1, and the remainder the dividend.
DWELL_DEVICE i64 trunc_divide(i64 a, i64 b) {
  if (b == 0) return -1;
  return b == -1 ? neg(a) : a / b;  // the least integer divided by -1 overflows
}
DWELL_DEVICE i64 fmod(i64 a, i64 b) {
  if (b == 0) return a;
  return b == -1 ? 0 : a % b;
}
DWELL_DEVICE i64 floor_divide(i64 a, i64 b) {
  const i64 rest = fmod(a, b);
  return b != 0 && rest != 0 && (rest < 0) != (b < 0) ? trunc_divide(a, b) - 1 : trunc_divide(a, b);
}
// A negative power of anything but 1 and -1 is 0.
DWELL_DEVICE i64 pow(i64 base, i64 exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base != -1) return 0;
    return exponent % 2 == 0 ? 1 : -1;
  }
  i64 result = 1;
  for (; exponent != 0; exponent >>= 1, base = mul(base, base))
    if ((exponent & 1) != 0) result = mul(result, base);
  return result;
}
DWELL_DEVICE i64 fmax(i64 a, i64 b) { return a > b ? a : b; }
DWELL_DEVICE i64 fmin(i64 a, i64 b) { return a < b ? a : b; }
DWELL_DEVICE i64 floor(i64 x) { return x; }
DWELL_DEVICE i64 ceil(i64 x) { return x; }
DWELL_DEVICE i64 round(i64 x) { return x; }
DWELL_DEVICE i64 trunc(i64 x) { return x; }
DWELL_DEVICE i64 bitwise_and(i64 a, i64 b) { return a & b; }
DWELL_DEVICE i64 bitwise_or(i64 a, i64 b) { return a | b; }
DWELL_DEVICE i64 bitwise_xor(i64 a, i64 b) { return a ^ b; }
DWELL_DEVICE i64 bitwise_not(i64 x) { return ~x; }
// A shift by 64 bits or more, or by a negative number, leaves only the sign.
DWELL_DEVICE i64 left_shift(i64 a, i64 b) { return b < 0 || b > 63 ? 0 : static_cast<i64>(static_cast<u64>(a) << static_cast<u64>(b)); }
DWELL_DEVICE i64 right_shift(i64 a, i64 b) { return a >> (b < 0 || b > 63 ? 63 : b); }

// ---- Floating point, and what integers do not do otherwise ---------------------------------------------------------

template <class T>
DWELL_DEVICE T add(T a, T b) {
  return a + b;
}
template <class T>
DWELL_DEVICE T sub(T a, T b) {
  return a - b;
}
template <class T>
DWELL_DEVICE T mul(T a, T b) {
  return a * b;
}
template <class T>
DWELL_DEVICE T div(T a, T b) {
  return a / b;
}
template <class T>
DWELL_DEVICE T neg(T x) {
  return -x;
}
// As Python's: the result has the divisor's sign.
template <class T>
DWELL_DEVICE T remainder(T a, T b) {
  const T rest = fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
template <class T>
DWELL_DEVICE T floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T rest = fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysign(T(0), a / b);
  const T floored = floor(quotient);
  return quotient - floored > T(0.5) ? floored + 1 : floored;
}
template <class T>
DWELL_DEVICE T trunc_divide(T a, T b) {
  return trunc(a / b);
}
// False for NaN, which differs from itself.
template <class T>
DWELL_DEVICE bool is_number(T x) {
  return x == x;  // NOLINT(misc-redundant-expression)
}
// Returns a NaN over any number. Of two zeros a CPU returns the second; on CUDA +0 is greater than -0, as in its instructions. PyTorch does
// the same on both.
template <class T>
DWELL_DEVICE T maximum(T a, T b) {
  if (!is_number(a)) return a;
#if DWELL_HAS_MATH
  if (is_number(b)) return fmax(a, b);
#endif
  return a > b ? a : b;
}
template <class T>
DWELL_DEVICE T minimum(T a, T b) {
  if (!is_number(a)) return a;
#if DWELL_HAS_MATH
  if (is_number(b)) return fmin(a, b);
#endif
  return a < b ? a : b;
}
template <class T>
DWELL_DEVICE T sign(T x) {
  return static_cast<T>((0 < x) - (x < 0));
}
template <class T>
DWELL_DEVICE T relu(T x) {
  return x < 0 ? T(0) : x;
}
template <class T>
DWELL_DEVICE T clamp_min(T x, T least) {
  return maximum(x, least);
}
template <class T>
DWELL_DEVICE T clamp_max(T x, T most) {
  return minimum(x, most);
}
template <class T>
DWELL_DEVICE T clamp(T x, T least, T most) {
  return clamp_max(clamp_min(x, least), most);
}
template <class T>
DWELL_DEVICE T threshold(T x, T limit, T value) {
  return x <= limit ? value : x;
}
template <class T>
DWELL_DEVICE T reciprocal(T x) {
  return 1 / x;
}
template <class T>
DWELL_DEVICE T rsqrt(T x) {
  return 1 / sqrt(x);
}
template <class T>
DWELL_DEVICE T frac(T x) {
  return x - trunc(x);
}
template <class T>
DWELL_DEVICE T lerp(T from, T to, T weight) {
  return abs(weight) < T(0.5) ? from + weight * (to - from) : to - (to - from) * (1 - weight);
}
template <class T>
DWELL_DEVICE T sigmoid(T x) {
  return 1 / (1 + exp(-x));
}
template <class T>
DWELL_DEVICE T logit(T x) {
  return log(x / (1 - x));
}
template <class T>
DWELL_DEVICE T leaky_relu(T x, T slope) {
  return x > 0 ? x : x * slope;
}
template <class T>
DWELL_DEVICE T elu(T x, T factor, T exponent) {
  return x < 0 ? expm1(x * exponent) * factor : x;
}
template <class T>
DWELL_DEVICE T selu(T x) {
  const T alpha = T(1.6732632423543772848170429916717);
  const T scale = T(1.0507009873554804934193349852946);
  return x < 0 ? expm1(x) * (alpha * scale) : x * scale;
}
template <class T>
DWELL_DEVICE T gelu(T x) {
  return x * T(0.5) * (1 + erf(x * T(0.70710678118654752440)));
}
template <class T>
DWELL_DEVICE T gelu_tanh(T x) {
  return T(0.5) * x * (1 + tanh(T(0.79788456080286535588) * (x + T(0.044715) * (x * x * x))));
}
template <class T>
DWELL_DEVICE T silu(T x) {
  return x / (1 + exp(-x));
}
template <class T>
DWELL_DEVICE T mish(T x) {
  return x * tanh(log1p(exp(x)));
}
template <class T>
DWELL_DEVICE T hardsigmoid(T x) {
  return clamp(x + 3, T(0), T(6)) / 6;
}
template <class T>
DWELL_DEVICE T hardswish(T x) {
  return x * clamp(x + 3, T(0), T(6)) / 6;
}
template <class T>
DWELL_DEVICE T softplus(T x, T beta, T limit) {
  return x * beta > limit ? x : log1p(exp(x * beta)) / beta;
}
template <class T>
DWELL_DEVICE T softsign(T x) {
  return x / (1 + abs(x));
}

// ---- Numbers that are true or not ------------------------------------------------------------------------------------------------

template <class T>
DWELL_DEVICE bool eq(T a, T b) {
  return a == b;
}
template <class T>
DWELL_DEVICE bool ne(T a, T b) {
  return a != b;
}
template <class T>
DWELL_DEVICE bool lt(T a, T b) {
  return a < b;
}
template <class T>
DWELL_DEVICE bool le(T a, T b) {
  return a <= b;
}
template <class T>
DWELL_DEVICE bool gt(T a, T b) {
  return a > b;
}
template <class T>
DWELL_DEVICE bool ge(T a, T b) {
  return a >= b;
}
template <class T>
DWELL_DEVICE bool logical_and(T a, T b) {
  return a != 0 && b != 0;
}
template <class T>
DWELL_DEVICE bool logical_or(T a, T b) {
  return a != 0 || b != 0;
}
template <class T>
DWELL_DEVICE bool logical_xor(T a, T b) {
  return (a != 0) != (b != 0);
}
template <class T>
DWELL_DEVICE bool logical_not(T x) {
  return x == 0;
}

}  // namespace math
}  // namespace device
}  // namespace dwell
