// Names in C.
#pragma once

#include <algorithm>
#include <string_view>

namespace dwell::jit {

// Returns whether `text` is an identifier of ASCII letters, digits and _, in any locale.
constexpr bool is_identifier(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_part = [&](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); };
  return !text.empty() && !is_digit(text.front()) && std::all_of(text.begin(), text.end(), is_part);
}

}  // namespace dwell::jit
