#include "tensor_operand.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include <dwell/detail/checked.hpp>

#include "shape.hpp"

namespace dwell::python {

namespace {

bool is_numpy_scalar(nb::handle object) {
  const std::string_view name = Py_TYPE(object.ptr())->tp_name;
  return name.starts_with("numpy.") && name != "numpy.ndarray" && nb::hasattr(object, "item") && nb::hasattr(object, "ndim");
}

const std::unordered_map<std::string_view, TensorOp>& operations() {
  static const std::unordered_map<std::string_view, TensorOp> all = {
#define DWELL_NAMED(name, operands, ...) {#name, TensorOp::name},
      DWELL_TENSOR_OPS(DWELL_NAMED)
#undef DWELL_NAMED
  };
  return all;
}

Dims dims_of(const std::vector<std::size_t>& shape, const std::string& name) {
  if (shape.size() > Dims::kMost)
    refuse_argument(errc::invalid_argument, name, "shape " + shape_text(shape) + ": tensors have up to 8 dimensions");
  Dims dims;
  for (const std::size_t size : shape) dims.push_back(static_cast<std::int64_t>(size));
  return dims;
}

void check_type(ElementType type, const std::string& name, const std::string& came) {
  if (!has_operations(type))
    refuse_argument(errc::unsupported, name,
                    came + ": tensors hold float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8 or bool");
}

}  // namespace

std::optional<Number> number_from(nb::handle object, const std::string& name) {
  PyObject* const one = object.ptr();
  if (PyFloat_Check(one) != 0) return Number(PyFloat_AS_DOUBLE(one));
  if (PyBool_Check(one) != 0) return Number(one == Py_True);
  if (PyLong_Check(one) != 0) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(one, &overflow);
    if (overflow != 0)
      refuse_argument(errc::invalid_argument, name, nb::cast<std::string>(nb::str(object)) + " does not fit into 64 bits with a sign");
    return Number(value);
  }
  if (is_numpy_scalar(object)) return number_from(object.attr("item")(), name);
  return std::nullopt;
}

Dims dims_from(nb::handle object, const std::string& name) {
  Dims dims;
  const auto add = [&](nb::handle one) {
    const Py_ssize_t value = PyNumber_AsSsize_t(one.ptr(), PyExc_OverflowError);
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    dims.push_back(value);
  };
  if (PyIndex_Check(object.ptr()) != 0 && PySequence_Check(object.ptr()) == 0) {
    add(object);
    return dims;
  }
  if (PySequence_Check(object.ptr()) == 0 || PyUnicode_Check(object.ptr()) != 0)
    refuse_argument(errc::signature_mismatch, name, python_name(object) + ": an int or a sequence of ints is needed");
  for (const nb::handle one : object) {
    if (PyIndex_Check(one.ptr()) == 0)
      refuse_argument(errc::signature_mismatch, name, "it contains " + python_name(one) + ": ints are needed");
    add(one);
  }
  return dims;
}

nb::tuple tuple_of(const Dims& dims) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  if (!made.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < dims.size(); ++i) PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
  return nb::borrow<nb::tuple>(made);
}

std::int64_t elements_of(const Dims& shape) {
  const detail::Checked count = detail::product_of(shape);
  if (!count.fits())
    throw Error(errc::invalid_argument, "an array of shape " + to_string(shape) + " has 2^63 elements or more", {"argument", "shape"});
  return count.value();
}

HeldTensor tensor_of(const State& runtime, const Foreign& array, const std::string& name) {
  if (const std::string why = out_of_reach(array, *runtime); !why.empty())
    refuse_argument(errc::invalid_argument, name, array.text() + ": " + why);
  if (!array.type) refuse_argument(errc::unsupported, name, array.text() + ": dwell has no such element type");
  check_type(*array.type, name, array.text());
  const Dims shape = dims_of(array.shape, name);
  if (array.contiguous || array.strides.empty() || array.swapped) {
    if (const std::string why = unusable(array, *runtime); !why.empty())
      refuse_argument(errc::invalid_argument, name, array.text() + ": " + why);
    auto memory = wrap(runtime, array, name);
    const BufferView all(memory->buffer, *array.type);
    return {TensorView(all, shape), std::move(memory), array.readonly};
  }
  // All from its lowest element to its highest is one piece of memory.
  const Dims strides{std::span<const std::int64_t>(array.strides)};
  detail::Checked low;
  detail::Checked high;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) (strides[dim] < 0 ? low : high) += detail::Checked(shape[dim] - 1) * strides[dim];
  const detail::Checked count = high - low + 1;
  const detail::Checked begin = detail::Checked(reinterpret_cast<std::uintptr_t>(array.data)) + low * array.itemsize;
  if (!begin.is_in(0, std::numeric_limits<std::int64_t>::max()) || !(count * array.itemsize).fits())
    refuse_argument(errc::invalid_argument, name, array.text() + ": its strides " + to_string(strides) + " reach beyond all addresses");
  Foreign whole = array;
  whole.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(begin.value()));
  whole.count = static_cast<std::size_t>(count.value());
  whole.contiguous = true;
  if (const std::string why = unusable(whole, *runtime); !why.empty())
    refuse_argument(errc::invalid_argument, name, array.text() + ": " + why);
  auto memory = wrap(runtime, whole, name);
  const BufferView all(memory->buffer, *array.type);
  return {TensorView(all, shape, strides, static_cast<std::size_t>(-low.value())), std::move(memory), array.readonly};
}

std::optional<HeldTensor> tensor_from(const State& runtime, nb::handle object, const std::string& name, bool written) {
  const Array* ours = nullptr;
  if (nb::try_cast(object, ours) && ours != nullptr) {
    require_epoch(ours->epoch, "the buffer");
    if (ours->memory->runtime != runtime)
      refuse_argument(errc::invalid_argument, name,
                      ours->text() + " is of another runtime: pass a buffer of this one, on " + runtime->device());
    check_type(ours->type, name, ours->text());
    return HeldTensor{TensorView(ours->view(), dims_of(ours->shape, name)), ours->memory, false};
  }
  const std::optional<Foreign> array = describe(object, *runtime, name);
  if (!array) return std::nullopt;
  if (written && array->readonly)
    refuse_argument(errc::invalid_argument, name, array->text() + ": it is written to, and an array that may be is needed");
  return tensor_of(runtime, *array, name);
}

bool has_operations(ElementType type) {
  switch (type) {
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64:
    case ElementType::complex64:
    case ElementType::complex128: return false;
    default: return true;
  }
}

TensorOp operation_named(std::string_view name) {
  const auto found = operations().find(name);
  if (found != operations().end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [known, op] : operations()) names.push_back(known);
  std::ranges::sort(names);
  std::string list;
  for (const std::string_view known : names) list += (list.empty() ? "" : ", ") + std::string(known);
  refuse_argument(errc::invalid_argument, "argument op", "'" + std::string(name) + "' is no operation: there are " + list);
}

void refuse_argument(errc code, const std::string& name, const std::string& why) {
  throw Error(code, name + ": " + why, {"argument", name});
}

}  // namespace dwell::python
