// Reductions of the elements along dimensions of a tensor.
#pragma once

#include <cstdint>
#include <string_view>

#include <dwell/element_type.hpp>
#include <dwell/tensor.hpp>

namespace dwell {

// X(name, pytorch, numpy, gives, calls, text): one row per reduction. It defines the names, the types of results, Batch's functions, and
// those of Python. plan_of (src/tensor/reduction.cpp) defines how each reduction traverses the elements.
//   pytorch   the name in PyTorch, and of Batch's function in Python
//   numpy     the name of the function on arrays, as the array API and NumPy have it
//   gives     the type of results for elements of a type: `same`; `wide`, i64 of integers and bool; `real`, f32 of those; `floats`, none of
//             those in C++ and f32 in Python; `place` i64, `truth` bool
//   calls     what functions take beside axes: `plain`, nothing; `typed`, in Python a dtype; `corrected`, less how much the count divides;
//             `own`, what is said where they are
#define DWELL_REDUCTIONS(X)                                                                                                            \
  X(sum, sum, sum, wide, typed, "the sum")                                                                                             \
  X(mean, mean, mean, floats, typed, "the mean")                                                                                       \
  X(prod, prod, prod, wide, typed, "the product")                                                                                      \
  X(amax, amax, max, same, plain, "the largest element")                                                                               \
  X(amin, amin, min, same, plain, "the smallest element")                                                                              \
  X(argmax, argmax, argmax, place, plain, "the place of the largest element, the first of equal ones in the order of rows")            \
  X(argmin, argmin, argmin, place, plain, "the place of the smallest element, the first of equal ones in the order of rows")           \
  X(any, any, any, truth, plain, "whether some element is not 0")                                                                      \
  X(all, all, all, truth, plain, "whether no element is 0")                                                                            \
  X(var, var, var, floats, corrected, "the sum of squared differences from the mean, divided by the count less the correction")        \
  X(stddev, std, std, floats, corrected, "the square root of `var`")                                                                   \
  X(norm, norm, vector_norm, floats, own,                                                                                              \
    "the sum of ``|x|**p`` to the power of 1/p; the largest or smallest |x| for an infinite p, the count of those not 0 for a p of 0") \
  X(logsumexp, logsumexp, logsumexp, real, plain, "the logarithm of the sum of exponentials")

enum class Reduction : std::uint8_t {
#define DWELL_NAME(name, ...) name,
  DWELL_REDUCTIONS(DWELL_NAME)
#undef DWELL_NAME
};

// "sum"
std::string_view name_of(Reduction reduction);
// Returns PyTorch's type of the results for elements of a type: column `gives` above. Throws errc::invalid_argument for types that it
// refuses (`floats` of integers and bool); errc::unsupported for u16, u32, u64 and complex types.
ElementType result_of(Reduction reduction, ElementType type);
// Returns a shape without the dimensions `axes` (empty: all), or with size 1 in their place. Negative ones count from the last. Throws
// errc::invalid_argument for dimensions that do not exist or are repeated.
Dims reduced_shape(const Dims& shape, const Dims& axes, bool keep);

}  // namespace dwell
