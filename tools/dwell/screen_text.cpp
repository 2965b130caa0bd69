#include "screen_text.hpp"

#include <algorithm>
#include <utility>

namespace dwell::tool {

namespace {

const char* sequence_of(Style style, bool colours) {
  if (!colours) return style == Style::strong || style == Style::bad ? "\x1b[1m" : style == Style::heading ? "\x1b[7m" : "";
  switch (style) {
    case Style::plain: return "";
    case Style::strong: return "\x1b[1m";
    case Style::faint: return "\x1b[90m";
    case Style::good: return "\x1b[32m";
    case Style::warning: return "\x1b[33m";
    case Style::bad: return "\x1b[1;31m";
    case Style::heading: return "\x1b[30;46m";
  }
  return "";
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string cut(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size() && columns != 0; --columns) end += std::max<std::size_t>(character_at(text.substr(end)), 1);
  return std::string(text.substr(0, end));
}

std::string left(std::string_view text, std::size_t columns) {
  const std::string kept = cut(text, columns);
  return kept + std::string(columns - columns_of(kept), ' ');
}

std::string right(std::string_view text, std::size_t columns) {
  const std::string kept = cut(text, columns);
  return std::string(columns - columns_of(kept), ' ') + kept;
}

Line& Line::add(std::string text, Style style) {
  pieces_.push_back({std::move(text), style});
  return *this;
}

std::size_t Line::columns() const {
  std::size_t columns = 0;
  for (const Piece& piece : pieces_) columns += columns_of(piece.text);
  return columns;
}

Line Line::fitted(std::size_t columns) const {
  Line line;
  for (const Piece& piece : pieces_) {
    line.add(cut(piece.text, columns), piece.style);
    columns -= columns_of(line.pieces_.back().text);
  }
  return line;
}

std::string Line::text() const {
  std::string text;
  for (const Piece& piece : pieces_) text += piece.text;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string Line::styled(bool colours) const {
  std::string text;
  for (const Piece& piece : pieces_) {
    const std::string sequence = sequence_of(piece.style, colours);
    text += sequence + piece.text + (sequence.empty() ? "" : "\x1b[0m");
  }
  return text;
}

}  // namespace dwell::tool
