// The operations on elements of tensors.
#pragma once

#include <dwell/device/platform.hpp>

// X(name, operands, numpy, calls, types): operations on one element of each operand, a row each. The C++ function, its code for elements
// (src/tensor/device/math.hpp), the types of results (src/tensor/promotion.cpp), Python's functions, and PyTorch's table follow from the
// row.
//   name      as PyTorch calls it
//   numpy     the name in Python, as the array API and NumPy have it
//   calls     what PyTorch's table takes for it: `one` of name, name_ and name_out; `two`, those with .Tensor and .Scalar; `own`, what is
//             said in python/dwell/torch/csrc/elementwise.cpp
//   types     that PyTorch's table takes (Types there)
// Lists are grouped by the operands' numbers, and by cost: a few instructions of a GPU (light), or many.

// Any numbers.
#define DWELL_LIGHT_OPS(X)                             \
  X(add, 2, add, own)                                  \
  X(sub, 2, subtract, own)                             \
  X(mul, 2, multiply, own)                             \
  X(neg, 1, negative, one, numbers)                    \
  X(abs, 1, abs, one, numbers)                         \
  X(sign, 1, sign, one, numbers)                       \
  X(relu, 1, relu, own)                                \
  X(maximum, 2, maximum, own)                          \
  X(minimum, 2, minimum, own)                          \
  X(fmax, 2, fmax, own)                                \
  X(fmin, 2, fmin, own)                                \
  X(clamp, 3, clamp, own)         /* x, least, most */ \
  X(clamp_min, 2, clamp_min, own) /* x, least */       \
  X(clamp_max, 2, clamp_max, own) /* x, most */        \
  X(threshold, 3, threshold, own) /* x <= second ? third : x */
#define DWELL_HEAVY_OPS(X)              \
  X(floor_divide, 2, floor_divide, own) \
  X(trunc_divide, 2, trunc_divide, own) \
  X(remainder, 2, remainder, own)       \
  X(fmod, 2, fmod, own)                 \
  X(pow, 2, pow, own)                   \
  X(floor, 1, floor, one, numbers)      \
  X(ceil, 1, ceil, one, numbers)        \
  X(round, 1, round, one, numbers)      \
  X(trunc, 1, trunc, one, numbers)
// Any numbers; the result is true or not.
#define DWELL_COMPARISONS(X)     \
  X(eq, 2, equal, two, all)      \
  X(ne, 2, not_equal, two, all)  \
  X(lt, 2, less, two, all)       \
  X(le, 2, less_equal, two, all) \
  X(gt, 2, greater, two, all)    \
  X(ge, 2, greater_equal, two, all)
#define DWELL_LOGICAL_OPS(X)               \
  X(logical_and, 2, logical_and, one, all) \
  X(logical_or, 2, logical_or, one, all)   \
  X(logical_xor, 2, logical_xor, one, all) \
  X(logical_not, 1, logical_not, one, all)
// Floating point.
#define DWELL_LIGHT_FLOAT_OPS(X) X(div, 2, divide, own)
// Usual and rare ones are separate.
#define DWELL_USUAL_FLOAT_OPS(X)                                                    \
  X(reciprocal, 1, reciprocal, one, to_floats)                                      \
  X(sqrt, 1, sqrt, one, to_floats)                                                  \
  X(rsqrt, 1, rsqrt, one, to_floats)                                                \
  X(exp, 1, exp, one, to_floats)                                                    \
  X(log, 1, log, one, to_floats)                                                    \
  X(tanh, 1, tanh, one, to_floats)                                                  \
  X(erf, 1, erf, one, to_floats)                                                    \
  X(lerp, 3, lerp, own) /* from, to, weight */                                      \
  X(sigmoid, 1, sigmoid, one, to_floats)                                            \
  X(leaky_relu, 2, leaky_relu, own) /* x, slope */                                  \
  X(elu, 3, elu, own)               /* x, factor below 0, factor of the exponent */ \
  X(gelu, 1, gelu, own)                                                             \
  X(gelu_tanh, 1, gelu_tanh, own)                                                   \
  X(silu, 1, silu, one, floats)                                                     \
  X(hardsigmoid, 1, hardsigmoid, own)                                               \
  X(hardswish, 1, hardswish, own)
#define DWELL_RARE_FLOAT_OPS(X)                          \
  X(atan2, 2, atan2, one, to_floats)                     \
  X(hypot, 2, hypot, one, floats)                        \
  X(exp2, 1, exp2, one, to_floats)                       \
  X(expm1, 1, expm1, one, to_floats)                     \
  X(log2, 1, log2, one, to_floats)                       \
  X(log10, 1, log10, one, to_floats)                     \
  X(log1p, 1, log1p, one, to_floats)                     \
  X(sin, 1, sin, one, to_floats)                         \
  X(cos, 1, cos, one, to_floats)                         \
  X(tan, 1, tan, one, to_floats)                         \
  X(asin, 1, asin, one, to_floats)                       \
  X(acos, 1, acos, one, to_floats)                       \
  X(atan, 1, atan, one, to_floats)                       \
  X(sinh, 1, sinh, one, to_floats)                       \
  X(cosh, 1, cosh, one, to_floats)                       \
  X(asinh, 1, asinh, one, to_floats)                     \
  X(acosh, 1, acosh, one, to_floats)                     \
  X(atanh, 1, atanh, one, to_floats)                     \
  X(erfc, 1, erfc, one, to_floats)                       \
  X(frac, 1, frac, one, floats)                          \
  X(logit, 1, logit, own)                                \
  X(selu, 1, selu, own)                                  \
  X(mish, 1, mish, one, floats)                          \
  X(softplus, 3, softplus, own) /* x, beta, threshold */ \
  X(softsign, 1, softsign, own)
#define DWELL_FLOAT_OPS(X) \
  DWELL_USUAL_FLOAT_OPS(X) \
  DWELL_RARE_FLOAT_OPS(X)
// Integers and bool.
#define DWELL_BITWISE_OPS(X)                       \
  X(bitwise_and, 2, bitwise_and, two, integers)    \
  X(bitwise_or, 2, bitwise_or, two, integers)      \
  X(bitwise_xor, 2, bitwise_xor, two, integers)    \
  X(bitwise_not, 1, bitwise_invert, one, integers) \
  X(left_shift, 2, bitwise_left_shift, own)        \
  X(right_shift, 2, bitwise_right_shift, own)
// All operations that compute a number from numbers of one class.
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
  X(where, 3, where, own) /* the first where the third is true, else the second */

namespace dwell {

enum class TensorOp : u8 {
#define DWELL_NAME(name, ...) name,
  DWELL_TENSOR_OPS(DWELL_NAME)
#undef DWELL_NAME
};

}  // namespace dwell
