#include "array.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "buffer_export.hpp"
#include "runtime.hpp"

namespace dwell::python {

using namespace nb::literals;

const Tensor* array_in(nb::handle object) {
  const Tensor* found = nullptr;
  if (!nb::try_cast(object, found) || found == nullptr) return nullptr;
  require_epoch(found->epoch, "the array");
  return found;
}

const Tensor& array_from(nb::handle object, const std::string& name) {
  const Tensor* const found = array_in(object);
  if (found == nullptr)
    refuse_argument(errc::signature_mismatch, name, python_name(object) + ": a dwell.Array is needed, as dwell.asarray makes it");
  return *found;
}

Input input_of(const Tensor& tensor) { return {tensor.value, tensor.leaf, {}}; }

ElementType type_of(const Input& input) { return input.value != nullptr ? input.value->type : input.number.type(); }

Dims shape_of(const Input& input) {
  if (input.value == nullptr) return {};
  return input.leaf != nullptr ? input.leaf->view.shape() : input.value->shape;
}

bool is_floating(ElementType type) { return kind_of(type) == Kind::floating || kind_of(type) == Kind::bfloat; }

std::size_t dim_of(std::int64_t index, std::size_t dims, const std::string& name) {
  const auto count = static_cast<std::int64_t>(dims);
  if (index < -count || index >= count)
    refuse_argument(errc::invalid_argument, name, std::to_string(index) + " is no dimension of " + std::to_string(dims));
  return static_cast<std::size_t>(index < 0 ? index + count : index);
}

bool Operands::take_runtime(nb::handle object) {
  const Tensor* const found = collector_ == nullptr ? array_in(object) : nullptr;
  if (found != nullptr) collector_ = found->value->collector;
  return collector_ != nullptr;
}

Collector& Operands::collector() const {
  if (collector_ == nullptr)
    throw Error(errc::signature_mismatch, std::string("dwell.") + function_ + ": no argument is a dwell.Array, as dwell.asarray makes it",
                {"argument", function_});
  return *collector_;
}

namespace {

// A copy of an array on the host, in memory of the runtime.
HeldTensor copied(const State& runtime, nb::handle object, const std::string& name) {
  const nb::object copy = nb::module_::import_("numpy").attr("array")(object, "order"_a = "C");
  const std::optional<Foreign> array = describe(copy, *runtime, name);
  if (!array) refuse_argument(errc::signature_mismatch, name, python_name(object) + ": NumPy makes no array of it");
  if (runtime->cuda() < 0) return tensor_of(runtime, *array, name);
  if (!array->type || !has_operations(*array->type) || array->shape.size() > Dims::kMost)
    refuse_argument(errc::unsupported, name, array->text() + ": arrays of dwell cannot hold that");
  HeldTensor made;
  made.memory = hold(runtime, array->bytes(), dwell::Memory::device);
  {
    const Unlocked unlocked;
    made.memory->buffer.write({static_cast<const std::byte*>(array->data), array->bytes()}, 0);
  }
  Dims shape;
  for (const std::size_t size : array->shape) shape.push_back(static_cast<std::int64_t>(size));
  made.view = TensorView(BufferView(made.memory->buffer, *array->type), shape);
  return made;
}

}  // namespace

std::optional<Input> Operands::find(nb::handle object, const char* argument) {
  if (const Tensor* const tensor = array_in(object)) {
    if (tensor->value->collector != collector_)
      refuse_argument(errc::invalid_argument, name(argument),
                      "it is of another runtime than the operands before, on " + collector().runtime()->device() + ": copy it");
    return input_of(*tensor);
  }
  if (PyFloat_Check(object.ptr()) != 0 || PyLong_Check(object.ptr()) != 0) return Input{{}, {}, *number_from(object, argument)};
  const std::string named = name(argument);
  if (const auto number = number_from(object, named)) return Input{{}, {}, *number};
  const State& runtime = collector().runtime();
  if (nb::isinstance<Array>(object)) {
    auto held = tensor_from(runtime, object, named, false);
    return input_of(collector().adopt(*std::move(held), true));
  }
  std::optional<Foreign> array = describe(object, *runtime, named);
  if (!array) return std::nullopt;
  if (array->place == Foreign::Place::host) return input_of(collector().adopt(copied(runtime, object, named), false));
  return input_of(collector().adopt(tensor_of(runtime, *array, named), true));
}

Input Operands::get(nb::handle object, const char* argument) {
  auto found = find(object, argument);
  if (!found)
    refuse_argument(errc::signature_mismatch, name(argument),
                    python_name(object) + ": a dwell.Array, an array on " + collector().runtime()->device() + " or a number is needed");
  return *std::move(found);
}

Input Operands::get_array(nb::handle object, const char* argument, std::optional<ElementType> type) {
  Input input = get(object, argument);
  if (input.value == nullptr)
    refuse_argument(errc::signature_mismatch, name(argument), python_name(object) + ": a dwell.Array is needed, and no number");
  if (!type || type_of(input) == *type) return input;
  return input_of(collector().cast(input, shape_of(input), *type));
}

namespace {

// As a dwell.Buffer has it, of the view's first element and what follows.
Array buffer_of(const TensorView& view, std::shared_ptr<HeldMemory> memory) {
  Array made;
  made.offset = static_cast<std::size_t>(view.address() - reinterpret_cast<std::uintptr_t>(memory->buffer.data()));
  made.memory = std::move(memory);
  made.count = static_cast<std::size_t>(view.elements());
  made.type = view.type();
  for (const std::int64_t size : view.shape()) made.shape.push_back(static_cast<std::size_t>(size));
  if (made.count == 0) made.offset = 0;
  return made;
}

nb::object numpy_of(const Tensor& self) {
  require_epoch(self.epoch, "the array");
  Collector::Rows rows = self.value->collector->rows_of(self);
  wait(rows.receipt, std::nullopt);
  return numpy_copy(buffer_of(rows.view, std::move(rows.memory)));
}

nb::object item_of(const Tensor& self) {
  if (elements_of(self.shape()) != 1)
    throw Error(errc::invalid_argument, "an array of shape " + to_string(self.shape()) + " has no single element", {"argument", "self"});
  return numpy_of(self).attr("item")();
}

nb::object number_of(const Tensor& self, PyTypeObject* type) {
  nb::object made = nb::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), item_of(self).ptr()));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

