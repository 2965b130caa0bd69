// The attributes in the sections .nv.info (of a whole cubin) and .nv.info.FUNCTION. The format is undocumented; names and numbers are those
// that cuobjdump -elf prints. The values agree with cuFuncGetAttribute on an H200, and hold for images of NVRTC 12.4 and 13.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace dwell::jit::nv_info {

inline constexpr std::uint16_t kMachine = 190;     // EM_CUDA, in the head of the file
inline constexpr std::uint8_t kEntryPoint = 0x10;  // bit of a symbol's `other`: a kernel

enum class Number : std::uint8_t {
  max_threads = 0x05,      // three words
  frame_size = 0x11,       // {symbol, bytes}
  min_stack_size = 0x12,   // {symbol, bytes}
  parameter = 0x17,        // a word, ordinal and offset of 16 bits, the size in the upper 14 bits of a word
  register_count = 0x2f,   // {symbol, count}
  large_parameter = 0x45,  // as `parameter`, with a size of 16 bits; where some parameter needs more than 14
  barriers = 0x4c,         // in `small`
};

struct Attribute {
  Number number{};
  std::uint16_t small = 0;           // the value, where none follows
  std::span<const std::byte> value;  // the bytes behind the head
};

// A T at `offset`, which need not be aligned; 0 where it would pass the end.
template <class T>
T value_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value{};
  if (offset <= bytes.size() && sizeof(T) <= bytes.size() - offset) std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// Calls `each` with every attribute. False where the section ends within one. The bytes are not trusted.
template <class Each>
bool for_each(std::span<const std::byte> section, Each&& each) {
  constexpr std::uint8_t sized = 4;  // the format in which the 16 bits of the head are the length of what follows
  while (!section.empty()) {
    if (section.size() < 4) return false;
    Attribute attribute{Number{value_at<std::uint8_t>(section, 1)}, value_at<std::uint16_t>(section, 2), {}};
    const std::size_t size = value_at<std::uint8_t>(section, 0) == sized ? attribute.small : 0;
    section = section.subspan(4);
    if (size > section.size()) return false;
    attribute.value = section.first(size);
    section = section.subspan(size);
    each(attribute);
  }
  return true;
}

}  // namespace dwell::jit::nv_info
