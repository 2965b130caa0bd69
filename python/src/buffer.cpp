#include "buffer.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda_stream.hpp"
#include "dlpack.hpp"

namespace dwell::python {

using namespace nb::literals;

std::string python_name(nb::handle object) {
  const nb::handle type = object.type();
  std::string name = nb::cast<std::string>(nb::str(type.attr("__qualname__")));
  const std::string module = nb::cast<std::string>(nb::str(nb::getattr(type, "__module__", nb::str("builtins"))));
  return module == "builtins" ? name : module + "." + name;
}

namespace {

struct TypeName {
  ElementType type;
  const char* numpy;
  const char* cai;  // of __cuda_array_interface__; null where it has none
  dlpack::Code code;
};
constexpr TypeName kTypes[] = {
    {ElementType::f16, "float16", "<f2", dlpack::kFloat},
    {ElementType::bf16, "bfloat16", nullptr, dlpack::kBfloat},
    {ElementType::f32, "float32", "<f4", dlpack::kFloat},
    {ElementType::f64, "float64", "<f8", dlpack::kFloat},
    {ElementType::i8, "int8", "|i1", dlpack::kInt},
    {ElementType::i16, "int16", "<i2", dlpack::kInt},
    {ElementType::i32, "int32", "<i4", dlpack::kInt},
    {ElementType::i64, "int64", "<i8", dlpack::kInt},
    {ElementType::u8, "uint8", "|u1", dlpack::kUnsigned},
    {ElementType::u16, "uint16", "<u2", dlpack::kUnsigned},
    {ElementType::u32, "uint32", "<u4", dlpack::kUnsigned},
    {ElementType::u64, "uint64", "<u8", dlpack::kUnsigned},
    {ElementType::boolean, "bool", "|b1", dlpack::kBool},
    {ElementType::complex64, "complex64", "<c8", dlpack::kComplex},
    {ElementType::complex128, "complex128", "<c16", dlpack::kComplex},
};
const TypeName& named(ElementType type) { return *std::ranges::find(kTypes, type, &TypeName::type); }

// A type by its kind (as __array_interface__ writes it: f i u b c) and its bytes.
std::optional<ElementType> type_of(char kind, std::size_t bytes) {
  switch (kind) {
    case 'f':
      return bytes == 2   ? std::optional(ElementType::f16)
             : bytes == 4 ? std::optional(ElementType::f32)
             : bytes == 8 ? std::optional(ElementType::f64)
                          : std::nullopt;
    case 'i':
      return bytes == 1   ? std::optional(ElementType::i8)
             : bytes == 2 ? std::optional(ElementType::i16)
             : bytes == 4 ? std::optional(ElementType::i32)
             : bytes == 8 ? std::optional(ElementType::i64)
                          : std::nullopt;
    case 'u':
      return bytes == 1   ? std::optional(ElementType::u8)
             : bytes == 2 ? std::optional(ElementType::u16)
             : bytes == 4 ? std::optional(ElementType::u32)
             : bytes == 8 ? std::optional(ElementType::u64)
                          : std::nullopt;
    case 'b': return bytes == 1 ? std::optional(ElementType::boolean) : std::nullopt;
    case 'c':
      return bytes == 8 ? std::optional(ElementType::complex64) : bytes == 16 ? std::optional(ElementType::complex128) : std::nullopt;
    default: return std::nullopt;
  }
}

std::size_t alignment_of(ElementType type) { return bytes_of(type); }

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(errc::invalid_argument, name + ": " + why, {"argument", name});
}

// The Python exception that is being raised, as a text, which is then forgotten.
std::string text_of(nb::python_error& error) { return nb::cast<std::string>(nb::str(error.value())); }

// Notes strides in bytes of something that is not in C order.
void set_strides(Foreign& to, const std::vector<std::int64_t>& bytes) {
  const auto itemsize = static_cast<std::int64_t>(to.itemsize);
  if (std::ranges::any_of(bytes, [&](std::int64_t stride) { return stride % itemsize != 0; })) return;
  for (const std::int64_t stride : bytes) to.strides.push_back(stride / itemsize);
}

// ---- The buffer protocol ---------------------------------------------------------------------------------------------------------

// What a format of the struct module says of one element.
void set_format(Foreign& to, const char* format) {
  std::string_view text = format == nullptr ? "B" : format;
  to.type_text = std::string(text);
  if (!text.empty() && (text.front() == '@' || text.front() == '=' || text.front() == '<' || text.front() == '>' || text.front() == '!')) {
    to.swapped = text.front() == '>' || text.front() == '!';
    text.remove_prefix(1);
  }
  const bool complex = text.size() == 2 && text.front() == 'Z';
  if (text.size() != 1 && !complex) return;
  const char code = text.back();
  const char kind = complex                                                            ? 'c'
                    : code == '?'                                                      ? 'b'
                    : std::string_view("bhilqn").find(code) != std::string_view::npos  ? 'i'
                    : std::string_view("BHILQNc").find(code) != std::string_view::npos ? 'u'
                    : std::string_view("efd").find(code) != std::string_view::npos     ? 'f'
                                                                                       : ' ';
  to.type = type_of(kind, to.itemsize);
  if (to.itemsize == 1) to.swapped = false;
}

std::optional<Foreign> from_buffer(nb::handle object) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  Foreign to;
  to.data = view->buf;
  to.itemsize = static_cast<std::size_t>(std::max<Py_ssize_t>(view->itemsize, 1));
  to.count = static_cast<std::size_t>(view->len) / to.itemsize;
  to.readonly = view->readonly != 0;
  to.contiguous = PyBuffer_IsContiguous(view.get(), 'C') != 0;
  for (int i = 0; i < view->ndim; ++i) to.shape.push_back(static_cast<std::size_t>(view->shape[i]));
  if (!to.contiguous && view->strides != nullptr) set_strides(to, {view->strides, view->strides + view->ndim});
  set_format(to, view->format);
  to.keep = std::shared_ptr<void>(view.release(), [](void* dropped) {
    const auto release = [held = static_cast<Py_buffer*>(dropped)] {
      PyBuffer_Release(held);
      delete held;
    };
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0)
      release();
    else
      post(release);
  });
  return to;
}

