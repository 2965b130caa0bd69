// A buffer as other libraries see it: DLPack, __cuda_array_interface__, the buffer protocol.
#pragma once

#include <cstdint>
#include <vector>

#include "buffer.hpp"

namespace dwell::python {

// As DLPack's protocol has it, of elements with strides. Waits for the tasks so far, unless `stream` is -1.
nb::object to_dlpack(const Array& array, const std::vector<std::int64_t>& strides, bool readonly, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy);
nb::tuple dlpack_device_of(const Array& array);

nb::object cuda_interface(const Array& array);

// The slots of its type for the buffer protocol.
PyType_Slot* buffer_slots();

}  // namespace dwell::python
