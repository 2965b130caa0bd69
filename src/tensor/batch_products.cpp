// Products of matrices: the members of Batch.
#include <algorithm>
#include <cmath>
#include <string>

#include <dwell/batch.hpp>
#include <dwell/error.hpp>

#include "tensor/argument_check.hpp"
#include "tensor/collected.hpp"
#include "tensor/layout.hpp"
#include "tensor/product.hpp"
#include "tensor/write_apart.hpp"

namespace dwell {

namespace {

using tensor::check_dims;
using tensor::check_shape;
using tensor::check_type;
using tensor::Product;
using tensor::refuse;

void check_factor(const char* function, const char* argument, double factor, ElementType type) {
  const bool whole = std::trunc(factor) == factor && std::fabs(factor) <= 0x1p53;
  const bool floats = type == ElementType::f16 || type == ElementType::bf16 || type == ElementType::f32 || type == ElementType::f64;
  if (!whole && !floats)
    throw Error(errc::invalid_argument,
                std::string(function) + ": argument " + argument + ", " + std::to_string(factor) +
                    ", must be a whole number for tensors of " + std::string(name_of(type)),
                {"argument", argument});
}

// Returns the bias broadcast to the shape of the result.
TensorView expanded(const char* function, const TensorView& bias, const Dims& shape) {
  bool fits = bias.dims() <= shape.size();
  for (std::size_t dim = 0; fits && dim < bias.dims(); ++dim)
    fits = bias.shape()[dim] == 1 || bias.shape()[dim] == shape[shape.size() - bias.dims() + dim];
  if (!fits) refuse(function, "bias", bias, "must broadcast to the shape " + to_string(shape));
  return bias.expand(shape);
}

// Return a vector as a matrix of one row, or of one column.
TensorView as_row(const TensorView& vector) { return vector.expand({1, vector.shape()[0]}); }
TensorView as_column(const TensorView& vector) { return as_row(vector).transpose(0, 1); }

void check_matrices(const char* function, const TensorView& to, const TensorView& a, const TensorView& b, std::size_t dims) {
  check_dims(function, "a", a, dims);
  check_dims(function, "b", b, dims);
  const std::size_t row = dims - 2;
  Dims of_b = b.shape();
  Dims of_to = b.shape();
  for (std::size_t dim = 0; dim < row; ++dim) of_b[dim] = a.shape()[dim];
  of_b[row] = a.shape()[row + 1];
  check_shape(function, "b", b, of_b);
  of_to = of_b;
  of_to[row] = a.shape()[row];
  check_shape(function, "to", to, of_to);
}

}  // namespace

void Batch::multiply(const char* function, const Product& product, const char* a, const char* b) {
  const TensorView& to = product.to;
  tensor::check_product_type(function, to.type());
  check_type(function, a, product.a, to);
  check_type(function, b, product.b, to);
  if (product.bias != nullptr) check_type(function, "bias", *product.bias, to);
  check_factor(function, "alpha", product.alpha, to.type());
  check_factor(function, "beta", product.beta, to.type());
  tensor::check_result(to);
  if (to.elements() == 0) return;
  const TensorView::Extent memory = to.extent();
  // Each element of the bias is read just before the result's element is written.
  const bool apart = product.a.extent().overlaps(memory) || product.b.extent().overlaps(memory) ||
                     (product.bias != nullptr && product.bias->extent().overlaps(memory) && !tensor::are_same(*product.bias, to));
  write_apart(to, apart, [&](const TensorView& where) {
    const Product there{.to = where, .a = product.a, .b = product.b, .bias = product.bias, .beta = product.beta, .alpha = product.alpha};
    tensor::Operation operation = tensor::operation_of(there, state_->operators.on_cuda(), state_->workers);
    operation.op = &state_->operators.get(tensor::source_of(operation));
    operation.kind = tensor::NotedOperation::Kind::product;
    add(operation);
  });
}

void Batch::mm(const TensorView& to, const TensorView& a, const TensorView& b) {
  check_matrices("mm", to, a, b, 2);
  multiply("mm", {.to = to, .a = a, .b = b});
}

void Batch::bmm(const TensorView& to, const TensorView& a, const TensorView& b) {
  check_matrices("bmm", to, a, b, 3);
  multiply("bmm", {.to = to, .a = a, .b = b});
}

void Batch::addmm(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta, double alpha) {
  check_matrices("addmm", to, a, b, 2);
  const TensorView all = expanded("addmm", bias, to.shape());
  multiply("addmm", {.to = to, .a = a, .b = b, .bias = &all, .beta = beta, .alpha = alpha});
}

void Batch::baddbmm(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta, double alpha) {
  check_matrices("baddbmm", to, a, b, 3);
  const TensorView all = expanded("baddbmm", bias, to.shape());
  multiply("baddbmm", {.to = to, .a = a, .b = b, .bias = &all, .beta = beta, .alpha = alpha});
}

void Batch::mv(const TensorView& to, const TensorView& a, const TensorView& x) {
  check_dims("mv", "a", a, 2);
  check_shape("mv", "x", x, {a.shape()[1]});
  check_shape("mv", "to", to, {a.shape()[0]});
  multiply("mv", {.to = as_column(to), .a = a, .b = as_column(x)}, "a", "x");
}

void Batch::addmv(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& x, double beta, double alpha) {
  check_dims("addmv", "a", a, 2);
  check_shape("addmv", "x", x, {a.shape()[1]});
  check_shape("addmv", "to", to, {a.shape()[0]});
  const TensorView all = as_column(expanded("addmv", bias, to.shape()));
  multiply("addmv", {.to = as_column(to), .a = a, .b = as_column(x), .bias = &all, .beta = beta, .alpha = alpha}, "a", "x");
}

void Batch::dot(const TensorView& to, const TensorView& x, const TensorView& y) {
  check_dims("dot", "x", x, 1);
  check_shape("dot", "y", y, x.shape());
  check_shape("dot", "to", to, {});
  multiply("dot", {.to = to.expand({1, 1}), .a = as_row(x), .b = as_column(y)}, "x", "y");
}

void Batch::outer(const TensorView& to, const TensorView& x, const TensorView& y) {
  check_dims("outer", "x", x, 1);
  check_dims("outer", "y", y, 1);
  check_shape("outer", "to", to, {x.shape()[0], y.shape()[0]});
  assign_for("outer", to, Expression(as_column(x)) * as_row(y));
}

void Batch::matmul(const TensorView& to, const TensorView& a, const TensorView& b) {
  if (a.dims() == 0) refuse("matmul", "a", a, "must have a dimension: use assign");
  if (b.dims() == 0) refuse("matmul", "b", b, "must have a dimension: use assign");
  TensorView left = a.dims() == 1 ? as_row(a) : a;
  TensorView right = b.dims() == 1 ? as_column(b) : b;
  const std::int64_t m = left.shape()[left.dims() - 2];
  const std::int64_t k = left.shape()[left.dims() - 1];
  const std::int64_t n = right.shape()[right.dims() - 1];
  if (right.shape()[right.dims() - 2] != k)
    refuse("matmul", "b", b, "must have " + std::to_string(k) + " rows, as many as a, of shape " + to_string(a.shape()) + ", has columns");
  // The leading dimensions broadcast to the batch.
  const std::size_t dims = std::max(left.dims(), right.dims());
  Dims batch;
  for (std::size_t dim = 0; dim + 2 < dims; ++dim) {
    const auto size_in = [&](const TensorView& view) { return dim + view.dims() < dims ? 1 : view.shape()[dim + view.dims() - dims]; };
    if (size_in(left) != size_in(right) && size_in(left) != 1 && size_in(right) != 1)
      refuse("matmul", "b", b, "must broadcast with a, of shape " + to_string(a.shape()) + ", ahead of the last two dimensions");
    batch.push_back(size_in(left) == 1 ? size_in(right) : size_in(left));
  }
  const auto with = [&](std::int64_t rows, std::int64_t columns) {
    Dims shape = batch;
    shape.push_back(rows);
    shape.push_back(columns);
    return shape;
  };
  // Vectors leave no dimension in the result.
  Dims wanted = batch;
  if (a.dims() > 1) wanted.push_back(m);
  if (b.dims() > 1) wanted.push_back(n);
  check_shape("matmul", "to", to, wanted);
  TensorView result = to;
  if (a.dims() == 1 && b.dims() == 1) result = to.expand({1, 1});
  // Adds a dimension in front, and moves it to its place.
  const auto insert = [&](std::size_t place) {
    Dims shape{1};
    Dims from;
    for (const std::int64_t size : to.shape()) shape.push_back(size);
    for (std::size_t dim = 0; dim < shape.size(); ++dim)
      from.push_back(static_cast<std::int64_t>(dim < place ? dim + 1 : dim == place ? 0 : dim));
    result = to.expand(shape).permute(from);
  };
  if (a.dims() == 1 && b.dims() > 1) insert(to.dims() - 1);
  if (b.dims() == 1 && a.dims() > 1) insert(to.dims());
  multiply("matmul", {.to = result, .a = left.expand(with(m, k)), .b = right.expand(with(k, n))});
}

}  // namespace dwell
