// dwell.Buffer, and arrays of others: NumPy, DLPack, __cuda_array_interface__.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "state.hpp"

namespace dwell::python {

// Memory that Python objects share.
struct HeldMemory {
  State runtime;  // declared first, so that it goes last
  // What the memory belongs to, where that is not the runtime: an array of others, or on the CPU a block of this package's own. Views of
  // NumPy and of DLPack's consumers stay good when the runtime is closed.
  std::shared_ptr<void> owner;
  dwell::Buffer<std::byte> buffer;
  dwell::Memory place = dwell::Memory::device;  // as it was asked for; on the CPU it makes no difference
};

// dwell.Buffer: elements of one type in C order, all of a HeldMemory or a part of it.
struct Array {
  std::shared_ptr<HeldMemory> memory;
  std::size_t offset = 0;  // bytes
  std::size_t count = 0;   // elements
  ElementType type = ElementType::u8;
  std::vector<std::size_t> shape;
  std::uint32_t epoch = fork_epoch();

  std::size_t bytes() const { return count * bytes_of(type); }
  Slice<std::byte> slice() const { return memory->buffer.slice(offset, bytes()); }
  BufferView view() const { return {slice(), type}; }
  // Waits, without the GIL, for the tasks so far that name the memory.
  void wait() const;
  // On the host. Throws errc::unsupported when the host cannot reach it.
  void* host() const;
  std::string text() const;
};

// An array of somebody else's, looked at and kept alive.
struct Foreign {
  // cuda: on device `id`. pinned, managed: in host memory that devices reach. other: on what `place` names.
  enum class Place { host, pinned, managed, cuda, other };

  void* data = nullptr;
  std::size_t count = 0;
  std::size_t itemsize = 1;
  std::optional<ElementType> type;  // nothing: a struct, or a type that dwell does not know
  std::string type_text;            // as its owner names it
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;  // in elements; empty when they follow from the shape, or are none of whole elements
  Place place = Place::host;
  int id = 0;
  std::string place_text;
  bool readonly = false;
  bool contiguous = true;  // in C order
  bool swapped = false;    // of the other byte order
  std::shared_ptr<void> keep;
  std::string of;  // the Python type

  std::size_t bytes() const { return count * itemsize; }
  std::string text() const;  // "numpy.ndarray of float64, shape (3,), on the CPU"
};

// What an object says of itself; nothing of one that is no array. `runtime` is that on whose behalf this is asked: an array of a CUDA
// device is only taken over, and waited for, when it lies on that runtime's. Throws errc::invalid_argument, naming `name` ("argument 1 of
// operator 'axpy'"), when the object refuses.
std::optional<Foreign> look_at(nb::handle object, const RuntimeState& runtime, const std::string& name);

// Why the runtime cannot reach this array, and why it cannot work on it; empty if it can.
std::string out_of_reach(const Foreign& array, const RuntimeState& runtime);
std::string unusable(const Foreign& array, const RuntimeState& runtime);

// It as memory of the runtime, without a copy. Throws errc::invalid_argument, naming `name`.
std::shared_ptr<HeldMemory> wrap(const State& runtime, const Foreign& array, const std::string& name);

// "float32", numpy.float32, torch.float32, dwell.ElementType.f32, float: an element type. Throws errc::invalid_argument.
ElementType element_type_from(nb::handle object);
// As NumPy and PyTorch call it: "float32".
std::string numpy_name(ElementType type);

std::string shape_text(const std::vector<std::size_t>& shape);

// As messages name the type of an object: "torch.Tensor".
std::string python_name(nb::handle object);

// Memory of the runtime, uninitialised. Works with and without the GIL.
std::shared_ptr<HeldMemory> hold(const State& runtime, std::size_t bytes, dwell::Memory memory);
Array allocate(const State& runtime, const std::vector<std::size_t>& shape, ElementType type, dwell::Memory memory);

// A copy as an array of NumPy, after the tasks so far that name the memory.
nb::object numpy_copy(const Array& from);
// As DLPack's protocol has it, of elements with strides. Waits for the tasks so far, unless `stream` is -1.
nb::object to_dlpack(const Array& array, const std::vector<std::int64_t>& strides, bool readonly, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy);
nb::tuple dlpack_device_of(const Array& array);

void bind_buffer(nb::module_& module);
void bind_buffer_makers(nb::handle runtime_class);

}  // namespace dwell::python
