// Lines of styled text for a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.hpp"

namespace dwell::tool {

// The style of a piece of text.
enum class Style : std::uint8_t { plain, strong, faint, good, warning, bad, heading };

// Returns the number of columns: one per character. Too few for wide characters; then a terminal that does not wrap shows a line's
// beginning.
std::size_t columns_of(std::string_view text);

// Cut a text to `columns`; left and right also pad it, with blanks on the other side.
std::string cut(std::string_view text, std::size_t columns);
std::string left(std::string_view text, std::size_t columns);
std::string right(std::string_view text, std::size_t columns);

class Line {
 public:
  // Adds a piece of printable text.
  Line& add(std::string text, Style style = Style::plain);

  std::size_t columns() const;
  // Returns the first `columns` of the line.
  Line fitted(std::size_t columns) const;
  // Returns the text without escape sequences, and without blanks at its end.
  std::string text() const;
  // Returns the text with VT100 sequences for styles; without colours only bold and inverse.
  std::string styled(bool colours) const;

 private:
  struct Piece {
    std::string text;
    Style style;
  };
  std::vector<Piece> pieces_;
};

}  // namespace dwell::tool
