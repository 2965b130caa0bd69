#include "toml_text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace dwell::tool {

namespace {

constexpr std::size_t kMostParts = 16;

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  }

  std::optional<TomlFault> run() {
    while (at_ < text_.size() && !fault_) step();
    return fault_;
  }

 private:
  void step() {
    const char here = text_[at_];
    if (here == '"' || here == '\'') return skip_string(here);
    if (here == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    if (!is_ascii(here)) return fail("a character that is not ASCII stands outside of strings and comments; put the key in quotes");
    if (here == '.' && ++parts_ > kMostParts) return fail("a key has more than " + std::to_string(kMostParts) + " parts");
    if (std::string_view("=,[]{}\n").find(here) != std::string_view::npos) parts_ = 1;
    next();
  }

  // Skips the string that begins here; an unterminated single-line string ends at the line's end, which toml++ reports.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool multi_line = text_.substr(at_).starts_with(three);
    const std::string_view end = multi_line ? std::string_view(three) : std::string_view(three).substr(2);
    at_ += end.size();
    while (at_ < text_.size() && !fault_) {
      if (text_.substr(at_).starts_with(end)) {
        at_ += end.size();
        return;
      }
      if (text_[at_] == '\n' && !multi_line) return;
      if (text_[at_] == '\\' && quote == '"') {
        skip_escape(multi_line);
      } else {
        next();
      }
    }
  }

  // Skips a backslash and one character; in a multi-line string also the white space and line ends that it removes.
  void skip_escape(bool multi_line) {
    next();
    bool space = false;
    while (multi_line && at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
      space = true;
      next();
    }
    if (at_ == text_.size()) return;
    if (!is_ascii(text_[at_])) return fail("a character that is not ASCII stands behind a backslash");
    if (!space && text_[at_] != '\n') next();
  }

  static bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
  void next() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }
  void fail(std::string what) { fault_ = TomlFault{line_, std::move(what)}; }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
  std::size_t parts_ = 1;  // of the key that may end here
  std::optional<TomlFault> fault_;
};

}  // namespace

std::optional<TomlFault> fault_in_toml(std::string_view text) { return Scanner(text).run(); }

}  // namespace dwell::tool
