// Elementwise operations of two operands of which their rows in tensor_op.hpp say all.
#include <ATen/Operators.h>

#include "elementwise.hpp"
#include "operations.hpp"

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;
using dwell::TensorOp;

// Of two tensors, and of a tensor and a number: with a new result, in place, and with `out`.
#define DWELL_TAKE_one(name, types)
#define DWELL_TAKE_two(name, types)                                                                                \
  take_all<Direct<TensorOp::name, Types::types, gives(TensorOp::name)>, aten::name##_Tensor, aten::name##__Tensor, \
           aten::name##_Tensor_out, aten::name##_Scalar, aten::name##__Scalar, aten::name##_Scalar_out>(m);
#define DWELL_TAKE_own(name)
#define DWELL_TAKE(name, operands, numpy, calls, ...) DWELL_TAKE_##calls(name __VA_OPT__(, ) __VA_ARGS__)

void dwell::pytorch::take_binary_rows(torch::Library& m) { DWELL_TENSOR_OPS(DWELL_TAKE) }
#undef DWELL_TAKE
#undef DWELL_TAKE_own
#undef DWELL_TAKE_two
#undef DWELL_TAKE_one
