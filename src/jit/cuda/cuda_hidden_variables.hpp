// Makes loading an image faster.
#pragma once

#include <cstddef>
#include <span>

namespace dwell::jit {

// Clears the variable mark of every symbol of a linked cubin that no relocation uses, except those of DWELL_INSPECT. With
// --device-as-default-execution-space every constant of a header is a variable of the image, and the driver sets up each at loading: 0.45
// ms for the loop alone and 1 ms with 32 operators on an H200, 0.11 ms and 0.3 ms without. The variables' bytes and uses do not change.
// Leaves bytes that are no ELF file unchanged.
void hide_variables(std::span<std::byte> cubin);

}  // namespace dwell::jit
