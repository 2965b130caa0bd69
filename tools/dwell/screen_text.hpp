// Lines of text with styles, as a terminal shows them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.hpp"

namespace dwell::tool {

// What a piece of text is, and so how it looks.
enum class Style : std::uint8_t { plain, strong, faint, good, warning, bad, heading };

// How many columns it takes: one a character, which is too few for wide ones; a terminal that does not wrap lines then shows their
// beginning.
std::size_t columns_of(std::string_view text);

// The first `columns` of it, or it and blanks: on the right, or on the left.
std::string cut(std::string_view text, std::size_t columns);
std::string left(std::string_view text, std::size_t columns);
std::string right(std::string_view text, std::size_t columns);

class Line {
 public:
  // Adds a piece of printable text.
  Line& add(std::string text, Style style = Style::plain);

  std::size_t columns() const;
  // The first `columns` of it.
  Line fitted(std::size_t columns) const;
  // Without escape sequences, and without blanks at its end.
  std::string text() const;
  // With the sequences of VT100 that select styles; without colours, those for bold and inverse text alone.
  std::string styled(bool colours) const;

 private:
  struct Piece {
    std::string text;
    Style style;
  };
  std::vector<Piece> pieces_;
};

}  // namespace dwell::tool
