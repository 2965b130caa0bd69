#include "base/utf8.hpp"

#include <algorithm>

namespace dwell {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Copies `text`. `replaced(character, size)` returns what stands in place of a character (size > 0) or of a byte that is part of none
// (size 0).
template <class Replaced>
std::string copied(std::string_view text, Replaced replaced) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = character_at(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    result += replaced(character, size);
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace

// Table 3-7 of the Unicode standard.
std::size_t character_at(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < size; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  return size;
}

bool is_control(std::string_view character) noexcept {
  if (character.empty()) return false;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE) || (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

std::string valid_utf8(std::string_view text) {
  return copied(text, [](std::string_view character, std::size_t size) { return size == 0 ? kReplacement : character; });
}

std::string printable(std::string_view text, std::string_view kept) {
  return copied(text, [&](std::string_view character, std::size_t size) {
    const bool shown = size != 0 && (!is_control(character) || kept.find(character) != std::string_view::npos);
    return shown ? character : std::string_view("?");
  });
}

}  // namespace dwell
