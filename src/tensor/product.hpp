// Products of matrices as tasks.
#pragma once

#include <cstdint>

#include <dwell/tensor.hpp>

#include "tensor/operation.hpp"
#include "tensor/operators.hpp"

namespace dwell::tensor {

// The operators of products in tiles, and of those in other ways.
extern const OwnSource kProduct;
extern const OwnSource kSmallProduct;
// Returns that of a product.
const OwnSource& source_of(const Operation& product);

// to = alpha * a b + beta * bias for each matrix of a batch: `to` has the shape (..., m, n), a (..., m, k), b (..., k, n), with equal
// leading dimensions, and a bias the shape of `to`. All have one type. Holds references: a view is large.
struct Product {
  const TensorView& to;
  const TensorView& a;
  const TensorView& b;
  const TensorView* bias = nullptr;  // null: none
  double beta = 0;
  double alpha = 1;
};

// Throws errc::unsupported for types without products.
void check_product_type(const char* function, ElementType type);

// Returns its task, without the operator, for a device with `workers`. The result must not be empty. Throws errc::unsupported for tensors
// of 2^31 elements or more.
Operation operation_of(const Product& product, bool on_cuda, std::uint32_t workers);

}  // namespace dwell::tensor
