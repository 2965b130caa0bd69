// Members of Batch: selections by an index, triangles of matrices, concatenation.
#include <algorithm>
#include <string>

#include <dwell/batch.hpp>
#include <dwell/detail/checked.hpp>
#include <dwell/error.hpp>

#include "tensor/argument_check.hpp"
#include "tensor/collected.hpp"
#include "tensor/layout.hpp"
#include "tensor/promotion.hpp"
#include "tensor/selection.hpp"
#include "tensor/write_apart.hpp"

namespace dwell {

namespace {

using device::SelectionKind;
using tensor::check_dims;
using tensor::check_shape;
using tensor::check_type;
using tensor::refuse;
using tensor::Selection;

void check_index(const char* function, const TensorView& index) {
  if (index.type() != ElementType::i32 && index.type() != ElementType::i64) refuse(function, "index", index, "must hold i32 or i64");
}
void check_dim(const char* function, const TensorView& view, std::size_t dim) {
  if (dim >= view.dims()) refuse(function, "dim", view, "has no dimension " + std::to_string(dim));
}

// Returns the view in another shape, with a stride of 0 along `dim`.
TensorView shaped(const TensorView& view, const Dims& shape, std::size_t dim) {
  Dims strides = view.strides();
  strides[dim] = 0;
  return {view.address(), view.type(), shape, strides};
}
TensorView strided(const TensorView& view, const Dims& shape, const Dims& strides) { return {view.address(), view.type(), shape, strides}; }

}  // namespace

void Batch::select(const TensorView& to, const TensorView& from, const TensorView* index, const Selection& selection) {
  tensor::Operation operation = tensor::operation_of(selection, state_->operators.on_cuda(), state_->workers);
  operation.op = &state_->operators.get(tensor::kSelection);
  operation.tensors = {&to, &from};
  if (index != nullptr) operation.tensors.push_back(index);
  for (const TensorView* const tensor : operation.tensors) tensor::check_reach(*tensor);
  add(operation);
}

TensorView Batch::copied(const TensorView& view) {
  const TensorView made = made_like(view);
  copy(made, view);
  return made;
}

void Batch::index_select(const TensorView& to, const TensorView& from, std::size_t dim, const TensorView& index) {
  constexpr const char* kName = "index_select";
  check_dim(kName, from, dim);
  check_dims(kName, "index", index, 1);
  check_index(kName, index);
  Dims shape = from.shape();
  shape[dim] = index.shape()[0];
  check_shape(kName, "to", to, shape);
  check_type(kName, "from", from, to);
  tensor::check_result(to);
  if (to.elements() == 0) return;
  Dims along = shape;
  for (std::size_t i = 0; i < along.size(); ++i) along[i] = i == dim ? index.strides()[0] : 0;
  const bool apart = from.extent().overlaps(to.extent()) || index.extent().overlaps(to.extent());
  write_apart(to, apart, [&](const TensorView& where) {
    select(where, from, &index,
           {.kind = SelectionKind::gather,
            .to = where,
            .from = shaped(from, shape, dim),
            .index = strided(index, shape, along),
            .size = from.shape()[dim],
            .step = from.strides()[dim]});
  });
}

void Batch::embedding(const TensorView& to, const TensorView& from, const TensorView& index) {
  constexpr const char* kName = "embedding";
  if (from.dims() == 0) refuse(kName, "from", from, "must have a dimension");
  check_index(kName, index);
  if (index.dims() + from.dims() - 1 > Dims::kMost)
    refuse(kName, "index", index, "has too many dimensions: the result would have more than 8");
  Dims shape = index.shape();
  Dims of_index = index.strides();
  Dims of_from;
  for (std::size_t i = 0; i < index.dims(); ++i) of_from.push_back(0);
  for (std::size_t i = 1; i < from.dims(); ++i) {
    shape.push_back(from.shape()[i]);
    of_index.push_back(0);
    of_from.push_back(from.strides()[i]);
  }
  check_shape(kName, "to", to, shape);
  check_type(kName, "from", from, to);
  tensor::check_result(to);
  if (to.elements() == 0) return;
  const bool apart = from.extent().overlaps(to.extent()) || index.extent().overlaps(to.extent());
  write_apart(to, apart, [&](const TensorView& where) {
    select(where, from, &index,
           {.kind = SelectionKind::gather,
            .to = where,
            .from = strided(from, shape, of_from),
            .index = strided(index, shape, of_index),
            .size = from.shape()[0],
            .step = from.strides()[0]});
  });
}

void Batch::gather(const TensorView& to, const TensorView& from, std::size_t dim, const TensorView& index) {
  constexpr const char* kName = "gather";
  check_dim(kName, from, dim);
  check_index(kName, index);
  check_dims(kName, "index", index, from.dims());
  for (std::size_t i = 0; i < from.dims(); ++i)
    if (i != dim && index.shape()[i] > from.shape()[i])
      refuse(kName, "index", index,
             "must not be larger than from, of shape " + to_string(from.shape()) + ", in dimension " + std::to_string(i));
  check_shape(kName, "to", to, index.shape());
  check_type(kName, "from", from, to);
  tensor::check_result(to);
  if (to.elements() == 0) return;
  const bool apart = from.extent().overlaps(to.extent()) || index.extent().overlaps(to.extent());
  write_apart(to, apart, [&](const TensorView& where) {
    select(where, from, &index,
           {.kind = SelectionKind::gather,
            .to = where,
            .from = shaped(from, to.shape(), dim),
            .index = index,
            .size = from.shape()[dim],
            .step = from.strides()[dim]});
  });
}

void Batch::scatter_add(const TensorView& to, std::size_t dim, const TensorView& index, const TensorView& from) {
  constexpr const char* kName = "scatter_add";
  check_dim(kName, to, dim);
  check_index(kName, index);
  check_dims(kName, "index", index, to.dims());
  check_dims(kName, "from", from, to.dims());
  for (std::size_t i = 0; i < to.dims(); ++i) {
    const std::string in = ", in dimension " + std::to_string(i);
    if (index.shape()[i] > from.shape()[i])
      refuse(kName, "index", index, "must not be larger than from, of shape " + to_string(from.shape()) + in);
    if (i != dim && index.shape()[i] > to.shape()[i])
      refuse(kName, "index", index, "must not be larger than to, of shape " + to_string(to.shape()) + in);
  }
  check_type(kName, "from", from, to);
  tensor::require_computable(kName, to.type());
  tensor::check_result(to);
  if (index.elements() == 0) return;
  const TensorView::Extent memory = to.extent();
  const TensorView source = from.extent().overlaps(memory) ? copied(from) : from;
  const TensorView where = index.extent().overlaps(memory) ? copied(index) : index;
  select(to, source, &where,
         {.kind = SelectionKind::scatter_add,
          .to = shaped(to, index.shape(), dim),
          .from = strided(source, index.shape(), source.strides()),
          .index = where,
          .dim = dim,
          .size = to.shape()[dim],
          .step = to.strides()[dim]});
}

void Batch::keep_triangle(const char* function, bool lower, const TensorView& to, const TensorView& from, std::int64_t diagonal) {
  if (from.dims() < 2) refuse(function, "from", from, "must have 2 dimensions or more");
  check_shape(function, "to", to, from.shape());
  check_type(function, "from", from, to);
  tensor::check_result(to);
  if (to.elements() == 0) return;
  constexpr std::int64_t kFar = std::int64_t{1} << 31U;  // beyond all rows and columns
  write_apart(to, from.extent().overlaps(to.extent()) && !tensor::are_same(from, to), [&](const TensorView& where) {
    select(where, from, nullptr,
           {.kind = lower ? SelectionKind::lower : SelectionKind::upper,
            .to = where,
            .from = from,
            .index = from,
            .size = std::clamp(diagonal, -kFar, kFar - 1)});
  });
}

void Batch::tril(const TensorView& to, const TensorView& from, std::int64_t diagonal) { keep_triangle("tril", true, to, from, diagonal); }
void Batch::triu(const TensorView& to, const TensorView& from, std::int64_t diagonal) { keep_triangle("triu", false, to, from, diagonal); }

void Batch::cat(const TensorView& to, std::span<const TensorView> from, std::size_t dim) {
  check_dim("cat", to, dim);
  detail::Checked end;
  bool apart = false;
  for (const TensorView& each : from) {
    check_dims("cat", "from", each, to.dims());
    Dims shape = to.shape();
    shape[dim] = each.shape()[dim];
    check_shape("cat", "from", each, shape);
    tensor::require_convertible("cat", each.type(), to.type());
    end += each.shape()[dim];
    apart = apart || each.extent().overlaps(to.extent());
  }
  if (end != to.shape()[dim])
    refuse("cat", "to", to,
           "must have " + (end.fits() ? std::to_string(end.value()) : "2^63 or more") + " elements in dimension " + std::to_string(dim) +
               ", as all of from together");
  tensor::check_result(to);
  if (to.elements() == 0) return;
  write_apart(to, apart, [&](const TensorView& where) {
    std::int64_t first = 0;
    for (const TensorView& each : from) {
      const std::int64_t count = each.shape()[dim];
      assign_for("cat", where.slice(dim, first, count), each);
      first += count;
    }
  });
}

void Batch::stack(const TensorView& to, std::span<const TensorView> from, std::size_t dim) {
  check_dim("stack", to, dim);
  Dims shape = to.shape();
  shape.erase(dim);
  bool apart = false;
  for (const TensorView& each : from) {
    check_shape("stack", "from", each, shape);
    tensor::require_convertible("stack", each.type(), to.type());
    apart = apart || each.extent().overlaps(to.extent());
  }
  if (static_cast<std::int64_t>(from.size()) != to.shape()[dim])
    refuse("stack", "to", to,
           "must have " + std::to_string(from.size()) + " elements in dimension " + std::to_string(dim) + ", one a tensor");
  tensor::check_result(to);
  if (to.elements() == 0) return;
  write_apart(to, apart, [&](const TensorView& where) {
    for (std::size_t i = 0; i < from.size(); ++i) assign_for("stack", where.select(dim, static_cast<std::int64_t>(i)), from[i]);
  });
}

}  // namespace dwell