// ---- Array interfaces ------------------------------------------------------------------------------------------------------------

// A dictionary of __array_interface__ or __cuda_array_interface__.
Foreign from_interface(nb::handle object, nb::handle interface, const std::string& name) {
  const nb::dict dict = nb::cast<nb::dict>(interface);
  Foreign to;
  const std::string type = nb::cast<std::string>(nb::str(dict["typestr"]));
  if (type.size() < 3) refuse(name, "its array interface has the type '" + type + "'");
  to.itemsize = std::stoul(type.substr(2));
  to.swapped = type[0] == '>' && to.itemsize > 1;
  to.type = type_of(type[1], to.itemsize);
  to.type_text = type;
  // What ml_dtypes adds to NumPy.
  if (type[1] == 'V' && to.itemsize == 2 && nb::hasattr(object, "dtype") &&
      nb::cast<std::string>(nb::str(object.attr("dtype"))).find("bfloat16") != std::string::npos)
    to.type = ElementType::bf16;
  to.count = 1;
  for (const nb::handle extent : dict["shape"]) {
    to.shape.push_back(nb::cast<std::size_t>(extent));
    to.count *= to.shape.back();
  }
  const nb::object strides = nb::borrow(dict.contains("strides") ? nb::object(dict["strides"]) : nb::none());
  if (!strides.is_none() && to.count > 0) {
    std::size_t at = to.shape.size();
    auto expected = static_cast<std::int64_t>(to.itemsize);
    const nb::tuple list(strides);
    while (at-- > 0) {
      if (to.shape[at] > 1 && nb::cast<std::int64_t>(list[at]) != expected) to.contiguous = false;
      expected *= static_cast<std::int64_t>(to.shape[at]);
    }
    if (!to.contiguous) set_strides(to, nb::cast<std::vector<std::int64_t>>(strides));
  }
  const nb::object data = nb::borrow(dict["data"]);
  to.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));
  to.readonly = nb::cast<bool>(data[1]);
  const Shared owner{nb::borrow(object)};
  to.keep = std::make_shared<Shared>(owner);
  return to;
}

// ---- DLPack ----------------------------------------------------------------------------------------------------------------------

