// Views of arrays: indexing, and dimensions in other ways.
#include <nanobind/stl/optional.h>

#include <algorithm>

#include <dwell/detail/checked.hpp>

#include "array.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

Tensor seen(const Tensor& tensor, const TensorView& view) { return {tensor.value, std::make_shared<const Leaf>(view)}; }

TensorView view_of(const Tensor& tensor) {
  require_epoch(tensor.epoch, "the array");
  return tensor.value->collector->leaf_of(tensor)->view;
}

// What an index says, applied to the dimensions one by one.
TensorView indexed(TensorView view, nb::handle key) {
  const bool is_tuple = PyTuple_Check(key.ptr()) != 0;
  const std::size_t count = is_tuple ? static_cast<std::size_t>(PyTuple_GET_SIZE(key.ptr())) : 1;
  const auto at = [&](std::size_t i) { return is_tuple ? nb::handle(PyTuple_GET_ITEM(key.ptr(), static_cast<Py_ssize_t>(i))) : key; };
  std::size_t used = 0;
  std::size_t ellipses = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (at(i).ptr() == Py_Ellipsis)
      ++ellipses;
    else if (!at(i).is_none())
      ++used;
  }
  if (used > view.dims() || ellipses > 1)
    throw nb::index_error(("too many indices for an array of shape " + to_string(view.shape())).c_str());
  const std::size_t skipped = view.dims() - used;
  std::size_t dim = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const nb::handle one = at(i);
    if (one.ptr() == Py_Ellipsis) {
      dim += skipped;
    } else if (one.is_none()) {
      Dims shape = view.shape();
      shape.insert_front(1);
      view = view.expand(shape);
      Dims order;
      for (std::size_t d = 1; d <= dim; ++d) order.push_back(static_cast<std::int64_t>(d));
      order.push_back(0);
      for (std::size_t d = dim + 1; d < view.dims(); ++d) order.push_back(static_cast<std::int64_t>(d));
      view = view.permute(order);
      ++dim;
    } else if (PySlice_Check(one.ptr()) != 0) {
      Py_ssize_t first = 0;
      Py_ssize_t end = 0;
      Py_ssize_t step = 0;
      if (PySlice_Unpack(one.ptr(), &first, &end, &step) != 0) throw nb::python_error();
      const Py_ssize_t length = PySlice_AdjustIndices(view.shape()[dim], &first, &end, step);
      view = view.slice(dim, length == 0 ? 0 : first, length, step);
      ++dim;
    } else if (PyIndex_Check(one.ptr()) != 0 && PyBool_Check(one.ptr()) == 0) {
      std::int64_t index = PyNumber_AsSsize_t(one.ptr(), PyExc_IndexError);
      if (index == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
      const std::int64_t size = view.shape()[dim];
      if (index < -size || index >= size)
        throw nb::index_error(("index " + std::to_string(index) + " is out of bounds for dimension " + std::to_string(dim) + " of size " +
                               std::to_string(size))
                                  .c_str());
      view = view.select(dim, index < 0 ? index + size : index);
    } else {
      refuse_argument(errc::unsupported, "index of a dwell.Array",
                      python_name(one) + ": ints, slices, ... and None are; dwell.take and dwell.where choose elements by arrays");
    }
  }
  return view;
}

// Elements by an index of integers along the first dimension.
Tensor embedded(const Tensor& self, const Tensor& index) {
  Dims shape = index.shape();
  if (self.shape().size() == 0) throw nb::index_error("an array without dimensions cannot be indexed");
  for (std::size_t dim = 1; dim < self.shape().size(); ++dim) shape.push_back(self.shape()[dim]);
  return self.value->collector->collected(
      self.type(), shape, {input_of(self), input_of(index)},
      [](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) { batch.embedding(to, of[0], of[1]); });
}

