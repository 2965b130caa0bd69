// Operations on whole arrays: products of matrices, elements chosen by an index, arrays put together, and those made of numbers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "array.hpp"
#include "runtime.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

// ---- Products ----------------------------------------------------------------------------------------------------------------------

Dims product_shape(const Dims& a, const Dims& b, const Operands& operands) {
  if (a.size() == 0 || b.size() == 0)
    refuse_argument(errc::invalid_argument, operands.name(a.size() == 0 ? "x1" : "x2"), "it has no dimensions");
  const std::int64_t k = a[a.size() - 1];
  if (k != b[b.size() == 1 ? 0 : b.size() - 2])
    refuse_argument(errc::invalid_argument, operands.name("x2"), "shapes " + to_string(a) + " and " + to_string(b) + " are of no product");
  std::array<Dims, 2> batches;
  for (std::size_t i = 0; i + 2 < a.size(); ++i) batches[0].push_back(a[i]);
  for (std::size_t i = 0; i + 2 < b.size(); ++i) batches[1].push_back(b[i]);
  Dims shape = broadcast("matmul", batches);
  if (a.size() > 1) shape.push_back(a[a.size() - 2]);
  if (b.size() > 1) shape.push_back(b[b.size() - 1]);
  return shape;
}

Tensor multiplied(nb::handle x1, nb::handle x2) {
  Operands operands("matmul");
  static_cast<void>(operands.take_runtime(x1) || operands.take_runtime(x2));
  static_cast<void>(operands.collector());
  const Input left = operands.get_array(x1, "x1");
  const Input right = operands.get_array(x2, "x2");
  const Dims shape = product_shape(shape_of(left), shape_of(right), operands);
  const std::array types = {Typed{type_of(left), Typed::Weight::tensor}, Typed{type_of(right), Typed::Weight::tensor}};
  const ElementType type = result_type(TensorOp::add, types);
  if (type == ElementType::boolean) refuse_argument(errc::unsupported, operands.name("x1"), "there are no products of bool: convert it");
  const auto of_type = [&](const Input& input) {
    return type_of(input) == type ? input : input_of(operands.collector().cast(input, shape_of(input), type));
  };
  return operands.collector().collected(
      type, shape, {of_type(left), of_type(right)},
      [](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) { batch.matmul(to, of[0], of[1]); });
}

void bind_products(nb::class_<Tensor>& type, nb::module_& m) {
  m.def("matmul", &multiplied, "x1"_a, "x2"_a, "The product of matrices; of vectors, and of batches, as torch.matmul.");
  const auto bind = [&](const char* name, bool reflected) {
    type.def(
        name, [reflected](nb::handle self, nb::handle other) { return reflected ? multiplied(other, self) : multiplied(self, other); },
        "other"_a, nb::sig(("def " + std::string(name) + "(self, other: object, /) -> Array").c_str()));
  };
  bind("__matmul__", false);
  bind("__rmatmul__", true);
}

// ---- Elements chosen by an index ---------------------------------------------------------------------------------------------------

Input index_of(Operands& operands, nb::handle object) {
  Input index = operands.get_array(object, "indices");
  if (type_of(index) != ElementType::i64 && type_of(index) != ElementType::i32)
    refuse_argument(errc::invalid_argument, operands.name("indices"),
                    "it holds " + numpy_name(type_of(index)) + ": int32 or int64 are needed");
  return index;
}

Tensor taken(nb::handle x, nb::handle indices, std::int64_t axis) {
  Operands operands("take");
  operands.take_runtime(x);
  const Input from = operands.get_array(x, "x");
  const Input index = index_of(operands, indices);
  Dims shape = shape_of(from);
  const std::size_t dim = dim_of(axis, shape.size(), operands.name("axis"));
  if (shape_of(index).size() != 1)
    refuse_argument(errc::invalid_argument, operands.name("indices"),
                    "it has the shape " + to_string(shape_of(index)) + ": one dimension fits");
  shape[dim] = shape_of(index)[0];
  return operands.collector().collected(
      type_of(from), shape, {from, index},
      [dim](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) { batch.index_select(to, of[0], dim, of[1]); });
}

Tensor gathered(nb::handle x, nb::handle indices, std::int64_t axis) {
  Operands operands("take_along_axis");
  operands.take_runtime(x);
  const Input from = operands.get_array(x, "x");
  const Input index = index_of(operands, indices);
  const Dims shape = shape_of(index);
  const std::size_t dim = dim_of(axis, shape_of(from).size(), operands.name("axis"));
  bool fits = shape.size() == shape_of(from).size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = i == dim || shape[i] <= shape_of(from)[i];
  if (!fits)
    refuse_argument(errc::invalid_argument, operands.name("indices"),
                    "shape " + to_string(shape) + " does not fit elements of shape " + to_string(shape_of(from)));
  return operands.collector().collected(
      type_of(from), shape, {from, index},
      [dim](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) { batch.gather(to, of[0], dim, of[1]); });
}

