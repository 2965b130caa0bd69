#include "buffer.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "buffer_export.hpp"
#include "numpy.hpp"
#include "shape.hpp"

namespace dwell::python {

using namespace nb::literals;

// ---- Memory ----------------------------------------------------------------------------------------------------------------------

void Array::wait() const {
  require_epoch(epoch, "the buffer");
  const Unlocked unlocked;
  memory->buffer.read({});
}

void* Array::host() const {
  require_epoch(epoch, "the buffer");
  return bytes() == 0 ? nullptr : memory->buffer.host().data() + offset;
}

std::string Array::text() const {
  return std::string("<dwell.Buffer ") + numpy_name(type) + " " + shape_text(shape) + " on " + memory->runtime->device() +
         (memory->place == dwell::Memory::host ? ", in host memory" : "") + ">";
}

std::shared_ptr<HeldMemory> wrap(const State& runtime, const Foreign& array, const std::string& name) {
  auto memory = std::make_shared<HeldMemory>();
  memory->runtime = runtime;
  memory->owner = array.keep;
  try {
    if (array.bytes() == 0)
      memory->buffer = runtime->get().allocate<std::byte>(0);
    else
      memory->buffer = runtime->get().wrap(array.data, array.bytes(), array.keep);
    memory->place = memory->buffer.memory();
  } catch (const Error& error) {
    if (error.kind() != errc::invalid_argument) throw;
    refuse_array(name, array.text() + ", cannot be used on " + runtime->device() + ": " + error.message());
  }
  return memory;
}

std::shared_ptr<HeldMemory> hold(const State& runtime, std::size_t bytes, dwell::Memory memory) {
  auto held = std::make_shared<HeldMemory>();
  held->runtime = runtime;
  held->place = memory;
  Runtime& opened = runtime->get();
  if (runtime->cuda() >= 0 || bytes == 0) {
    held->buffer = opened.allocate<std::byte>(bytes, memory);
    return held;
  }
  constexpr std::size_t kAlignment = 64;
  void* const block =
      bytes > SIZE_MAX - kAlignment ? nullptr : std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (block == nullptr)
    throw Error(errc::out_of_memory, std::to_string(bytes) + " bytes of host memory cannot be had", {"memory", "", bytes});
  held->owner = std::shared_ptr<void>(block, std::free);
  held->buffer = opened.wrap(block, bytes, held->owner);
  return held;
}

Array allocate(const State& runtime, const std::vector<std::size_t>& shape, ElementType type, dwell::Memory memory) {
  const ShapeSize size = size_in_memory(shape, type);
  Array made;
  made.count = size.count;
  made.shape = shape;
  made.type = type;
  const Unlocked unlocked;
  made.memory = hold(runtime, size.bytes, memory);
  return made;
}

// ---- What it holds ---------------------------------------------------------------------------------------------------------------

namespace {

// Contents for `to`, from any array or list on the host.
Foreign contents(const Array& to, nb::handle source, const char* call) {
  const std::string name = std::string("argument 1 of Buffer.") + call;
  const RuntimeState& runtime = *to.memory->runtime;
  std::optional<Foreign> found = describe(source, runtime, name);
  if (!found) found = describe(numpy().attr("ascontiguousarray")(source, "dtype"_a = numpy_dtype(to.type)), runtime, name);
  const bool bits = found->type == ElementType::u16 && to.type == ElementType::bf16;
  const bool bytes = PyBytes_Check(source.ptr()) || PyByteArray_Check(source.ptr());
  if (found->place == Foreign::Place::cuda || found->place == Foreign::Place::other)
    refuse_array(name, found->text() + ": an array in host memory is needed");
  if (found->type != to.type && !bits && !bytes) refuse_array(name, found->text() + ": elements of " + numpy_name(to.type) + " are needed");
  if (found->bytes() != to.bytes())
    refuse_array(name, found->text() + ": " + std::to_string(to.count) + " elements are needed, for shape " + shape_text(to.shape));
  if (!found->contiguous || found->swapped)
    refuse_array(name, found->text() + ": elements in C order and the machine's byte order are needed");
  return *std::move(found);
}

void write(const Array& to, nb::handle source) {
  require_epoch(to.epoch, "the buffer");
  run_posted();
  const Foreign from = contents(to, source, "write");
  const Unlocked unlocked;
  to.memory->buffer.write({static_cast<const std::byte*>(from.data), from.bytes()}, to.offset);
}

void read_into(const Array& from, nb::handle target) {
  require_epoch(from.epoch, "the buffer");
  run_posted();
  const Foreign to = contents(from, target, "readinto");
  if (to.readonly) refuse_array("argument 1 of Buffer.readinto", to.text() + ": it has to be written to");
  const Unlocked unlocked;
  from.memory->buffer.read({static_cast<std::byte*>(to.data), to.bytes()}, from.offset);
}

nb::bytes to_bytes(const Array& from) {
  require_epoch(from.epoch, "the buffer");
  nb::object made = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(from.bytes())));
  if (!made.is_valid()) throw nb::python_error();
  auto* const to = reinterpret_cast<std::byte*>(PyBytes_AsString(made.ptr()));
  {
    const Unlocked unlocked;
    from.memory->buffer.read({to, from.bytes()}, from.offset);
  }
  return nb::cast<nb::bytes>(made);
}

}  // namespace

