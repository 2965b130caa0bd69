#include "table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <utility>

namespace dwell::tool {

namespace {

struct Unit {
  double size;
  const char* name;
};

std::string three_digits(double value) {
  std::array<char, 32> text{};
  // Decide by the rounded value, so that 9.996 becomes 10.0, not 10.00.
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

// Returns the largest unit in which the rounded value is at least 1.
template <std::size_t N>
std::string in_units(double value, const std::array<Unit, N>& units) {
  std::size_t at = 0;
  while (at + 1 < N && value / units[at].size >= 999.5) ++at;
  return three_digits(value / units[at].size) + units[at].name;
}

}  // namespace

std::string text_of(std::chrono::nanoseconds time) {
  if (time < std::chrono::microseconds(1)) return std::to_string(time.count()) + " ns";
  return in_units(static_cast<double>(time.count()), std::array<Unit, 3>{{{1e3, " us"}, {1e6, " ms"}, {1e9, " s"}}});
}

std::string text_of_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string text_of_rate(double a_second) {
  return in_units(a_second, std::array<Unit, 4>{{{1, ""}, {1e3, " k"}, {1e6, " M"}, {1e9, " G"}}});
}

std::string text_of_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  return in_units(static_cast<double>(bytes),
                  std::array<Unit, 4>{{{0x1p10, " KiB"}, {0x1p20, " MiB"}, {0x1p30, " GiB"}, {0x1p40, " TiB"}}});
}

Table::Table(std::vector<std::string> heading, std::vector<bool> figures) : rows_{std::move(heading)}, figures_(std::move(figures)) {}

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

void Table::print(std::ostream& to) const {
  std::vector<std::size_t> widths(figures_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (figures_[i] ? blanks + row[i] : row[i] + blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    to << line << '\n';
  }
}

}  // namespace dwell::tool