Tensor embedded(nb::handle table, nb::handle indices) {
  Operands operands("embedding");
  operands.take_runtime(table);
  const Input from = operands.get_array(table, "table");
  const Input index = index_of(operands, indices);
  Dims shape = shape_of(index);
  if (shape_of(from).size() == 0) refuse_argument(errc::invalid_argument, operands.name("table"), "it has no dimensions");
  for (std::size_t i = 1; i < shape_of(from).size(); ++i) shape.push_back(shape_of(from)[i]);
  return operands.collector().collected(
      type_of(from), shape, {from, index},
      [](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) { batch.embedding(to, of[0], of[1]); });
}

Tensor scattered(nb::handle x, nb::handle indices, nb::handle source, std::int64_t axis) {
  Operands operands("scatter_add");
  operands.take_runtime(x);
  const Input to = operands.get_array(x, "x");
  const Input index = index_of(operands, indices);
  const Input from = operands.get_array(source, "source", type_of(to));
  const Dims shape = shape_of(to);
  const std::size_t dim = dim_of(axis, shape.size(), operands.name("axis"));
  const Dims chosen = shape_of(index);
  bool fits = chosen.size() == shape.size() && shape_of(from).size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = chosen[i] <= shape_of(from)[i] && (i == dim || chosen[i] <= shape[i]);
  if (!fits)
    refuse_argument(errc::invalid_argument, operands.name("indices"),
                    "shape " + to_string(chosen) + " does not fit a source of shape " + to_string(shape_of(from)) +
                        " and a result of shape " + to_string(shape));
  return operands.collector().collected(type_of(to), shape, {to, index, from},
                                        [dim](dwell::Batch& batch, const TensorView& result, std::span<const TensorView> of) {
                                          batch.assign(result, of[0]);
                                          batch.scatter_add(result, dim, of[1], of[2]);
                                        });
}

void bind_selections(nb::module_& m) {
  m.def("take", &taken, "x"_a, "indices"_a, nb::kw_only(), "axis"_a = 0,
        "Slices along an axis, by an index of int32 or int64 with one dimension. One that is not there fails the task: reading the result\n"
        "raises dwell.TaskFailed.");
  m.def("take_along_axis", &gathered, "x"_a, "indices"_a, "axis"_a = -1, "The element that the index, of its shape, names along an axis.");
  m.def("embedding", &embedded, "table"_a, "indices"_a, "Rows of a table, for an index of any shape.");
  m.def("scatter_add", &scattered, "x"_a, "indices"_a, "source"_a, nb::kw_only(), "axis"_a = 0,
        "A copy of x, where each element of source is added at the place that the index names along an axis.");
  const auto add = [&](const char* name, auto member, const char* doc) {
    m.def(
        name,
        [=](nb::handle x, std::int64_t k) {
          Operands operands(name);
          operands.take_runtime(x);
          const Input from = operands.get_array(x, "x");
          if (shape_of(from).size() < 2)
            refuse_argument(errc::invalid_argument, operands.name("x"), "shape " + to_string(shape_of(from)) + " is of no matrix");
          return operands.collector().collected(
              type_of(from), shape_of(from), {from},
              [=](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) { (batch.*member)(to, of[0], k); });
        },
        "x"_a, nb::kw_only(), "k"_a = 0, doc);
  };
  add("tril", &dwell::Batch::tril, "The lower triangle of each matrix, up to the k-th diagonal; 0 elsewhere.");
  add("triu", &dwell::Batch::triu, "The upper triangle of each matrix, from the k-th diagonal on; 0 elsewhere.");
}

// ---- Arrays put together, and made of numbers --------------------------------------------------------------------------------------