void set_tensor(Foreign& to, const dlpack::Tensor& tensor) {
  to.data = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  to.itemsize = std::max<std::size_t>(static_cast<std::size_t>(tensor.type.bits) * tensor.type.lanes / 8, 1);
  to.count = 1;
  for (std::int32_t i = 0; i < tensor.dimensions; ++i) {
    to.shape.push_back(static_cast<std::size_t>(tensor.shape[i]));
    to.count *= to.shape.back();
  }
  if (tensor.strides != nullptr && to.count > 0) {
    std::int64_t expected = 1;
    for (std::int32_t i = tensor.dimensions; i-- > 0;) {
      if (tensor.shape[i] > 1 && tensor.strides[i] != expected) to.contiguous = false;
      expected *= tensor.shape[i];
    }
    if (!to.contiguous) to.strides.assign(tensor.strides, tensor.strides + tensor.dimensions);
  }
  to.type_text = "DLPack type " + std::to_string(tensor.type.code) + " of " + std::to_string(tensor.type.bits) + " bits";
  if (tensor.type.lanes != 1 || tensor.type.bits % 8 != 0) return;
  for (const TypeName& one : kTypes)
    if (one.code == tensor.type.code && bytes_of(one.type) * 8 == tensor.type.bits) to.type = one.type;
}

// Its deleter may run Python code.
template <class Any>
std::shared_ptr<void> owned(Any* managed) {
  return std::shared_ptr<void>(managed, [](void* dropped) {
    auto* const one = static_cast<Any*>(dropped);
    if (one->deleter == nullptr) return;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0)
      one->deleter(one);
    else
      post([one] { one->deleter(one); });
  });
}

void set_place(Foreign& to, std::int32_t type, std::int32_t id) {
  to.id = id;
  switch (type) {
    case dlpack::kCpu: to.place = Foreign::Place::host; break;
    case dlpack::kCuda: to.place = Foreign::Place::cuda; break;
    case dlpack::kCudaHost: to.place = Foreign::Place::pinned; break;
    case dlpack::kCudaManaged: to.place = Foreign::Place::managed; break;
    default: to.place = Foreign::Place::other; to.place_text = "a device of DLPack's type " + std::to_string(type);
  }
}

bool reachable(const Foreign& array, const RuntimeState& runtime) {
  if (array.place == Foreign::Place::cuda) return runtime.cuda() >= 0 && runtime.cuda() == array.id;
  return array.place != Foreign::Place::other;
}

std::optional<Foreign> from_dlpack(nb::handle object, const RuntimeState& runtime, const std::string& name) {
  Foreign to;
  try {
    const nb::object device = object.attr("__dlpack_device__")();
    set_place(to, nb::cast<std::int32_t>(nb::int_(nb::object(device[0]))), nb::cast<std::int32_t>(nb::int_(nb::object(device[1]))));
    if (!reachable(to, runtime)) {
      // Its type would take a capsule to find out.
      to.type_text = nb::hasattr(object, "dtype") ? nb::cast<std::string>(nb::str(object.attr("dtype"))) : "unknown type";
      return to;
    }
    // The tasks run on no stream: its owner makes the legacy default stream wait for what it has under way, and the host waits for that.
    const bool cuda = to.place == Foreign::Place::cuda;
    const auto ask = [&](bool versioned) {
      nb::dict how;
      if (cuda) how["stream"] = kLegacyStream;
      if (versioned) how["max_version"] = nb::make_tuple(1, 1);
      return how;
    };
    nb::object capsule;
    try {
      const nb::dict how = ask(true);
      capsule = object.attr("__dlpack__")(**how);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;  // of a producer from before version 1
      const nb::dict how = ask(false);
      capsule = object.attr("__dlpack__")(**how);
    }
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersionedName) != 0) {
      auto* const managed = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kVersionedName));
      if (managed->version.major != 1) refuse(name, "it speaks DLPack " + std::to_string(managed->version.major) + ", dwell speaks 1");
      PyCapsule_SetName(capsule.ptr(), dlpack::kUsedVersionedName);
      to.keep = owned(managed);
      to.readonly = (managed->flags & (dlpack::kReadOnly | dlpack::kCopied)) != 0;  // what is written into a copy is lost
      set_tensor(to, managed->tensor);
    } else if (PyCapsule_IsValid(capsule.ptr(), dlpack::kName) != 0) {
      auto* const managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kName));
      PyCapsule_SetName(capsule.ptr(), dlpack::kUsedName);
      to.keep = owned(managed);
      set_tensor(to, managed->tensor);
    } else {
      refuse(name, "__dlpack__ of " + python_name(object) + " has returned no capsule of DLPack");
    }
    if (cuda && to.count > 0) {
      const Unlocked unlocked;
      wait_for_stream(to.id, kLegacyStream);
    }
    return to;
  } catch (nb::python_error& error) {
    refuse(name, python_name(object) + " does not let its memory be shared by DLPack: " + text_of(error));
  }
}

