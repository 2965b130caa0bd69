// Simplifies the dimensions that an operator runs over.
#pragma once

#include <span>

#include <dwell/tensor.hpp>

namespace dwell::tensor {

// Reduces the dimensions of tensors of one shape, given the strides of each: drops those of size 1, and joins adjacent ones that each
// tensor traverses as one. With `any_order`, also reorders them to the memory order of the first tensor, for programs that do not depend on
// the index. Leaves at least one dimension.
void join_dims(Dims& sizes, std::span<Dims> strides, bool any_order);

// Returns whether two views have the same elements at the same places.
bool are_same(const TensorView& a, const TensorView& b);

// Throws errc::invalid_argument if two elements of a result may share memory, and so be written by two threads.
void check_result(const TensorView& to);
// Throws errc::unsupported when offsets or the number of its elements exceed 32 bits.
void check_reach(const TensorView& tensor);

}  // namespace dwell::tensor