Tensor joined(const char* name, const nb::typed<nb::sequence, nb::object>& arrays, std::int64_t axis, bool stacks) {
  Operands operands(name);
  std::vector<Input> inputs;
  for (const nb::handle one : arrays)
    if (operands.take_runtime(one)) break;
  for (const nb::handle one : arrays) inputs.push_back(operands.get_array(one, "arrays"));
  if (inputs.empty()) refuse_argument(errc::invalid_argument, operands.name("arrays"), "there is none");
  ElementType type = type_of(inputs.front());
  Dims shape = shape_of(inputs.front());
  if (stacks) shape.insert_front(1);
  const std::size_t dim = dim_of(axis, shape.size(), operands.name("axis"));
  std::int64_t end = 0;
  for (const Input& one : inputs) {
    const std::array types = {Typed{type, Typed::Weight::tensor}, Typed{type_of(one), Typed::Weight::tensor}};
    type = result_type(TensorOp::add, types);
    Dims same = shape_of(one);
    if (!stacks && same.size() == shape_of(inputs.front()).size()) {
      end += same[dim];
      same[dim] = shape_of(inputs.front())[dim];
    }
    if (!(same == shape_of(inputs.front())))
      refuse_argument(errc::invalid_argument, operands.name("arrays"),
                      "shapes " + to_string(shape_of(inputs.front())) + " and " + to_string(shape_of(one)) + " do not fit together");
  }
  if (stacks) {
    shape = shape_of(inputs.front());
    Dims whole;
    for (std::size_t i = 0; i < dim; ++i) whole.push_back(shape[i]);
    whole.push_back(static_cast<std::int64_t>(inputs.size()));
    for (std::size_t i = dim; i < shape.size(); ++i) whole.push_back(shape[i]);
    shape = whole;
  } else {
    shape[dim] = end;
  }
  return operands.collector().collected(type, shape, std::move(inputs),
                                        [=](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) {
                                          if (stacks)
                                            batch.stack(to, of, dim);
                                          else
                                            batch.cat(to, of, dim);
                                        });
}

// The elements start, start + step, ... in the order of rows; a step of 0 fills.
Tensor filled(const State& runtime, nb::handle shape, nb::handle dtype, nb::handle start, nb::handle step) {
  const Dims wanted = dims_from(shape, "argument shape");
  for (const std::int64_t size : wanted)
    if (size < 0) refuse_argument(errc::invalid_argument, "argument shape", to_string(wanted) + " has negative sizes");
  const ElementType type = element_type_from(dtype);
  if (!has_operations(type)) refuse_argument(errc::unsupported, "argument dtype", "arrays cannot hold " + numpy_name(type));
  const auto first = number_from(start, "argument fill_value");
  const auto by = number_from(step, "argument step");
  if (!first || !by) refuse_argument(errc::signature_mismatch, "argument fill_value", python_name(start) + ": a number is needed");
  return Collector::of(runtime)->collected(type, wanted, {}, [=](dwell::Batch& batch, const TensorView& to, std::span<const TensorView>) {
    if (by->real() == 0) return batch.assign(to, *first);
    const bool real = is_floating(type) || first->is_real() || by->is_real();
    const Expression index = real ? Expression::index().as(ElementType::f64) : Expression::index();
    batch.assign(to, index * *by + *first);
  });
}

Tensor empty(const State& runtime, nb::handle shape, nb::handle dtype) {
  std::vector<std::size_t> sizes;
  for (const std::int64_t size : dims_from(shape, "argument shape")) {
    if (size < 0) refuse_argument(errc::invalid_argument, "argument shape", "it has negative sizes");
    sizes.push_back(static_cast<std::size_t>(size));
  }
  const Array made = allocate(runtime, sizes, element_type_from(dtype), dwell::Memory::device);
  return Collector::of(runtime)->adopt(*tensor_from(runtime, nb::cast(made), "argument dtype", false), false);
}

}  // namespace

void bind_array_functions(nb::class_<Tensor>& type, nb::module_& m) {
  bind_products(type, m);
  bind_selections(m);
  m.def(
      "concat", [](const nb::typed<nb::sequence, nb::object>& arrays, std::int64_t axis) { return joined("concat", arrays, axis, false); },
      "arrays"_a, nb::kw_only(), "axis"_a = 0, "The arrays behind each other along an axis, in their common type.");
  m.def(
      "stack", [](const nb::typed<nb::sequence, nb::object>& arrays, std::int64_t axis) { return joined("stack", arrays, axis, true); },
      "arrays"_a, nb::kw_only(), "axis"_a = 0, "The arrays along a new axis, in their common type.");
}

void bind_array_makers(nb::module_& m) {
  m.def(
      "fill_array",
      [](nb::handle runtime, nb::handle shape, nb::handle dtype, nb::handle start, nb::handle step) {
        return filled(state_of(runtime), shape, dtype, start, step);
      },
      "runtime"_a, "shape"_a, "dtype"_a, "start"_a, "step"_a = 0);
  m.def(
      "empty_array", [](nb::handle runtime, nb::handle shape, nb::handle dtype) { return empty(state_of(runtime), shape, dtype); },
      "runtime"_a, "shape"_a, "dtype"_a);
}

}  // namespace dwell::python
