// Phases 1 to 3 of translation (C++20, 5.2), as far as they decide where a directive, a comment or a literal begins and ends.
#include "jit/source/include_lexer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace dwell::jit {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A table, because most of the time goes into asking: a header of the system leads to megabytes.
constexpr auto kWord = [] {
  std::array<bool, 256> table{};
  for (std::size_t c = 0; c < table.size(); ++c)
    table[c] = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c >= 0x80;
  return table;
}();
bool is_word(char c) { return kWord[static_cast<unsigned char>(c)]; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }

// A text in which lines that end in a backslash go on.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { splice(); }

  Inclusions read() {
    bool line_start = true;  // nothing but blanks and comments since the line began
    while (!at_end()) {
      const char c = peek();
      if (c == '\n') {
        advance();
        line_start = true;
      } else if (is_blank(c)) {
        advance();
      } else if (starts("/*") || starts("//")) {
        skip_comment();
      } else if (line_start && (c == '#' || starts("%:"))) {
        advance(c == '#' ? 1 : 2);
        directive();
        line_start = false;
      } else {
        skip_token();
        line_start = false;
      }
    }
    return std::move(found_);
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  // Only asked for pairs of punctuation, which nobody splits by a spliced line.
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  void advance(std::size_t count = 1) {
    at_ = std::min(at_ + count, text_.size());
    if (peek() == '\\') splice();
  }
  // Steps over backslashes that end a line.
  void splice() {
    while (at_ + 1 < text_.size() && text_[at_] == '\\') {
      const std::size_t end = text_[at_ + 1] == '\r' ? at_ + 2 : at_ + 1;
      if (end >= text_.size() || text_[end] != '\n') return;
      at_ = end + 1;
    }
  }

  void skip_comment() {
    if (starts("//")) {
      while (!at_end() && peek() != '\n') advance();
      return;
    }
    const std::size_t end = text_.find("*/", at_ + 2);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
    splice();
  }
  void skip_blanks() {
    while (is_blank(peek()) || starts("/*")) {
      if (peek() == '/')
        skip_comment();
      else
        advance();
    }
  }
  // Valid until the next call.
  std::string_view word() {
    const std::size_t start = at_;
    while (is_word(peek())) ++at_;
    const std::string_view whole = text_.substr(start, at_ - start);
    if (peek() != '\\') return whole;
    spliced_word_ = whole;
    for (splice(); is_word(peek()); advance()) spliced_word_ += peek();
    return spliced_word_;
  }

  // A token that is no directive: what matters is where literals and comments begin and end.
  void skip_token() {
    const char c = peek();
    if (c == '"' || c == '\'') {
      skip_literal();
    } else if (is_digit(c)) {
      // A number may hold apostrophes: 1'000.
      while (is_word(peek()) || peek() == '.' || (peek() == '\'' && at_ + 1 < text_.size() && is_word(text_[at_ + 1]))) advance();
    } else if (is_word(c)) {
      const std::string_view name = word();
      if (peek() == '"' && (name == "R" || name == "LR" || name == "uR" || name == "UR" || name == "u8R"))
        skip_raw_string();
      else if (name.starts_with("__has_include") || name == "__has_embed")
        has_include();
    } else {
      advance();
    }
  }
  // A literal ends with its line, if nothing ends it before: text that a conditional leaves out may hold an apostrophe.
  void skip_literal() {
    const char quote = peek();
    const std::size_t start = at_;
    advance();
    while (!at_end() && peek() != quote && peek() != '\n') advance(peek() == '\\' ? 2 : 1);
    if (text_.substr(start, at_ - start).find(".incbin") != std::string_view::npos) found_.can_be_told = false;
    if (peek() == quote) advance();
  }
  // Lines are not spliced in a raw string.
  void skip_raw_string() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos || open - at_ > 17) return skip_literal();
    const std::string closing = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const std::size_t end = text_.find(closing, open);
    const std::size_t stop = std::min(end, text_.size());
    if (text_.substr(at_, stop - at_).find(".incbin") != std::string_view::npos) found_.can_be_told = false;
    at_ = end == std::string_view::npos ? text_.size() : end + closing.size();
    splice();
  }

  void directive() {
    skip_blanks();
    const std::string_view name = word();
    if (name == "include" || name == "import" || name == "embed") {
      include(false);
    } else if (name == "include_next") {
      include(true);
    }
    // The rest of the line is read as tokens: an #if may ask for a file, and a comment may begin.
  }
  void include(bool next) {
    skip_blanks();
    if (!take_name(next)) found_.can_be_told = false;
  }
  void has_include() {
    skip_blanks();
    if (peek() != '(') return;  // #ifdef __has_include
    advance();
    skip_blanks();
    if (!take_name(false)) found_.can_be_told = false;
  }
  // Takes <name> or "name"; false, and nothing taken, when there is none.
  bool take_name(bool next) {
    const char open = peek();
    if (open != '<' && open != '"') return false;
    const char close = open == '<' ? '>' : '"';
    const std::size_t start = at_;
    advance();
    std::string name;
    while (!at_end() && peek() != close && peek() != '\n') {
      name += peek();
      advance();
    }
    if (peek() != close || name.empty()) {
      at_ = start;
      return false;
    }
    advance();
    found_.list.push_back({std::move(name), open == '"', next});
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string spliced_word_;
  Inclusions found_;
};

}  // namespace

Inclusions inclusions_of(std::string_view text) { return Lexer(text).read(); }

}  // namespace dwell::jit