std::optional<Foreign> from_cuda_interface(nb::handle object, const RuntimeState& runtime, const std::string& name) {
  try {
    const nb::dict interface = nb::cast<nb::dict>(object.attr("__cuda_array_interface__"));
    Foreign to = from_interface(object, interface, name);
    to.place = Foreign::Place::cuda;
    // The interface does not say which device; `wrap` looks the memory up, and refuses another one's.
    to.id = runtime.cuda();
    const nb::object stream = interface.contains("stream") ? nb::object(interface["stream"]) : nb::none();
    if (!stream.is_none() && runtime.cuda() >= 0 && to.count > 0) {
      const auto number = nb::cast<std::uintptr_t>(stream);
      const Unlocked unlocked;
      wait_for_stream(runtime.cuda(), number);
    }
    return to;
  } catch (nb::python_error& error) {
    refuse(name, "__cuda_array_interface__ of " + python_name(object) + " cannot be read: " + text_of(error));
  }
}

}  // namespace

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string numpy_name(ElementType type) { return named(type).numpy; }

std::string Foreign::text() const {
  const std::string where = place == Place::host      ? "on the CPU"
                            : place == Place::pinned  ? "in pinned host memory"
                            : place == Place::managed ? "in managed memory"
                            : place == Place::cuda    ? (id < 0 ? std::string("on a CUDA device") : "on cuda:" + std::to_string(id))
                                                      : "on " + place_text;
  return of + " of " + (type ? numpy_name(*type) : type_text) + (swapped ? " in the other byte order" : "") +
         (keep ? ", shape " + shape_text(shape) : "") + (contiguous ? "" : ", strided") + (readonly ? ", read-only" : "") + ", " + where;
}

std::optional<Foreign> look_at(nb::handle object, const RuntimeState& runtime, const std::string& name) {
  std::optional<Foreign> found;
  if (PyObject_CheckBuffer(object.ptr()) != 0) found = from_buffer(object);
  if (found && !found->type && found->itemsize == 2 && nb::hasattr(object, "__array_interface__")) found.reset();  // bfloat16
  if (!found && nb::hasattr(object, "__array_interface__")) {
    try {
      found = from_interface(object, object.attr("__array_interface__"), name);
    } catch (nb::python_error& error) {
      refuse(name, "__array_interface__ of " + python_name(object) + " cannot be read: " + text_of(error));
    }
  }
  if (!found && nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__")) found = from_dlpack(object, runtime, name);
  if (!found && nb::hasattr(object, "__cuda_array_interface__")) found = from_cuda_interface(object, runtime, name);
  if (found) found->of = python_name(object);
  return found;
}

std::string out_of_reach(const Foreign& array, const RuntimeState& runtime) {
  if (!reachable(array, runtime)) {
    return runtime.cuda() < 0 ? "the runtime works on the CPU: pass an array in host memory, or open a dwell.Runtime on that device"
                              : "the runtime works on " + runtime.device() + ": pass an array there, or a runtime.array(...) copy";
  }
  if (array.place == Foreign::Place::host && runtime.cuda() >= 0)
    return "the runtime works on " + runtime.device() + ", which does not reach it: copy it with runtime.array(...)";
  return {};
}

std::string unusable(const Foreign& array, const RuntimeState& runtime) {
  if (std::string why = out_of_reach(array, runtime); !why.empty()) return why;
  if (array.swapped) return "its bytes are in the other order: pass a copy in the machine's own";
  if (!array.contiguous)
    return "its elements do not lie behind each other in C order: pass a copy, numpy.ascontiguousarray(x) or x.contiguous()";
  if (array.type && reinterpret_cast<std::uintptr_t>(array.data) % alignment_of(*array.type) != 0)
    return "its elements are not aligned to " + std::to_string(alignment_of(*array.type)) + " bytes: pass a copy";
  return {};
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
    refuse(name, array.text() + ", cannot be used on " + runtime->device() + ": " + error.message());
  }
  return memory;
}