Tensor get_item(const Tensor& self, nb::handle key) {
  const Tensor* const index = array_in(key);
  if (index != nullptr && (index->type() == ElementType::i64 || index->type() == ElementType::i32) && index->shape().size() > 0)
    return embedded(self, *index);
  return seen(self, indexed(view_of(self), key));
}

void set_item(const Tensor& self, nb::handle key, nb::handle value) {
  Operands operands("Array.__setitem__");
  operands.take_runtime(nb::find(self));
  const Input from = operands.get(value, "value");
  operands.collector().assign(seen(self, indexed(view_of(self), key)), from);
}

Tensor permuted(const Tensor& self, nb::handle axes) {
  const Dims given = dims_from(axes, "argument axes of dwell.permute_dims");
  Dims order;
  for (const std::int64_t axis : given)
    order.push_back(static_cast<std::int64_t>(dim_of(axis, self.shape().size(), "argument axes of dwell.permute_dims")));
  return seen(self, view_of(self).permute(order));
}

Tensor transposed(const Tensor& self, const char* name) {
  const std::size_t dims = self.shape().size();
  if (dims < 2) refuse_argument(errc::invalid_argument, name, "an array of shape " + to_string(self.shape()) + " is no matrix");
  return seen(self, view_of(self).transpose(dims - 2, dims - 1));
}

// -1 stands for what is left.
Tensor reshaped(const Tensor& self, nb::handle shape) {
  static constexpr const char* kName = "argument shape of dwell.reshape";
  Dims wanted = dims_from(shape, kName);
  const std::int64_t count = elements_of(self.shape());
  dwell::detail::Checked product = 1;
  std::optional<std::size_t> open;
  for (std::size_t dim = 0; dim < wanted.size(); ++dim) {
    if (wanted[dim] != -1)
      product *= wanted[dim];
    else if (!open)
      open = dim;
    else
      refuse_argument(errc::invalid_argument, kName, to_string(wanted) + " has -1 more than once");
  }
  const std::int64_t known = product.fits() ? product.value() : 0;
  if (open && (known <= 0 || count % known != 0))
    refuse_argument(errc::invalid_argument, kName, to_string(wanted) + " is none of " + std::to_string(count) + " elements");
  if (open) wanted[*open] = count / known;
  const TensorView view = view_of(self);
  if (view.contiguous()) return seen(self, view.reshape(wanted));
  try {
    return seen(self, view.reshape(wanted));
  } catch (const Error& error) {
    // No strides say that, or it has other elements.
    if (elements_of(wanted) != count) throw;
  }
  const Tensor copy = self.value->collector->cast(input_of(self), self.shape(), self.type());
  return seen(copy, view_of(copy).reshape(wanted));
}

Tensor broadcast_to(const Tensor& self, nb::handle shape) {
  return seen(self, view_of(self).expand(dims_from(shape, "argument shape of dwell.broadcast_to")));
}

Tensor expanded(const Tensor& self, std::int64_t axis) {
  const std::size_t at = dim_of(axis, self.shape().size() + 1, "argument axis of dwell.expand_dims");
  Dims shape = self.shape();
  shape.insert_front(1);
  Dims order;
  for (std::size_t dim = 1; dim <= at; ++dim) order.push_back(static_cast<std::int64_t>(dim));
  order.push_back(0);
  for (std::size_t dim = at + 1; dim < shape.size(); ++dim) order.push_back(static_cast<std::int64_t>(dim));
  return seen(self, view_of(self).expand(shape).permute(order));
}

Tensor squeezed(const Tensor& self, nb::handle axis) {
  static constexpr const char* kName = "argument axis of dwell.squeeze";
  TensorView view = view_of(self);
  std::vector<std::size_t> dims;
  if (axis.is_none()) {
    for (std::size_t dim = 0; dim < view.dims(); ++dim)
      if (view.shape()[dim] == 1) dims.push_back(dim);
  } else {
    for (const std::int64_t one : dims_from(axis, kName)) dims.push_back(dim_of(one, view.dims(), kName));
  }
  std::ranges::sort(dims, std::greater());
  for (const std::size_t dim : dims) {
    if (view.shape()[dim] != 1)
      refuse_argument(errc::invalid_argument, kName,
                      "dimension " + std::to_string(dim) + " of shape " + to_string(self.shape()) + " is not 1");
    view = view.select(dim, 0);
  }
  return seen(self, view);
}

