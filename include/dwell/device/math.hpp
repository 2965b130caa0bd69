// Functions of real numbers for operators on the CPU: sqrtf, exp, fminf, ... CUDA has these by itself.
#pragma once

#include <dwell/device/platform.hpp>

#if !DWELL_HAS_MATH

// As the C library declares them, so that <cmath> may be included too, before or after this.
#define DWELL_OF_ONE(name)                 \
  extern "C" double name(double) noexcept; \
  extern "C" float name##f(float) noexcept;
#define DWELL_OF_TWO(name)                         \
  extern "C" double name(double, double) noexcept; \
  extern "C" float name##f(float, float) noexcept;

DWELL_OF_ONE(acos)
DWELL_OF_ONE(acosh)
DWELL_OF_ONE(asin)
DWELL_OF_ONE(asinh)
DWELL_OF_ONE(atan)
DWELL_OF_ONE(atanh)
DWELL_OF_ONE(cbrt)
DWELL_OF_ONE(ceil)
DWELL_OF_ONE(cos)
DWELL_OF_ONE(cosh)
DWELL_OF_ONE(erf)
DWELL_OF_ONE(erfc)
DWELL_OF_ONE(exp)
DWELL_OF_ONE(exp2)
DWELL_OF_ONE(expm1)
DWELL_OF_ONE(fabs)
DWELL_OF_ONE(floor)
DWELL_OF_ONE(lgamma)
DWELL_OF_ONE(log)
DWELL_OF_ONE(log10)
DWELL_OF_ONE(log1p)
DWELL_OF_ONE(log2)
DWELL_OF_ONE(nearbyint)
DWELL_OF_ONE(rint)
DWELL_OF_ONE(round)
DWELL_OF_ONE(sin)
DWELL_OF_ONE(sinh)
DWELL_OF_ONE(sqrt)
DWELL_OF_ONE(tan)
DWELL_OF_ONE(tanh)
DWELL_OF_ONE(tgamma)
DWELL_OF_ONE(trunc)
DWELL_OF_TWO(atan2)
DWELL_OF_TWO(copysign)
DWELL_OF_TWO(fdim)
DWELL_OF_TWO(fmax)
DWELL_OF_TWO(fmin)
DWELL_OF_TWO(fmod)
DWELL_OF_TWO(hypot)
DWELL_OF_TWO(pow)
DWELL_OF_TWO(remainder)
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;

#undef DWELL_OF_ONE
#undef DWELL_OF_TWO

// These are CUDA's own.
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }

#endif
