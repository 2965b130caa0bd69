// Phases 1 to 3 of translation (C++20, 5.2), as far as they decide where a directive, a comment or a literal begins and ends.
#include "jit/source/include_lexer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>

namespace dwell::jit {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A table, because these checks take most of the time: a system header leads to megabytes.
constexpr auto kWord = [] {
  std::array<bool, 256> table{};
  for (std::size_t c = 0; c < table.size(); ++c)
    table[c] = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c >= 0x80;
  return table;
}();
bool is_word(char c) { return kWord[static_cast<unsigned char>(c)]; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }
// Compilers end a line at LF, CR LF or CR. CR LF counts as two line ends here, which makes no difference.
bool is_line_end(char c) { return c == '\n' || c == '\r'; }

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Reads a text; splices lines that end in a backslash.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { splice(); }

  Inclusions read() {
    bool line_start = true;  // nothing but blanks and comments since the line began
    while (!at_end()) {
      const char c = peek();
      if (is_line_end(c)) {
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
  // Called only for pairs of punctuation; assumes that no spliced line splits one.
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  void advance(std::size_t count = 1) {
    at_ = std::min(at_ + count, text_.size());
    if (peek() == '\\') splice();
  }
  // Steps over backslashes that end a line.
  void splice() {
    while (at_ + 1 < text_.size() && text_[at_] == '\\' && is_line_end(text_[at_ + 1]))
      at_ += text_.substr(at_ + 1).starts_with("\r\n") ? 3 : 2;
  }

  void skip_comment() {
    if (starts("//")) {
      while (!at_end() && !is_line_end(peek())) advance();
      return;
    }
    const std::size_t end = text_.find("*/", at_ + 2);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
    splice();
  }
  void skip_blanks() {
    while (is_blank(peek()) || starts("/*")) skip_blank();
  }
  // As skip_blanks, across lines.
  void skip_space() {
    while (is_blank(peek()) || is_line_end(peek()) || starts("/*") || starts("//")) skip_blank();
  }
  void skip_blank() {
    if (peek() == '/')
      skip_comment();
    else
      advance();
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

  // Skips a token outside of directives: only the bounds of literals and comments matter.
  void skip_token() {
    const char c = peek();
    if (c == '"') {
      strings({});
    } else if (c == '\'') {
      literal();
    } else if (is_digit(c)) {
      // A number may contain apostrophes: 1'000.
      while (is_word(peek()) || peek() == '.' || (peek() == '\'' && at_ + 1 < text_.size() && is_word(text_[at_ + 1]))) advance();
    } else if (is_word(c)) {
      const std::string_view name = word();
      if (peek() == '"' && is_prefix(name))
        strings(name);
      else if (name.starts_with("__has_include") || name == "__has_embed")
        has_include();
      else if (is_one_of(name, {"asm", "__asm", "__asm__"}))
        assembly();
    } else {
      advance();
    }
  }
  static bool is_prefix(std::string_view name) { return is_one_of(name, {"R", "LR", "uR", "UR", "u8R", "L", "u", "U", "u8"}); }

  // Skips a character or string literal. Returns its text as written, without quotes. Ends at the line's end at the latest: text that a
  // conditional leaves out may contain an apostrophe.
  std::string_view literal() {
    const char quote = peek();
    advance();
    const std::size_t start = at_;
    while (!at_end() && peek() != quote && !is_line_end(peek())) advance(peek() == '\\' ? 2 : 1);
    const std::string_view content = text_.substr(start, at_ - start);
    if (peek() == quote) advance();
    return content;
  }
  // As literal, for a raw string: lines are not spliced in it.
  std::string_view raw_literal() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos || open - at_ > 17) return literal();
    const std::string closing = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const std::size_t end = std::min(text_.find(closing, open), text_.size());
    at_ = std::min(end + closing.size(), text_.size());
    splice();
    return text_.substr(open + 1, end - open - 1);
  }

  // Adjacent string literals, which form one.
  struct Strings {
    std::string text;       // in lower case, since the assembler ignores case; escape sequences as written
    bool are_plain = true;  // no escape sequences except those common in assembly
    void add(std::string_view one, bool raw) {
      for (std::size_t i = 0; i < one.size(); ++i) {
        if (one[i] == '\\' && !raw) {
          const std::string_view rest = one.substr(i + 1);
          if (!rest.empty() && is_line_end(rest[0])) {  // a spliced line
            i += rest.starts_with("\r\n") ? 2 : 1;
            continue;
          }
          if (rest.empty() || std::string_view("nt\\\"'").find(rest[0]) == std::string_view::npos) are_plain = false;
        }
        text += one[i] >= 'A' && one[i] <= 'Z' ? static_cast<char>(one[i] - 'A' + 'a') : one[i];
      }
    }
    bool has(std::string_view what) const { return text.find(what) != std::string::npos; }
  };
  // Skips the string at this place and adjacent ones; `prefix` is already read.
  Strings strings(std::string_view prefix) {
    Strings all;
    std::size_t end = at_;
    for (std::optional<std::string_view> next = prefix; next; next = take_prefix()) {
      const bool raw = next->ends_with('R');
      all.add(raw ? raw_literal() : literal(), raw);
      end = at_;
      skip_space();
    }
    at_ = end;
    // Checked in every string: a macro may hide the word asm.
    if (all.has(".incbin") || all.has(".include")) found_.by_assembler = true;
    return all;
  }
  // Reads the prefix of a string, which may be empty; nothing if no string follows.
  std::optional<std::string_view> take_prefix() {
    const std::string_view prefix = word();
    return peek() == '"' && (prefix.empty() || is_prefix(prefix)) ? std::optional(prefix) : std::nullopt;
  }
  // Checks the text after the word asm: volatile ("text" "text" : ...). The text must be plain. It may contain any directive if it uses
  // macros or escape sequences, defines an assembler macro, or prints an operand into a directive.
  void assembly() {
    const std::size_t start = at_;
    if (!is_plain_assembly()) found_.by_assembler = true;
    at_ = start;
  }
  bool is_plain_assembly() {
    std::size_t before = at_;
    do {
      skip_space();
      before = at_;
    } while (is_one_of(word(), {"volatile", "__volatile", "__volatile__", "goto", "inline", "__inline", "__inline__"}));
    at_ = before;
    if (peek() != '(') return false;
    advance();
    skip_space();
    const auto prefix = take_prefix();
    if (!prefix) return false;
    const Strings all = strings(*prefix);
    skip_space();
    return all.are_plain && (peek() == ':' || peek() == ')') && !all.has(".inc") && !all.has(".macro") && !all.has(".irp") &&
           !all.has(".%");
  }

  void directive() {
    skip_blanks();
    const std::string_view name = word();
    if (name == "include" || name == "import" || name == "embed") {
      include(false);
    } else if (name == "include_next") {
      include(true);
    }
    // The caller reads the rest of the line as tokens: #if may contain __has_include, and a comment may begin.
  }
  void include(bool next) {
    skip_blanks();
    if (!take_name(next)) found_.by_macro = true;
  }
  void has_include() {
    skip_blanks();
    if (peek() != '(') return;  // #ifdef __has_include
    advance();
    skip_blanks();
    if (!take_name(false)) found_.by_macro = true;
  }
  // Reads <name> or "name"; false, with nothing read, if there is none.
  bool take_name(bool next) {
    const char open = peek();
    if (open != '<' && open != '"') return false;
    const char close = open == '<' ? '>' : '"';
    const std::size_t start = at_;
    advance();
    std::string name;
    while (!at_end() && peek() != close && !is_line_end(peek())) {
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
