#include "costs_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <ostream>
#include <string>

namespace dwell::tool {

namespace {

// Five digits at most, as 0.0613 or 16384.
std::string figure_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.5g", value);
  return text;
}

}  // namespace

void print_text(std::ostream& out, const DeviceCosts& costs) {
  out << "costs of " << costs.device << ' '
      << (!costs.measured ? "defaults"
          : costs.kept    ? "measured"
                          : "measured, not kept")
      << ": figures by which programs are planned for " << costs.name << '\n';
  std::size_t name = 0;
  for (const CostFigure& figure : costs.figures) name = std::max(name, figure.name.size());
  for (const CostFigure& figure : costs.figures) {
    std::string value = figure_text(figure.value);
    if (costs.measured) value += " (default " + figure_text(figure.usual) + ")";
    constexpr std::size_t kWidth = 26;
    out << "  " << figure.name << std::string(name - figure.name.size() + 2, ' ') << value
        << std::string(kWidth - std::min(kWidth - 1, value.size()), ' ') << figure.what << '\n';
  }
}

nlohmann::ordered_json json_of(const DeviceCosts& costs) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const CostFigure& figure : costs.figures)
    figures[figure.name] = {{"value", figure.value}, {"default", figure.usual}, {"what", figure.what}};
  return {{"device", costs.device}, {"name", costs.name}, {"measured", costs.measured}, {"kept", costs.kept}, {"figures", figures}};
}

}  // namespace dwell::tool
