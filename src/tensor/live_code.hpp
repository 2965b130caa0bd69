// What of a program's code has an effect that somebody sees.
#pragma once

#include <cstdint>
#include <span>

namespace dwell::tensor {

// Moves the instructions (tensor/device/program.hpp) that are of use to the front, in their order, and returns how many these are:
// the stores of elements that are not stored anew before they are read, and whatever computes what these store. `unseen` has a bit for each
// tensor whose elements nobody reads when the program has ended.
std::uint32_t keep_live_code(std::span<std::uint32_t> code, std::uint32_t unseen);

}  // namespace dwell::tensor
