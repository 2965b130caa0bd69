// dwell.Heap, dwell.Ref.
#pragma once

#include <cstdint>
#include <memory>

#include <dwell/heap.hpp>

#include "state.hpp"

namespace dwell::python {

// dwell.Heap: the heap of a runtime.
struct PyHeap {
  State runtime;
  std::uint32_t epoch = fork_epoch();
};

// dwell.Ref: a reference to memory of a heap, as Ref<T> in operators.
struct PyRef {
  std::uint32_t unit = 0;
  dwell::Handle<std::uint8_t> held;  // of an object that it keeps
};

void bind_heap(nb::module_& module);

}  // namespace dwell::python
