// Writes JSON, piece by piece, into a string.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dwell {

// The caller keeps to the grammar: inside an object every value follows its key, and what was begun is ended. Commas come by themselves.
// Text is taken for UTF-8.
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
    for (const char c : text) append_escaped(c);
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
  void append_escaped(char c) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20) {
      text_ += "\\u00";
      text_ += kHex[byte >> 4];
      text_ += kHex[byte & 15U];
    } else {
      text_ += c;
    }
  }

  std::string text_;
};

}  // namespace dwell
