// Dead code elimination in programs.
#pragma once

#include <cstdint>
#include <span>

namespace dwell::tensor {

// Moves the live instructions (tensor/device/program.hpp) to the front, in order, and returns their number. Live are stores that are not
// overwritten before a read, and the instructions that compute the stored values. `unseen` has a bit for each tensor that nobody reads
// after the program.
std::uint32_t keep_live_code(std::span<std::uint32_t> code, std::uint32_t unseen);

}  // namespace dwell::tensor