nb::object dlpack_of(const Tensor& self, nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
  require_epoch(self.epoch, "the array");
  const LeafPointer leaf = self.value->collector->leaf_of(self);
  wait(self.value->collector->flush(false), std::nullopt);
  const TensorView& view = leaf->view;
  return to_dlpack(buffer_of(view, self.value->memory), {view.strides().begin(), view.strides().end()}, self.value->readonly, stream,
                   max_version, dl_device, copy);
}

// Memory as an array without a copy: a dwell.Buffer, or one of others that the runtime reaches. None for what is no such array.
nb::object share(const State& runtime, nb::handle object) {
  static constexpr const char* kName = "argument 1 of dwell.asarray";
  const auto collector = Collector::of(runtime);
  auto held = tensor_from(runtime, object, kName, false);
  return held ? nb::cast(collector->adopt(*std::move(held), true)) : nb::none();
}

// A buffer that nobody else has.
Tensor own(const Array& buffer) {
  const State& runtime = buffer.memory->runtime;
  return Collector::of(runtime)->adopt(*tensor_from(runtime, nb::cast(buffer), "argument 1 of dwell.array", false), false);
}

std::string text_of(const Tensor& self) {
  const State& runtime = self.value->collector->runtime();
  std::string text = "<dwell.Array " + numpy_name(self.type()) + " " + to_string(self.shape()) + " on " + runtime->device();
  if (self.epoch == fork_epoch() && self.value->collector->is_lazy(self)) text += ", lazy";
  return text + ">";
}

// The type of the sum of operands.
ElementType common_type(nb::handle objects) {
  Operands operands("result_type");
  for (const nb::handle one : objects)
    if (operands.take_runtime(one)) break;
  std::optional<Typed> common;
  for (const nb::handle one : objects) {
    const Typed type = typed(operands.get(one, "arrays"));
    if (!common) {
      common = type;
      continue;
    }
    const std::array both = {*common, type};
    common = Typed{result_type(TensorOp::add, both), std::max(common->weight, type.weight)};
  }
  return common.value().type;
}

nb::object names_in(const nb::module_& m) { return nb::set(nb::steal(PyObject_Dir(m.ptr()))); }

}  // namespace

