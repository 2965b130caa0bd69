#include "bench/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>

namespace dwell::bench {

namespace {

std::string three_digits(double value) {
  std::array<char, 48> text{};
  const double size = std::abs(value);
  // Decided on the rounded value, so that 9.996 is 10.0 and not 10.00.
  const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

// Rows of text; the first is the heading. The first two columns are aligned left, the figures right.
void print_columns(std::ostream& to, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += (i < 2 ? row[i] + blanks : blanks + row[i]) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    to << line << '\n';
  }
}

std::string verdict_of(const Goal& goal) { return goal.is_reached() ? "reached" : goal.passes() ? "enough" : "MISSED"; }

}  // namespace

std::string text_of(double value, const std::string& unit) {
  if (unit != "ns") return three_digits(value) + (unit.empty() ? "" : " " + unit);
  struct Step {
    double size;
    const char* name;
  };
  constexpr std::array<Step, 4> kSteps{{{1, " ns"}, {1e3, " us"}, {1e6, " ms"}, {1e9, " s"}}};
  std::size_t at = 0;
  while (at + 1 < kSteps.size() && std::abs(value) / kSteps[at].size >= 999.5) ++at;
  return three_digits(value / kSteps[at].size) + kSteps[at].name;
}

std::string text_of_count(std::size_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

void Report::add(Row row) {
  const auto last = std::find_if(rows_.rbegin(), rows_.rend(), [&](const Row& other) { return other.what == row.what; });
  rows_.insert(last == rows_.rend() ? rows_.end() : last.base(), std::move(row));
}

bool Report::right() const {
  return error_.empty() && std::all_of(checks_.begin(), checks_.end(), [](const Check& check) { return check.right; });
}

std::optional<double> Report::ratio_of(const Row& row) const {
  if (row.ours) return std::nullopt;
  const auto ours = std::find_if(rows_.begin(), rows_.end(), [&](const Row& other) { return other.ours && other.what == row.what; });
  if (ours == rows_.end() || ours->spread.p50 == 0) return std::nullopt;
  return row.spread.p50 / ours->spread.p50;
}

std::string Report::key_figure() const {
  if (!error_.empty()) return "failed: " + error_;
  const std::string wrong = right() ? "" : "WRONG; ";
  if (!goals_.empty()) {
    const Goal& goal = goals_.front();
    return wrong + text_of(goal.reached, goal.unit) + ", " + goal.what + " (goal " + text_of(goal.goal, goal.unit) + ": " +
           verdict_of(goal) + ")";
  }
  if (rows_.empty()) return wrong + (notes_.empty() ? "nothing measured" : notes_.front());
  return wrong + text_of(rows_.front().spread.p50, rows_.front().unit) + ", " + rows_.front().what;
}

void Report::print(std::ostream& to) const {
  to << "\n== " << name_ << ": " << title_ << '\n';
  if (!rows_.empty()) {
    std::vector<std::vector<std::string>> table{{"", "", "p50", "p90", "p99", "p99.9", "max", "times", "against dwell", "GB/s"}};
    const bool bandwidth = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.gigabytes_per_second.has_value(); });
    const bool ratios = std::any_of(rows_.begin(), rows_.end(), [this](const Row& row) { return ratio_of(row).has_value(); });
    if (!bandwidth) table[0][9].clear();
    if (!ratios) table[0][8].clear();
    const std::string* before = nullptr;
    for (const Row& row : rows_) {
      const auto text = [&](double value) { return row.spread.count > 1 ? text_of(value, row.unit) : std::string(); };
      const std::optional<double> ratio = ratio_of(row);
      table.push_back({before != nullptr && *before == row.what ? "" : row.what, row.by, text_of(row.spread.p50, row.unit),
                       text(row.spread.p90), text(row.spread.p99), row.spread.count >= 1000 ? text(row.spread.p999) : std::string(),
                       text(row.spread.most), row.spread.count > 1 ? text_of_count(row.spread.count) : "",
                       ratio ? text_of(*ratio, "x") : "", row.gigabytes_per_second ? three_digits(*row.gigabytes_per_second) : ""});
      before = &row.what;
    }
    print_columns(to, table);
  }
  if (!goals_.empty()) {
    std::vector<std::vector<std::string>> table{{"goal", "", "measured", "goal", "at least"}};
    for (const Goal& goal : goals_) {
      table.push_back({goal.what, verdict_of(goal), text_of(goal.reached, goal.unit), text_of(goal.goal, goal.unit),
                       goal.at_least ? text_of(*goal.at_least, goal.unit) : ""});
    }
    print_columns(to, table);
  }
  for (const Check& check : checks_) to << (check.right ? "  right: " : "  WRONG: ") << check.what << '\n';
  for (const std::string& text : notes_) to << "  note: " << text << '\n';
  if (!error_.empty()) to << "  FAILED: " << error_ << '\n';
  to << "  key figure: " << key_figure() << '\n';
  to.flush();
}

nlohmann::ordered_json Report::json() const {
  using Json = nlohmann::ordered_json;
  Json out = {{"name", name_}, {"title", title_}, {"right", right()}, {"seconds", seconds_}, {"key_figure", key_figure()}};
  if (!error_.empty()) out["error"] = error_;
  out["rows"] = Json::array();
  for (const Row& row : rows_) {
    Json line = {
        {"what", row.what},        {"by", row.by},          {"peer", !row.ours},     {"unit", row.unit},      {"count", row.spread.count},
        {"min", row.spread.least}, {"p50", row.spread.p50}, {"p90", row.spread.p90}, {"p99", row.spread.p99}, {"p99.9", row.spread.p999},
        {"max", row.spread.most}};
    if (const std::optional<double> ratio = ratio_of(row)) line["ratio"] = *ratio;
    if (row.gigabytes_per_second) line["gigabytes_per_second"] = *row.gigabytes_per_second;
    out["rows"].push_back(std::move(line));
  }
  out["goals"] = Json::array();
  for (const Goal& goal : goals_) {
    out["goals"].push_back({{"what", goal.what},
                            {"unit", goal.unit},
                            {"value", goal.reached},
                            {"goal", goal.goal},
                            {"at_least", goal.at_least ? Json(*goal.at_least) : Json()},
                            {"reached", goal.is_reached()},
                            {"pass", goal.passes()}});
  }
  out["checks"] = Json::array();
  for (const Check& check : checks_) out["checks"].push_back({{"what", check.what}, {"right", check.right}});
  out["notes"] = notes_;
  return out;
}

}  // namespace dwell::bench
