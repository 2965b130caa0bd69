// The dimensions that an operator runs over.
#pragma once

#include <span>

#include <dwell/tensor.hpp>

namespace dwell::tensor {

// Makes the dimensions of tensors that are all of one shape, given the strides of each, as few as say the same: those of one element go,
// neighbours that each tensor steps through as through one are joined. With `any_order` also in the order in which the first tensor lies in
// memory, which says the same when nobody asks which element is which. One dimension at least.
void join_dims(Dims& sizes, std::span<Dims> strides, bool any_order);

// Whether two views have the same elements at the same places.
bool are_same(const TensorView& a, const TensorView& b);

// Throws errc::invalid_argument when two elements of a tensor that is to be written might share memory, and so be written by two threads.
void check_result(const TensorView& to);
// Throws errc::unsupported when its elements lie too far apart for offsets of 32 bits, or there are too many to be counted by them.
void check_reach(const TensorView& tensor);

}  // namespace dwell::tensor
