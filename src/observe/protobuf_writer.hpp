// Writes messages of protocol buffers, field by field, into a string. https://protobuf.dev/programming-guides/encoding
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.hpp"

namespace dwell::observe {

class ProtobufWriter {
 public:
  // Of the types uint32, uint64, bool and enum; of int32 and int64 when the value is converted to 64 bits with its sign.
  void varint(std::uint32_t field, std::uint64_t value) {
    tag(field, kVarint);
    bytes_ += encoded(value);
  }
  void fixed64(std::uint32_t field, std::uint64_t value) {
    tag(field, kFixed64);
    for (unsigned shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift & 0xFFU);
  }
  void number(std::uint32_t field, double value) { fixed64(field, std::bit_cast<std::uint64_t>(value)); }
  // Of the type string, which must be UTF-8: other bytes become U+FFFD.
  void text(std::uint32_t field, std::string_view text) {
    const std::string value = valid_utf8(text);
    tag(field, kLengthDelimited);
    bytes_ += encoded(value.size());
    bytes_ += value;
  }
  // A message inside: what `fill` writes.
  template <typename Fill>
  void message(std::uint32_t field, Fill fill) {
    tag(field, kLengthDelimited);
    const std::size_t begin = bytes_.size();
    fill();
    // The length comes first and is known last. Most messages are short, and so is what moves.
    bytes_.insert(begin, encoded(bytes_.size() - begin));
  }

  const std::string& bytes() const noexcept { return bytes_; }
  void clear() noexcept { bytes_.clear(); }

 private:
  static constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kLengthDelimited = 2;

  // Seven bits a byte, the lowest first; all bytes but the last have the highest bit.
  static std::string encoded(std::uint64_t varint) {
    std::string bytes;
    for (; varint >= 0x80; varint >>= 7) bytes += static_cast<char>((varint & 0x7FU) | 0x80U);
    return bytes += static_cast<char>(varint);
  }
  void tag(std::uint32_t field, std::uint32_t wire_type) { bytes_ += encoded(std::uint64_t{field} << 3 | wire_type); }

  std::string bytes_;
};

}  // namespace dwell::observe
