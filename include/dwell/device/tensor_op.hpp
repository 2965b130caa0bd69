// What can be done with the elements of tensors.
#pragma once

#include <dwell/device/platform.hpp>

// X(name, operands): operations on one element of each operand. They are what PyTorch calls by these names. Lists are made by what an
// operation computes with, and whether it takes a few instructions of a GPU (light) or many.

// Any numbers.
#define DWELL_LIGHT_OPS(X)             \
  X(add, 2)                            \
  X(sub, 2)                            \
  X(mul, 2)                            \
  X(neg, 1)                            \
  X(abs, 1)                            \
  X(sign, 1)                           \
  X(relu, 1)                           \
  X(maximum, 2)                        \
  X(minimum, 2)                        \
  X(fmax, 2)                           \
  X(fmin, 2)                           \
  X(clamp, 3)     /* x, least, most */ \
  X(clamp_min, 2) /* x, least */       \
  X(clamp_max, 2) /* x, most */        \
  X(threshold, 3) /* x <= second ? third : x */
#define DWELL_HEAVY_OPS(X) \
  X(floor_divide, 2)       \
  X(trunc_divide, 2)       \
  X(remainder, 2)          \
  X(fmod, 2)               \
  X(pow, 2)                \
  X(floor, 1)              \
  X(ceil, 1)               \
  X(round, 1)              \
  X(trunc, 1)
// Any numbers; the result is true or not.
#define DWELL_COMPARISONS(X) \
  X(eq, 2)                   \
  X(ne, 2)                   \
  X(lt, 2)                   \
  X(le, 2)                   \
  X(gt, 2)                   \
  X(ge, 2)
#define DWELL_LOGICAL_OPS(X) \
  X(logical_and, 2)          \
  X(logical_or, 2)           \
  X(logical_xor, 2)          \
  X(logical_not, 1)
// Floating point.
#define DWELL_LIGHT_FLOAT_OPS(X) X(div, 2)
// Those that are usual are apart from the rare ones.
#define DWELL_USUAL_FLOAT_OPS(X)                                   \
  X(reciprocal, 1)                                                 \
  X(sqrt, 1)                                                       \
  X(rsqrt, 1)                                                      \
  X(exp, 1)                                                        \
  X(log, 1)                                                        \
  X(tanh, 1)                                                       \
  X(erf, 1)                                                        \
  X(lerp, 3) /* from, to, weight */                                \
  X(sigmoid, 1)                                                    \
  X(leaky_relu, 2) /* x, slope */                                  \
  X(elu, 3)        /* x, factor below 0, factor of the exponent */ \
  X(gelu, 1)                                                       \
  X(gelu_tanh, 1)                                                  \
  X(silu, 1)                                                       \
  X(hardsigmoid, 1)                                                \
  X(hardswish, 1)
#define DWELL_RARE_FLOAT_OPS(X)           \
  X(atan2, 2)                             \
  X(hypot, 2)                             \
  X(exp2, 1)                              \
  X(expm1, 1)                             \
  X(log2, 1)                              \
  X(log10, 1)                             \
  X(log1p, 1)                             \
  X(sin, 1)                               \
  X(cos, 1)                               \
  X(tan, 1)                               \
  X(asin, 1)                              \
  X(acos, 1)                              \
  X(atan, 1)                              \
  X(sinh, 1)                              \
  X(cosh, 1)                              \
  X(erfc, 1)                              \
  X(frac, 1)                              \
  X(logit, 1)                             \
  X(selu, 1)                              \
  X(mish, 1)                              \
  X(softplus, 3) /* x, beta, threshold */ \
  X(softsign, 1)
#define DWELL_FLOAT_OPS(X) \
  DWELL_USUAL_FLOAT_OPS(X) \
  DWELL_RARE_FLOAT_OPS(X)
// Integers and bool.
#define DWELL_BITWISE_OPS(X) \
  X(bitwise_and, 2)          \
  X(bitwise_or, 2)           \
  X(bitwise_xor, 2)          \
  X(bitwise_not, 1)          \
  X(left_shift, 2)           \
  X(right_shift, 2)
// All that compute a number from numbers of one class.
#define DWELL_COMPUTED_OPS(X) \
  DWELL_LIGHT_OPS(X)          \
  DWELL_HEAVY_OPS(X)          \
  DWELL_COMPARISONS(X)        \
  DWELL_LOGICAL_OPS(X)        \
  DWELL_LIGHT_FLOAT_OPS(X)    \
  DWELL_FLOAT_OPS(X)          \
  DWELL_BITWISE_OPS(X)
#define DWELL_TENSOR_OPS(X) \
  DWELL_COMPUTED_OPS(X)     \
  X(where, 3) /* the first where the third is true, else the second */

namespace dwell {

enum class TensorOp : u8 {
#define DWELL_NAME(name, operands) name,
  DWELL_TENSOR_OPS(DWELL_NAME)
#undef DWELL_NAME
};

}  // namespace dwell
