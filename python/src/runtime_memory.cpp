// Memory of a runtime: empty, with a copy, of others.
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "heap.hpp"
#include "ring.hpp"
#include "runtime.hpp"
#include "shape.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

Array wrap_array(const PyRuntime& self, nb::handle object) {
  runtime_of(self);
  const std::string name = "argument 1 of Runtime.wrap";
  std::optional<Foreign> array = describe(object, *self.state, name);
  if (!array)
    throw Error(errc::signature_mismatch,
                name +
                    ": an array is needed, of NumPy, or one that shares its memory by DLPack or "
                    "__cuda_array_interface__",
                {"argument", name});
  if (const std::string why = out_of_reach(*array, *self.state); !why.empty())
    throw Error(errc::invalid_argument, name + ": " + array->text() + ": " + why, {"argument", name});
  if (!array->type)
    throw Error(errc::signature_mismatch, name + ": " + array->text() + ": dwell has no such element type", {"argument", name});
  std::string why = unusable(*array, *self.state);
  if (why.empty() && array->readonly)
    why = "it is read-only, and operators may write: pass it to an operator that declares Span<const T>, or copy it";
  if (!why.empty()) throw Error(errc::invalid_argument, name + ": " + array->text() + ": " + why, {"argument", name});
  Array made;
  made.memory = wrap(self.state, *array, name);
  made.count = array->count;
  made.shape = array->shape;
  made.type = *array->type;
  return made;
}

dwell::Memory memory_from(const std::string& name) {
  if (name == "device") return dwell::Memory::device;
  if (name == "host") return dwell::Memory::host;
  throw Error(errc::invalid_argument, "memory is \"device\" or \"host\", not \"" + name + "\"", {"argument", "memory"});
}

Array allocate_array(const PyRuntime& self, nb::handle shape, nb::handle dtype, const std::string& memory) {
  runtime_of(self);
  return allocate(self.state, shape_from(shape), element_type_from(dtype), memory_from(memory));
}

nb::object array_of(const PyRuntime& self, nb::handle source, nb::handle dtype, const std::string& memory) {
  Runtime& runtime = runtime_of(self);
  static_cast<void>(runtime);
  nb::object contents = nb::borrow(source);
  std::optional<Foreign> found;
  const std::string name = "argument 1 of Runtime.array";
  const bool host_cast = !dtype.is_none();
  found = describe(source, *self.state, name);
  const bool usable = found && found->type && found->contiguous && !found->swapped && found->place != Foreign::Place::cuda &&
                      found->place != Foreign::Place::other && (!host_cast || *found->type == element_type_from(dtype));
  if (found && (found->place == Foreign::Place::cuda || found->place == Foreign::Place::other))
    throw Error(errc::invalid_argument,
                name + ": " + found->text() + ": an array in host memory is needed; Runtime.wrap takes this one as it is",
                {"argument", name});
  if (!usable) {
    // Lists, strided arrays, another type: NumPy knows how.
    const nb::object numpy = nb::module_::import_("numpy");
    nb::object wanted = nb::none();
    if (host_cast)
      wanted = numpy.attr("dtype")(nb::str(numpy_name(element_type_from(dtype)).c_str()));
    else if (found && found->swapped)
      wanted = source.attr("dtype").attr("newbyteorder")("=");
    contents = numpy.attr("ascontiguousarray")(source, "dtype"_a = wanted);
    if (found && found->shape.empty()) contents = contents.attr("reshape")(nb::make_tuple());
    found = describe(contents, *self.state, name);
    if (!found || !found->type)
      throw Error(errc::signature_mismatch, name + ": " + (found ? found->text() + ": dwell has no such element type" : "it is no array"),
                  {"argument", name});
  }
  const Array made = allocate(self.state, found->shape, *found->type, memory_from(memory));
  {
    const Unlocked unlocked;
    made.memory->buffer.write({static_cast<const std::byte*>(found->data), found->bytes()}, 0);
  }
  return nb::cast(made);
}

}  // namespace

void bind_runtime_memory(nb::class_<PyRuntime>& type) {
  type.def("allocate", &allocate_array, "shape"_a, "dtype"_a = "float32", "memory"_a = "device",
           "Memory for elements, uninitialised. `shape` is a count or a tuple; ``memory=\"host\"`` is pinned host memory that the device "
           "reaches.",
           nb::sig("def allocate(self, shape: int | typing.Sequence[int], dtype: object = 'float32', memory: str = 'device') -> Buffer"))
      .def(
          "ring",
          [](const PyRuntime& self, nb::handle dtype, std::size_t slots, const std::string& producers, const std::string& consumers,
             bool checksum) {
            runtime_of(self);
            RingOptions options;
            options.producers = side_from(producers, "producers");
            options.consumers = side_from(consumers, "consumers");
            options.checksum = checksum;
            return make_ring(self.state, dtype, slots, options);
          },
          "dtype"_a, "slots"_a, nb::kw_only(), "producers"_a = "device", "consumers"_a = "device", "checksum"_a = false,
          nb::sig("def ring(self, dtype: typing.Any, slots: int, *, producers: str = 'device', consumers: str = 'device', checksum: bool = "
                  "False) -> Ring"),
          "A ring of ``slots`` messages, a power of two, of a type of NumPy (a structured one for a struct). Operators (\"device\") or "
          "threads\n"
          "of Python (\"host\") push and pop. With ``checksum`` damaged messages are skipped and counted.")
      .def(
          "byte_ring",
          [](const PyRuntime& self, std::size_t bytes, const std::string& producers, const std::string& consumers, bool checksum,
             std::size_t message_bytes) {
            runtime_of(self);
            RingOptions options;
            options.producers = side_from(producers, "producers");
            options.consumers = side_from(consumers, "consumers");
            options.checksum = checksum;
            options.message_bytes = message_bytes;
            return make_byte_ring(self.state, bytes, options);
          },
          "bytes"_a, nb::kw_only(), "producers"_a = "device", "consumers"_a = "device", "checksum"_a = false, "message_bytes"_a = 0,
          "A ring of ``bytes``, a power of two, for messages of up to ``message_bytes`` (0: a quarter of the ring) with a type; else as\n"
          "``ring``.")
      .def_prop_ro(
          "heap",
          [](const PyRuntime& self) {
            runtime_of(self);
            return PyHeap{self.state};
          },
          "The memory that operators allocate while they run.")
      .def("array", &array_of, "source"_a, "dtype"_a = nb::none(), "memory"_a = "device",
           "A copy of an array on the host, or of a list of numbers, as a buffer of the same shape.",
           nb::sig("def array(self, source: object, dtype: object = None, memory: str = 'device') -> Buffer"))
      .def("wrap", &wrap_array, "array"_a,
           "Memory of others as a buffer, without a copy: a NumPy array on the CPU, a tensor of PyTorch, CuPy, JAX on the runtime's "
           "device. The\n"
           "array is kept alive until the buffer and the last task that names it have gone. Work that others put on streams afterwards is\n"
           "ordered by nobody but the caller.",
           nb::sig("def wrap(self, array: object) -> Buffer"));
}

}  // namespace dwell::python