void bind_array(nb::module_& m) {
  nb::class_<Tensor> type(
      m, "Array",
      "A tensor whose operations are lazy: they run when somebody looks at a result, or flushes, as few tasks, without launches and "
      "without\n"
      "compiling. Up to 8 dimensions of float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8 or bool.\n\n"
      "``dwell.asarray``, ``dwell.zeros`` and others make arrays; functions have the names of the array API, types of results are "
      "PyTorch's.\n"
      "Slices and other views share memory, and in-place operations write to it, as in NumPy. Keeps its runtime open. May be used from "
      "any\n"
      "thread; operations of one runtime take turns.");
  type.def_prop_ro(
          "shape", [](const Tensor& self) { return tuple_of(self.shape()); }, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("dtype", &Tensor::type, "The type of its elements.")
      .def_prop_ro(
          "ndim", [](const Tensor& self) { return self.shape().size(); }, "How many dimensions it has.")
      .def_prop_ro(
          "size", [](const Tensor& self) { return elements_of(self.shape()); }, "How many elements it has.")
      .def_prop_ro(
          "device", [](const Tensor& self) { return self.value->collector->runtime()->device(); }, "\"cpu\", \"cuda:0\".")
      .def_prop_ro(
          "lazy", [](const Tensor& self) { return self.value->collector->is_lazy(self); },
          "Whether it is still to be computed: nothing has been collected for it.")
      .def(
          "flush",
          [](const Tensor& self) {
            static_cast<void>(self.value->collector->leaf_of(self));
            return self.value->collector->flush(false);
          },
          "Submits what computes it, and what has been collected before: the ticket stands for that.", nb::sig("def flush(self) -> Ticket"))
      .def("numpy", &numpy_of, "Its elements as an array of NumPy: a copy. Runs what is lazy, and waits; raises what became of it.",
           nb::sig("def numpy(self) -> numpy.ndarray"))
      .def(
          "__array__",
          [](const Tensor& self, nb::handle dtype, nb::handle copy) {
            if (!copy.is_none() && !nb::cast<bool>(copy))
              throw Error(errc::invalid_argument, "an array of dwell becomes one of NumPy as a copy: numpy.from_dlpack shares its memory",
                          {"argument", "copy"});
            nb::object made = numpy_of(self);
            return dtype.is_none() ? made : nb::object(made.attr("astype")(dtype));
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: object = None, copy: object = None) -> numpy.ndarray"))
      .def("item", &item_of, "The only element as a number of Python.", nb::sig("def item(self) -> int | float | bool"))
      .def(
          "tolist", [](const Tensor& self) { return numpy_of(self).attr("tolist")(); }, "As lists of numbers.",
          nb::sig("def tolist(self) -> typing.Any"))
      .def("__bool__", [](const Tensor& self) { return nb::cast<bool>(number_of(self, &PyBool_Type)); })
      .def(
          "__float__", [](const Tensor& self) { return number_of(self, &PyFloat_Type); }, nb::sig("def __float__(self) -> float"))
      .def(
          "__int__", [](const Tensor& self) { return number_of(self, &PyLong_Type); }, nb::sig("def __int__(self) -> int"))
      .def("__len__",
           [](const Tensor& self) {
             if (self.shape().size() == 0) throw nb::type_error("an array without dimensions has no length");
             return static_cast<std::size_t>(self.shape()[0]);
           })
      .def("__repr__", &text_of)
      .def("__dlpack__", &dlpack_of, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(),
           "copy"_a = nb::none(),
           "Its memory as a capsule of DLPack, when what computes it has run. Operations on the array and its consumer are then the "
           "caller's\n"
           "to order.",
           nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, "
                   "int] | None = None, copy: bool | None = None) -> object"))
      .def(
          "__dlpack_device__",
          [](const Tensor& self) {
            Array any;
            any.memory = std::make_shared<HeldMemory>();
            any.memory->runtime = self.value->collector->runtime();
            return dlpack_device_of(any);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "__array_namespace__", [](const Tensor&, nb::handle) { return nb::module_::import_("dwell"); }, nb::kw_only(),
          "api_version"_a = nb::none(), nb::sig("def __array_namespace__(self, *, api_version: str | None = None) -> typing.Any"));
  // Operators with an array of NumPy on the left are this class's.
  type.attr("__array_ufunc__") = nb::none();
  const nb::object before = names_in(m);
  bind_array_elements(type, m);
  bind_array_views(type, m);
  bind_array_reductions(type, m);
  bind_array_functions(type, m);
  // Which of the module's functions dwell has too: script/stubs writes python/dwell/_functions.py from it.
  m.attr("_array_functions") = names_in(m) - before;

  bind_array_makers(m);
  m.def(
      "element_type", [](nb::handle dtype) { return element_type_from(dtype); }, "dtype"_a);
  m.def(
      "type_name", [](nb::handle dtype) { return numpy_name(element_type_from(dtype)); }, "dtype"_a);
  m.def("common_type", &common_type, "operands"_a, nb::sig("def common_type(operands: typing.Sequence[object]) -> ElementType"));
  m.def(
      "share_array", [](nb::handle runtime, nb::handle object) { return share(state_of(runtime), object); }, "runtime"_a, "array"_a,
      nb::sig("def share_array(runtime: Runtime, array: object) -> Array | None"));
  m.def("own_buffer", &own, "buffer"_a);
  m.def(
      "array_stats", [](nb::handle runtime) { return Collector::of(state_of(runtime))->stats(); }, "runtime"_a,
      nb::sig("def array_stats(runtime: Runtime) -> BatchStats"));
  m.def(
      "runtime_of", [](const Tensor& self) { return runtime_object(self.value->collector->runtime()); }, "array"_a,
      nb::sig("def runtime_of(array: Array) -> Runtime"));
}

}  // namespace dwell::python
