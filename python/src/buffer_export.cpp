#include "buffer_export.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>
#include <vector>

#include "dlpack.hpp"
#include "shape.hpp"

namespace dwell::python {

// ---- DLPack ----------------------------------------------------------------------------------------------------------------------

namespace {

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
  made->managed.tensor = {reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(array.memory->buffer.data()) + array.offset),
                          dlpack_device(array),
                          static_cast<std::int32_t>(made->shape.size()),
                          dlpack::data_type_of(array.type),
                          made->shape.data(),
                          made->strides.data(),
                          0};
  made->managed.context = made.get();
  made->managed.deleter = [](auto* dropped) { delete static_cast<Export<Any>*>(dlpack::ours(dropped)->context); };
  if constexpr (std::is_same_v<Any, dlpack::ManagedVersioned>) {
    made->managed.version = dlpack::kVersion;
    made->managed.flags = flags;
  }
  // A consumer renames the capsule, and calls the deleter itself.
  const auto drop = [](PyObject* capsule) {
    const char* const wanted = std::is_same_v<Any, dlpack::Managed> ? dlpack::kName : dlpack::kVersionedName;
    if (PyCapsule_IsValid(capsule, wanted) == 0) return;
    dlpack::call_deleter(static_cast<Any*>(PyCapsule_GetPointer(capsule, wanted)));
  };
  PyObject* const capsule = PyCapsule_New(&made->managed, name, drop);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(made.release());
  return nb::steal(capsule);
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

// ---- __cuda_array_interface__ ----------------------------------------------------------------------------------------------------

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

// ---- The buffer protocol ---------------------------------------------------------------------------------------------------------

namespace {

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
    if (!array.on_host()) {
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

}  // namespace

PyType_Slot* buffer_slots() {
  static PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)}, {0, nullptr}};
  return slots;
}

}  // namespace dwell::python