nb::object numpy_copy(const Array& from) {
  nb::object to = numpy().attr("empty")(shape_tuple(from.shape), "dtype"_a = numpy_dtype(from.type));
  read_into(from, to);
  return to;
}

namespace {

nb::object to_numpy(nb::handle self) {
  const auto& array = nb::cast<const Array&>(self);
  if (!array.on_host())
    throw Error(errc::unsupported, "the buffer lies on " + array.memory->runtime->device() + ": read() copies it to the host",
                {"buffer", ""});
  array.wait();
  const nb::object seen = numpy().attr("asarray")(nb::borrow(nb::handle(self)));  // by the buffer protocol
  return array.type == ElementType::bf16 ? nb::object(seen.attr("view")(numpy_dtype(array.type))) : seen;
}

// ---- Parts and views

Array part(const Array& whole, const nb::slice& slice) {
  if (whole.shape.empty()) throw Error(errc::invalid_argument, "a buffer without dimensions has no parts", {"buffer", ""});
  Py_ssize_t first = 0;
  Py_ssize_t end = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(slice.ptr(), &first, &end, &step) != 0) throw nb::python_error();
  const Py_ssize_t length = PySlice_AdjustIndices(static_cast<Py_ssize_t>(whole.shape[0]), &first, &end, step);
  if (step != 1) throw Error(errc::invalid_argument, "parts of a buffer have a step of 1", {"buffer", ""});
  Array made = whole;
  const std::size_t row = whole.shape[0] == 0 ? 0 : whole.count / whole.shape[0];
  made.shape[0] = static_cast<std::size_t>(length);
  made.count = row * made.shape[0];
  made.offset += row * static_cast<std::size_t>(first) * bytes_of(whole.type);
  return made;
}

Array seen_as(const Array& whole, nb::handle dtype) {
  Array made = whole;
  made.type = element_type_from(dtype);
  const std::size_t bytes = whole.bytes();
  if (bytes % bytes_of(made.type) != 0)
    throw Error(errc::invalid_argument, std::to_string(bytes) + " bytes are no whole number of elements of " + numpy_name(made.type),
                {"buffer", ""});
  made.count = bytes / bytes_of(made.type);
  static_cast<void>(made.view());  // throws when it is not aligned
  if (bytes_of(made.type) != bytes_of(whole.type)) made.shape = {made.count};
  return made;
}

Array shaped(const Array& whole, nb::handle shape) {
  Array made = whole;
  made.shape = shape_from(shape);
  const std::optional<ShapeSize> size = size_of(made.shape, bytes_of(made.type));
  if (!size || size->count != whole.count)
    throw Error(errc::invalid_argument, "shape " + shape_text(made.shape) + " is none of " + std::to_string(whole.count) + " elements",
                {"argument", "shape"});
  return made;
}

std::vector<std::int64_t> row_major(const std::vector<std::size_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= static_cast<std::int64_t>(shape[i]);
  }
  return strides;
}

}  // namespace

