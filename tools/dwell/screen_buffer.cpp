#include "screen_buffer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/utf8.hpp"

namespace dwell::tool {

namespace {

constexpr std::size_t kLongestCharacter = 4;

// Returns the number of bytes at the end of `text` that may begin an incomplete character.
std::size_t begun_at_end(std::string_view text) {
  for (std::size_t size = 1; size < std::min(kLongestCharacter, text.size() + 1); ++size) {
    const auto byte = static_cast<unsigned char>(text[text.size() - size]);
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) return character_at(text.substr(text.size() - size)) == 0 ? size : 0;
  }
  return 0;
}

}  // namespace

ScreenBuffer::~ScreenBuffer() { static_cast<void>(pass(printable(begun_))); }

ScreenBuffer::int_type ScreenBuffer::overflow(int_type next) {
  if (traits_type::eq_int_type(next, traits_type::eof())) return traits_type::not_eof(next);
  const char c = traits_type::to_char_type(next);
  return xsputn(&c, 1) == 1 ? next : traits_type::eof();
}

std::streamsize ScreenBuffer::xsputn(const char* from, std::streamsize count) {
  std::string text = std::exchange(begun_, {}).append(from, static_cast<std::size_t>(count));
  begun_ = text.substr(text.size() - begun_at_end(text));
  text.resize(text.size() - begun_.size());
  return pass(printable(text, "\n\t")) ? count : 0;
}

bool ScreenBuffer::pass(std::string_view text) {
  const auto size = static_cast<std::streamsize>(text.size());
  return to_.sputn(text.data(), size) == size;
}

}  // namespace dwell::tool
