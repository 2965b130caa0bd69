// dwell.Buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreign.hpp"
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
  // Returns whether the host reaches it.
  bool on_host() const { return memory->runtime->cuda() < 0 || memory->place == dwell::Memory::host; }
  // On the host. Throws errc::unsupported when the host cannot reach it.
  void* host() const;
  std::string text() const;
};

// An array of others as memory of the runtime, without a copy. Throws errc::invalid_argument, naming `name`.
std::shared_ptr<HeldMemory> wrap(const State& runtime, const Foreign& array, const std::string& name);

// Memory of the runtime, uninitialised. Works with and without the GIL.
std::shared_ptr<HeldMemory> hold(const State& runtime, std::size_t bytes, dwell::Memory memory);
Array allocate(const State& runtime, const std::vector<std::size_t>& shape, ElementType type, dwell::Memory memory);

// A copy as an array of NumPy, after the tasks so far that name the memory.
nb::object numpy_copy(const Array& from);

void bind_buffer(nb::module_& module);

}  // namespace dwell::python
