// What can be computed of the elements along dimensions of a tensor.
#pragma once

#include <cstdint>
#include <string_view>

#include <dwell/element_type.hpp>
#include <dwell/tensor.hpp>

namespace dwell {

// As PyTorch calls them; stddev is its std.
enum class Reduction : std::uint8_t { sum, mean, prod, amax, amin, argmax, argmin, any, all, var, stddev, norm, logsumexp };

// "sum"
std::string_view name_of(Reduction reduction);
// The type of results that PyTorch gives for elements of a type: i64 for sums and products of integers and bool and for places, bool for
// any and all, f32 for logsumexp of integers, else the same type. Throws errc::invalid_argument where it refuses the type: mean, var,
// stddev and norm of integers; errc::unsupported for u16, u32, u64 and complex types.
ElementType result_of(Reduction reduction, ElementType type);
// A shape without the named dimensions (all, when none is named), or with size 1 in their place. Negative ones count from the last. Throws
// errc::invalid_argument for those that do not exist, and for one that is named twice.
Dims reduced_shape(const Dims& shape, const Dims& axes, bool keep);

}  // namespace dwell