void bind_buffer(nb::module_& m) {
  nb::enum_<ElementType> types(m, "ElementType", "The types that elements of buffers have.");
  for (const ElementType type : kElementTypes)
    types.value(type == ElementType::boolean ? "boolean" : std::string(name_of(type)).c_str(), type);

  nb::class_<Array>(m, "Buffer", nb::type_slots(buffer_slots()),
                    "Elements of one type in C order, in memory of a runtime or of somebody else: what operators work on.\n\n"
                    "Made by ``Runtime.allocate``, ``Runtime.array`` (a copy) and ``Runtime.wrap`` (no copy). Parts, ``buffer[2:10]``,\n"
                    "share its memory. Memory that tasks name lives until they have run, also when the buffer is dropped before.\n"
                    "Other libraries take it without a copy, by DLPack, ``__cuda_array_interface__`` or the buffer protocol.")
      .def_prop_ro(
          "shape", [](const Array& self) { return shape_tuple(self.shape); }, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_ro("dtype", &Array::type, "The type of its elements.")
      .def_ro("size", &Array::count, "How many elements it has.")
      .def_prop_ro("nbytes", &Array::bytes, "Its size in bytes.")
      .def_prop_ro(
          "device", [](const Array& self) { return self.memory->runtime->device(); }, "The runtime's device: \"cpu\", \"cuda:0\".")
      .def_prop_ro(
          "memory", [](const Array& self) { return self.memory->place == dwell::Memory::host ? "host" : "device"; },
          "\"device\", or \"host\" for pinned host memory that the device reaches.")
      .def_prop_ro(
          "address", [](const Array& self) { return reinterpret_cast<std::uintptr_t>(self.memory->buffer.data()) + self.offset; },
          "Where it begins, in the device's addresses.")
      .def("wait", &Array::wait, "Waits for the tasks so far that name the memory, without the GIL.")
      .def("write", &write, "source"_a,
           "Copies an array on the host, ``bytes``, or a list of numbers into it, after the tasks so far that name it.",
           nb::sig("def write(self, source: object) -> None"))
      .def("read", &numpy_copy,
           "A copy as a NumPy array, taken after the tasks so far that name it. A bfloat16 is that of ml_dtypes where\n"
           "that is installed, else ``uint16``.",
           nb::sig("def read(self) -> numpy.ndarray"))
      .def("readinto", &read_into, "target"_a, "Copies it into an array on the host of the same type and size.",
           nb::sig("def readinto(self, target: object) -> None"))
      .def("tobytes", &to_bytes, "A copy as bytes. Needs no NumPy.")
      .def(
          "numpy", [](nb::handle_t<Array> self) { return to_numpy(self); },
          "The same memory as a NumPy array, on the CPU and for host memory; else raises dwell.Unsupported. Waits for the tasks so far,\n"
          "but not for later ones.",
          nb::sig("def numpy(self) -> numpy.ndarray"))
      .def(
          "__array__",
          [](nb::handle_t<Array> self, nb::handle dtype, nb::handle copy) {
            const auto& array = nb::cast<const Array&>(self);
            nb::object made = array.on_host() && (copy.is_none() || !nb::cast<bool>(copy)) ? to_numpy(self) : numpy_copy(array);
            return dtype.is_none() ? made : nb::object(made.attr("astype")(dtype));
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: object = None, copy: object = None) -> numpy.ndarray"))
      .def("view", &seen_as, "dtype"_a, "The same memory as elements of another type; in one dimension when these have another size.",
           nb::sig("def view(self, dtype: object) -> Buffer"))
      .def("reshape", &shaped, "shape"_a, "The same memory in another shape.",
           nb::sig("def reshape(self, shape: int | typing.Sequence[int]) -> Buffer"))
      .def("__getitem__", &part, "part"_a, "A part along the first dimension, which shares the memory.")
      .def("__len__", [](const Array& self) { return self.shape.empty() ? self.count : self.shape[0]; })
      .def("__repr__", &Array::text)
      .def(
          "__dlpack__",
          [](const Array& self, nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
            return to_dlpack(self, row_major(self.shape), false, stream, max_version, dl_device, copy);
          },
          nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
          "The memory as a capsule of DLPack, of version 1 when the consumer takes that. Waits for the tasks so far on the host, so that\n"
          "every stream sees their results; with ``stream=-1`` for none.",
          nb::sig(
              "def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | "
              "None = None, copy: bool | None = None) -> object"))
      .def("__dlpack_device__", &dlpack_device_of, nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def_prop_ro("__cuda_array_interface__", &cuda_interface, nb::sig("def __cuda_array_interface__(self) -> dict[str, object]"));
}

}  // namespace dwell::python