ElementType element_type_from(nb::handle object) {
  ElementType type{};
  if (nb::try_cast(object, type)) return type;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyFloat_Type)))) return ElementType::f64;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type)))) return ElementType::i64;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyBool_Type)))) return ElementType::boolean;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyComplex_Type)))) return ElementType::complex128;
  // numpy.float32, a type of NumPy's: its name; numpy.dtype("float32"), torch.float32: their texts.
  std::string text = nb::cast<std::string>(nb::str(PyType_Check(object.ptr()) ? nb::object(object.attr("__name__")) : nb::borrow(object)));
  if (const std::size_t dot = text.rfind('.'); dot != std::string::npos) text.erase(0, dot + 1);
  // Not by dwell's own short names: "i8" has eight bytes for NumPy.
  for (const TypeName& one : kTypes)
    if (text == one.numpy) return one.type;
  std::string names;
  for (const TypeName& one : kTypes) names += (names.empty() ? "" : ", ") + std::string(one.numpy);
  throw Error(errc::invalid_argument, "'" + text + "' is no element type of dwell: there are " + names + ", and dwell.ElementType",
              {"argument", "dtype"});
}

// ---- dwell.Buffer ----------------------------------------------------------------------------------------------------------------

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
  Array made;
  made.count = 1;
  for (const std::size_t extent : shape) {
    if (__builtin_mul_overflow(made.count, extent, &made.count))
      throw Error(errc::out_of_memory, "an array of shape " + shape_text(shape) + " fits into no memory", {"memory", ""});
  }
  made.shape = shape;
  made.type = type;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(made.count, bytes_of(type), &bytes))
    throw Error(errc::out_of_memory, "an array of shape " + shape_text(shape) + " fits into no memory", {"memory", ""});
  const Unlocked unlocked;
  made.memory = hold(runtime, bytes, memory);
  return made;
}

