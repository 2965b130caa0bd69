// Elements that an index chooses, as tasks.
#pragma once

#include <cstdint>

#include <dwell/tensor.hpp>

#include "tensor/device/selection.hpp"
#include "tensor/operation.hpp"
#include "tensor/operators.hpp"

namespace dwell::tensor {

// The operator that runs it.
extern const OwnSource kSelection;

// What tensor/device/selection.hpp says, for each place of a shape. The tensors are views of that shape, with a stride of 0 along the
// dimension that is indexed in the one that it is in. Of lower and upper there is no index: it is `from`.
struct Selection {
  device::SelectionKind kind;
  TensorView to;
  TensorView from;
  TensorView index;
  std::size_t dim = 0;    // of the shape along which places of scatter_add can meet
  std::int64_t size = 0;  // of the dimension that is indexed, or the diagonal
  std::int64_t step = 0;  // its stride
};

// The task, on a device of so many workers, but for its operator and tensors. There are places. Throws errc::unsupported for tensors of
// 2^31 elements or more.
Operation operation_of(const Selection& selection, bool on_cuda, std::uint32_t workers);

}  // namespace dwell::tensor
