// Writes JSON, piece by piece, into a string.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.hpp"

namespace dwell {

// The caller keeps to the grammar: inside an object every value follows its key, and what was begun is ended. Commas come by themselves.
// Bytes that are no UTF-8 become U+FFFD, and characters that a terminal may act on are escaped.
class JsonText {
 public:
  void begin_object() { open('{'); }
  void end_object() { text_ += '}'; }
  void begin_array() { open('['); }
  void end_array() { text_ += ']'; }

  void key(std::string_view name) {
    value(name);
    text_ += ':';
  }
  void value(std::string_view text) {
    separate();
    text_ += '"';
    while (!text.empty()) {
      const auto plain = static_cast<std::size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
      text_ += text.substr(0, plain);
      text.remove_prefix(plain);
      if (text.empty()) break;
      const std::size_t size = character_at(text);
      append_escaped(text.substr(0, size));
      text.remove_prefix(std::max<std::size_t>(size, 1));
    }
    text_ += '"';
  }
  void value(const char* text) { value(std::string_view(text)); }
  void value(bool truth) { append(truth ? "true" : "false"); }
  void value(std::integral auto number) { append_number(number); }
  // JSON has no infinity and no NaN; they become null.
  void value(double number) {
    if (std::isfinite(number)) {
      append_number(number);
    } else {
      append("null");
    }
  }
  // A value whose text is JSON already.
  void append(std::string_view json) {
    separate();
    text_ += json;
  }

  template <typename Value>
  void field(std::string_view name, const Value& of) {
    key(name);
    value(of);
  }

  const std::string& text() const noexcept { return text_; }
  std::string take() noexcept { return std::exchange(text_, {}); }

 private:
  void open(char bracket) {
    separate();
    text_ += bracket;
  }
  // The last character tells whether something stands before the next value: strings end with a quotation mark.
  void separate() {
    if (!text_.empty() && std::string_view("{[:").find(text_.back()) == std::string_view::npos) text_ += ',';
  }
  void append_number(auto number) {
    char digits[32];
    append({digits, std::to_chars(digits, digits + sizeof digits, number).ptr});
  }
  static bool is_plain(char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; }
  // `character` is empty for a byte that is part of none.
  void append_escaped(std::string_view character) {
    if (character == "\"" || character == "\\") {
      text_ += '\\';
      text_ += character;
    } else if (character.empty()) {
      text_ += "\\ufffd";
    } else if (is_control(character)) {
      append_code(code_of(character));
    } else {
      text_ += character;
    }
  }
  // Of a character of at most three bytes.
  static unsigned code_of(std::string_view character) {
    unsigned code = static_cast<unsigned char>(character[0]) & (character.size() == 1 ? 0x7FU : character.size() == 2 ? 0x1FU : 0xFU);
    for (const char c : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
    return code;
  }
  void append_code(unsigned code) {
    constexpr std::string_view kHex = "0123456789abcdef";
    text_ += "\\u";
    for (const unsigned shift : {12U, 8U, 4U, 0U}) text_ += kHex[code >> shift & 15U];
  }

  std::string text_;
};

}  // namespace dwell
