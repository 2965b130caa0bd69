#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <dwell/orchestrator.hpp>

namespace dwell {

namespace {

// Three digits and a unit: "1.25 us", "312 MiB".
std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  const auto* unit = units.begin();
  for (; value >= step && unit + 1 != units.end(); ++unit) value /= step;
  std::array<char, 32> text{};
  const int digits = unit == units.begin() || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, *unit);
  return text.data();
}
std::string text_of(std::chrono::nanoseconds time) { return scaled(static_cast<double>(time.count()), 1000, {"ns", "us", "ms", "s"}); }
std::string text_of_bytes(std::uint64_t bytes) { return scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB"}); }

std::vector<std::string> line_of(const JobStatistics& of) {
  return {of.type,
          std::to_string(of.submitted),
          std::to_string(of.waiting),
          std::to_string(of.admitted),
          std::to_string(of.done),
          std::to_string(of.failed),
          std::to_string(of.cancelled),
          std::to_string(of.refused),
          std::to_string(of.workers) + " / " + std::to_string(of.most_workers),
          text_of_bytes(of.memory) + " / " + text_of_bytes(of.most_memory),
          text_of(of.waited.p50) + " / " + text_of(of.waited.p99),
          text_of(of.ran.p50) + " / " + text_of(of.ran.p99)};
}

}  // namespace

std::string OrchestratorStatistics::table() const {
  std::vector<std::vector<std::string>> lines{{"type", "submitted", "waiting", "admitted", "done", "failed", "cancelled", "refused",
                                               "workers, most", "memory, most", "waited p50, p99", "ran p50, p99"}};
  for (const JobStatistics& type : types) lines.push_back(line_of(type));
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string blank(widths[i] - line[i].size(), ' ');
      text += i == 0 ? line[i] + blank : "  " + blank + line[i];
    }
    text += '\n';
  }
  const std::string limits = " of " + std::to_string(worker_limit) + " workers, " + text_of_bytes(memory) +
                             (memory_limit == 0 ? "" : " of " + text_of_bytes(memory_limit)) + " of memory in use\n";
  return text + std::to_string(workers) + limits;
}

}  // namespace dwell
