// Selections by an index as tasks.
#pragma once

#include <cstdint>

#include <dwell/tensor.hpp>

#include "tensor/device/selection.hpp"
#include "tensor/operation.hpp"
#include "tensor/operators.hpp"

namespace dwell::tensor {

// The operator that runs it.
extern const OwnSource kSelection;

// Applies the operation of tensor/device/selection.hpp to each place of a shape. The tensors are views of that shape; the indexed one has a
// stride of 0 along the indexed dimension. lower and upper have no index: it is `from`.
struct Selection {
  device::SelectionKind kind;
  TensorView to;
  TensorView from;
  TensorView index;
  std::size_t dim = 0;    // of the shape along which places of scatter_add can meet
  std::int64_t size = 0;  // of the indexed dimension, or the diagonal
  std::int64_t step = 0;  // its stride
};

// Returns its task, without operator and tensors, for a device with `workers`. The shape must not be empty. Throws errc::unsupported for
// tensors of 2^31 elements or more.
Operation operation_of(const Selection& selection, bool on_cuda, std::uint32_t workers);

}  // namespace dwell::tensor
