// Formats values of the device.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <dwell/inspect.hpp>
#include <dwell/signature.hpp>

namespace dwell::live {

// Formats a number, or the first 64 elements of an array as "[1, 2, 3]". A plain struct as hexadecimal bytes.
std::string text_of_value(const InspectedValue& value);
// Formats arguments from the slots of a task: "(2.5, 0x7f00[1024])", as many as there are words for. Empty if they are in a block.
std::string text_of_arguments(const Signature& signature, std::span<const std::uint32_t> words);

}  // namespace dwell::live