Tensor flipped(const Tensor& self, nb::handle axis) {
  static constexpr const char* kName = "argument axis of dwell.flip";
  TensorView view = view_of(self);
  Dims dims;
  if (axis.is_none()) {
    for (std::size_t dim = 0; dim < view.dims(); ++dim) dims.push_back(static_cast<std::int64_t>(dim));
  } else {
    dims = dims_from(axis, kName);
  }
  for (const std::int64_t one : dims) {
    const std::size_t dim = dim_of(one, view.dims(), kName);
    const std::int64_t size = view.shape()[dim];
    if (size != 0) view = view.slice(dim, size - 1, size, -1);
  }
  return seen(self, view);
}

}  // namespace

void bind_array_views(nb::class_<Tensor>& type, nb::module_& m) {
  type.def("__getitem__", &get_item, "key"_a,
           "A view: ints, slices with steps of either sign, ``...`` and None. Rows by an array of int32 or int64 are a copy.")
      .def("__setitem__", &set_item, "key"_a, "value"_a, "Writes an array or a number to a view, converted to its type.")
      .def(
          "__iter__",
          [](const Tensor& self) {
            if (self.shape().size() == 0) throw nb::type_error("an array without dimensions cannot be iterated over");
            nb::list rows;
            const TensorView view = view_of(self);
            for (std::int64_t i = 0; i < self.shape()[0]; ++i) rows.append(seen(self, view.select(0, i)));
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> typing.Iterator[Array]"))
      .def_prop_ro(
          "T", [](const Tensor& self) { return transposed(self, "dwell.Array.T"); }, "The matrix with its dimensions exchanged: a view.")
      .def_prop_ro(
          "mT", [](const Tensor& self) { return transposed(self, "dwell.Array.mT"); }, "The same of the last two dimensions.")
      .def("reshape", &reshaped, "shape"_a, "The same elements in the order of rows, a view where strides say that; -1: what is left.",
           nb::sig("def reshape(self, shape: int | typing.Sequence[int]) -> Array"));
  m.def("permute_dims", &permuted, "x"_a, "axes"_a, "Its dimensions in another order: a view.",
        nb::sig("def permute_dims(x: Array, axes: typing.Sequence[int]) -> Array"));
  m.def(
      "matrix_transpose", [](const Tensor& x) { return transposed(x, "argument x of dwell.matrix_transpose"); }, "x"_a,
      "The last two dimensions exchanged: a view.");
  m.def("reshape", &reshaped, "x"_a, "shape"_a, "The same elements in the order of rows; -1: what is left.",
        nb::sig("def reshape(x: Array, shape: int | typing.Sequence[int]) -> Array"));
  m.def("broadcast_to", &broadcast_to, "x"_a, "shape"_a, "Repeated along dimensions of size 1, and new ones in front: a view.",
        nb::sig("def broadcast_to(x: Array, shape: int | typing.Sequence[int]) -> Array"));
  m.def("expand_dims", &expanded, "x"_a, "axis"_a = 0, "With a new dimension of size 1: a view.");
  m.def("squeeze", &squeezed, "x"_a, "axis"_a = nb::none(), "Without dimensions of size 1, all of them or those named: a view.",
        nb::sig("def squeeze(x: Array, axis: int | typing.Sequence[int] | None = None) -> Array"));
  m.def("flip", &flipped, "x"_a, "axis"_a = nb::none(), "Backwards along axes, all when none is named: a view.",
        nb::sig("def flip(x: Array, axis: int | typing.Sequence[int] | None = None) -> Array"));
}

}  // namespace dwell::python