namespace {

nb::object numpy() {
  try {
    return nb::module_::import_("numpy");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    throw Error(errc::unsupported, "NumPy is not installed: pip install numpy, or use tobytes(), readinto() and memoryview");
  }
}

std::vector<std::size_t> shape_from(nb::handle object) {
  std::vector<std::size_t> shape;
  const auto extent = [](nb::handle one) {
    const auto value = nb::cast<std::int64_t>(nb::int_(nb::borrow(one)));
    if (value < 0) throw Error(errc::invalid_argument, "a shape has no negative extents", {"argument", "shape"});
    return static_cast<std::size_t>(value);
  };
  if (PyIndex_Check(object.ptr())) return {extent(object)};
  for (const nb::handle one : object) shape.push_back(extent(one));
  return shape;
}

std::size_t count_of(const std::vector<std::size_t>& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

// NumPy's dtype for it; of bfloat16 that of ml_dtypes when that is there, else that of its bits.
nb::object numpy_dtype(ElementType type) {
  if (type == ElementType::bf16) {
    try {
      return nb::module_::import_("ml_dtypes").attr("bfloat16");
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) throw;
      return numpy().attr("uint16");
    }
  }
  return numpy().attr(numpy_name(type) == "bool" ? "bool_" : numpy_name(type).c_str());
}

// Contents for `to`, from any array or list on the host.
Foreign contents(const Array& to, nb::handle source, const char* call) {
  const std::string name = std::string("argument 1 of Buffer.") + call;
  const RuntimeState& runtime = *to.memory->runtime;
  std::optional<Foreign> found = look_at(source, runtime, name);
  if (!found) found = look_at(numpy().attr("ascontiguousarray")(source, "dtype"_a = numpy_dtype(to.type)), runtime, name);
  const bool bits = found->type == ElementType::u16 && to.type == ElementType::bf16;
  const bool bytes = PyBytes_Check(source.ptr()) || PyByteArray_Check(source.ptr());
  if (found->place == Foreign::Place::cuda || found->place == Foreign::Place::other)
    refuse(name, found->text() + ": an array in host memory is needed");
  if (found->type != to.type && !bits && !bytes) refuse(name, found->text() + ": elements of " + numpy_name(to.type) + " are needed");
  if (found->bytes() != to.bytes())
    refuse(name, found->text() + ": " + std::to_string(to.count) + " elements are needed, for shape " + shape_text(to.shape));
  if (!found->contiguous || found->swapped) refuse(name, found->text() + ": elements in C order and the machine's byte order are needed");
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
  if (to.readonly) refuse("argument 1 of Buffer.readinto", to.text() + ": it has to be written to");
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

nb::tuple shape_tuple(const std::vector<std::size_t>& shape) {
  nb::list list;
  for (const std::size_t extent : shape) list.append(extent);
  return nb::tuple(list);
}

}  // namespace

nb::object numpy_copy(const Array& from) {
  nb::object to = numpy().attr("empty")(shape_tuple(from.shape), "dtype"_a = numpy_dtype(from.type));
  read_into(from, to);
  return to;
}

namespace {

bool on_host(const Array& array) { return array.memory->runtime->cuda() < 0 || array.memory->place == dwell::Memory::host; }

// ---- DLPack, out

// What a capsule owns. The consumer may drop it on any thread.
template <class Any>
struct Export {
  Any managed{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::shared_ptr<HeldMemory> memory;
};

dlpack::Device dlpack_device(const Array& array) {
  const int cuda = array.memory->runtime->cuda();
  if (cuda < 0) return {dlpack::kCpu, 0};
  return {array.memory->place == dwell::Memory::host ? dlpack::kCudaHost : dlpack::kCuda, cuda};
}

template <class Any>
nb::object capsule_of(const Array& array, const std::vector<std::int64_t>& strides, const char* name, std::uint64_t flags) {
  auto made = std::make_unique<Export<Any>>();
  made->memory = array.memory;
  made->shape.assign(array.shape.begin(), array.shape.end());
  made->strides = strides;
  const TypeName& type = named(array.type);
  made->managed.tensor = {reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(array.memory->buffer.data()) + array.offset),
                          dlpack_device(array),
                          static_cast<std::int32_t>(made->shape.size()),
                          {static_cast<std::uint8_t>(type.code), static_cast<std::uint8_t>(bytes_of(array.type) * 8), 1},
                          made->shape.data(),
                          made->strides.data(),
                          0};
  made->managed.context = made.get();
  made->managed.deleter = [](Any* dropped) { delete static_cast<Export<Any>*>(dropped->context); };
  if constexpr (std::is_same_v<Any, dlpack::ManagedVersioned>) {
    made->managed.version = {1, 1};
    made->managed.flags = flags;
  }
  // A consumer renames the capsule, and calls the deleter itself.
  const auto drop = [](PyObject* capsule) {
    const char* const wanted = std::is_same_v<Any, dlpack::Managed> ? dlpack::kName : dlpack::kVersionedName;
    if (PyCapsule_IsValid(capsule, wanted) == 0) return;
    auto* const managed = static_cast<Any*>(PyCapsule_GetPointer(capsule, wanted));
    managed->deleter(managed);
  };
  PyObject* const capsule = PyCapsule_New(&made->managed, name, drop);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(made.release());
  return nb::steal(capsule);
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

nb::object to_dlpack(const Array& array, const std::vector<std::int64_t>& strides, bool readonly, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy) {
  const dlpack::Device device = dlpack_device(array);
  if (!dl_device.is_none()) {
    const nb::object wanted = nb::borrow(dl_device);
    if (nb::cast<std::int32_t>(nb::int_(nb::object(wanted[0]))) != device.type ||
        nb::cast<std::int32_t>(nb::int_(nb::object(wanted[1]))) != device.id) {
      PyErr_SetString(PyExc_BufferError, "dwell's __dlpack__ copies to no other device: use read() or numpy()");
      throw nb::python_error();
    }
  }
  if (!copy.is_none() && nb::cast<bool>(copy)) {
    PyErr_SetString(PyExc_BufferError, "dwell's __dlpack__ makes no copies: use read() or numpy()");
    throw nb::python_error();
  }
  // Tasks run on no stream: with them done, what the buffer holds is there for every stream. -1: the consumer wants no order.
  const bool no_order = !stream.is_none() && nb::cast<std::int64_t>(stream) == -1;
  if (!no_order) array.wait();
  if (!max_version.is_none() && nb::cast<std::int64_t>(nb::object(nb::borrow(max_version)[0])) >= 1)
    return capsule_of<dlpack::ManagedVersioned>(array, strides, dlpack::kVersionedName, readonly ? dlpack::kReadOnly : 0);
  if (readonly) {
    PyErr_SetString(PyExc_BufferError, "read-only memory needs a consumer that takes DLPack 1.0 (max_version)");
    throw nb::python_error();
  }
  return capsule_of<dlpack::Managed>(array, strides, dlpack::kName, 0);
}

nb::tuple dlpack_device_of(const Array& array) {
  const dlpack::Device device = dlpack_device(array);
  return nb::make_tuple(device.type, device.id);
}

namespace {

nb::object to_numpy(nb::handle self) {
  const auto& array = nb::cast<const Array&>(self);
  if (!on_host(array))
    throw Error(errc::unsupported, "the buffer lies on " + array.memory->runtime->device() + ": read() copies it to the host",
                {"buffer", ""});
  array.wait();
  const nb::object seen = numpy().attr("asarray")(nb::borrow(nb::handle(self)));  // by the buffer protocol
  return array.type == ElementType::bf16 ? nb::object(seen.attr("view")(numpy_dtype(array.type))) : seen;
}

nb::object cuda_interface(const Array& array) {
  const TypeName& type = named(array.type);
  if (array.memory->runtime->cuda() < 0 || type.cai == nullptr) {
    PyErr_SetString(PyExc_AttributeError, type.cai == nullptr ? "__cuda_array_interface__ has no bfloat16: use DLPack"
                                                              : "__cuda_array_interface__: the buffer lies on the CPU");
    throw nb::python_error();
  }
  array.wait();
  nb::dict made;
  made["version"] = 3;
  made["shape"] = shape_tuple(array.shape);
  made["typestr"] = type.cai;
  made["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(array.memory->buffer.data()) + array.offset, false);
  made["strides"] = nb::none();
  made["stream"] = nb::none();  // its tasks have been waited for
  return made;
}

// ---- The buffer protocol, out

// What a view of it points to.
struct ViewOfArray {
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
  std::shared_ptr<HeldMemory> memory;
};

// As the struct module calls an element; of bfloat16, which it does not know, that of its bits.
const char* format_of(ElementType type) {
  switch (type) {
    case ElementType::f16: return "e";
    case ElementType::f32: return "f";
    case ElementType::f64: return "d";
    case ElementType::i8: return "b";
    case ElementType::i16: return "h";
    case ElementType::i32: return "i";
    case ElementType::i64: return "q";
    case ElementType::u8: return "B";
    case ElementType::bf16:
    case ElementType::u16: return "H";
    case ElementType::u32: return "I";
    case ElementType::u64: return "Q";
    case ElementType::boolean: return "?";
    case ElementType::complex64: return "Zf";
    case ElementType::complex128: return "Zd";
  }
  return "B";
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    const auto& array = nb::cast<const Array&>(nb::handle(self));
    if (!on_host(array)) {
      PyErr_Format(PyExc_BufferError, "the buffer lies on %s: read() copies it to the host", array.memory->runtime->device().c_str());
      return -1;
    }
    array.wait();
    auto held = std::make_unique<ViewOfArray>();
    held->memory = array.memory;
    held->shape.assign(array.shape.begin(), array.shape.end());
    held->strides.resize(held->shape.size());
    auto stride = static_cast<Py_ssize_t>(bytes_of(array.type));
    for (std::size_t i = held->shape.size(); i-- > 0;) {
      held->strides[i] = stride;
      stride *= held->shape[i];
    }
    view->buf = array.host();
    view->len = static_cast<Py_ssize_t>(array.bytes());
    view->itemsize = static_cast<Py_ssize_t>(bytes_of(array.type));
    view->readonly = 0;
    view->ndim = static_cast<int>(held->shape.size());
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format_of(array.type)) : nullptr;
    view->shape = (flags & PyBUF_ND) != 0 ? held->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? held->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = held.release();
    Py_INCREF(self);
    view->obj = self;
    return 0;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<ViewOfArray*>(view->internal); }

PyType_Slot buffer_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)}, {0, nullptr}};

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
  if (count_of(made.shape) != whole.count)
    throw Error(errc::invalid_argument, "shape " + shape_text(made.shape) + " is none of " + std::to_string(whole.count) + " elements",
                {"argument", "shape"});
  return made;
}

}  // namespace

void bind_buffer(nb::module_& m) {
  nb::enum_<ElementType> types(m, "ElementType", "The types that elements of buffers have.");
  for (const ElementType type : kElementTypes)
    types.value(type == ElementType::boolean ? "boolean" : std::string(name_of(type)).c_str(), type);

  nb::class_<Array>(m, "Buffer", nb::type_slots(buffer_slots),
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
            nb::object made = on_host(array) && (copy.is_none() || !nb::cast<bool>(copy)) ? to_numpy(self) : numpy_copy(array);
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
