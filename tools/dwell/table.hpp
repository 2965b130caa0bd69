// Human-readable figures and tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace dwell::tool {

// Returns three significant digits and a unit: "417 ns", "12.3 us", "1.04 ms", "2.5 s".
std::string text_of(std::chrono::nanoseconds time);
// "1,234,567"
std::string text_of_count(std::uint64_t count);
// Returns three significant digits: "417", "12.3 k", "1.04 M".
std::string text_of_rate(double a_second);

// Returns "417 B", or three significant digits: "12.3 KiB", "1.04 GiB".
std::string text_of_bytes(std::uint64_t bytes);

// Rows of text in columns; the first row is the heading. Columns of figures are aligned right.
class Table {
 public:
  // `figures`: for each column, whether it contains figures.
  Table(std::vector<std::string> heading, std::vector<bool> figures);

  // Adds a row with as many cells as the heading.
  void add(std::vector<std::string> row);
  void print(std::ostream& to) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> figures_;
};

}  // namespace dwell::tool
