// Text of unknown origin, for those who read UTF-8 alone and for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dwell {

// The bytes of the well-formed character of UTF-8 at the beginning of `text`; 0 where none stands. No surrogate and no overlong form is
// one.
std::size_t character_at(std::string_view text) noexcept;

// Whether a terminal may act on this character instead of showing it: U+0000 to U+001F, U+007F to U+009F, and those that turn the direction
// of the text around them (U+202A to U+202E, U+2066 to U+2069).
bool is_control(std::string_view character) noexcept;

// Each byte that is part of no character becomes U+FFFD.
std::string valid_utf8(std::string_view text);

// For a terminal, or a line of a file: each such byte, and each control character but those in `kept`, becomes a question mark.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace dwell
