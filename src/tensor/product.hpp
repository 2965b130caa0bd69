// Products of matrices as tasks.
#pragma once

#include <cstdint>

#include <dwell/tensor.hpp>

#include "tensor/operation.hpp"
#include "tensor/operators.hpp"

namespace dwell::tensor {

// The operator that runs it.
extern const OwnSource kProduct;

// to = alpha * a b + beta * bias for each matrix of a batch: `to` has the shape (..., m, n), a (..., m, k), b (..., k, n), with the same
// dimensions in front, and a bias the shape of `to`. All are of one type. It refers to them: a view is large.
struct Product {
  const TensorView& to;
  const TensorView& a;
  const TensorView& b;
  const TensorView* bias = nullptr;  // null: none
  double beta = 0;
  double alpha = 1;
};

// Throws errc::unsupported for types that have no products.
void check_product_type(const char* function, ElementType type);

// The task that computes it, on a device of so many workers, but for its operator. There are results. Throws errc::unsupported for tensors
// of 2^31 elements or more.
Operation operation_of(const Product& product, bool on_cuda, std::uint32_t workers);

}  // namespace dwell::tensor
