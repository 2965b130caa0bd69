// Values of the device in words.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <dwell/inspect.hpp>
#include <dwell/signature.hpp>

namespace dwell::live {

// A number, or "[1, 2, 3]" with the first 64 elements of an array. A plain struct as its bytes, in hexadecimal.
std::string text_of_value(const InspectedValue& value);
// Arguments as they travel in the slots of a task: "(2.5, 0x7f00[1024])". As many as there are words for. Empty when they travel in a
// block.
std::string text_of_arguments(const Signature& signature, std::span<const std::uint32_t> words);

}  // namespace dwell::live
