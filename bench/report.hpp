// A benchmark's figures: as a table for people, and as JSON for plots.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/samples.hpp"

namespace dwell::bench {

// One line of the table. Lines with the same `what` did the same work in the same run; they are compared with the first of ours.
struct Row {
  std::string what;
  std::string by;    // ours or a peer
  bool ours = true;  // dwell, or a peer
  std::string unit;  // "ns", or any text, printed as it is
  Spread spread;     // lower is better
  std::optional<double> gigabytes_per_second = std::nullopt;
};

// A figure with a goal. `reached` is compared with the goal and with `at_least`, the acceptable value; without `at_least` only with the
// goal.
struct Goal {
  std::string what;
  std::string unit;
  double reached = 0;
  double goal = 0;
  std::optional<double> at_least = std::nullopt;
  bool more_is_better = false;

  bool is_reached() const { return fits(goal); }
  // Returns whether the figure is acceptable.
  bool passes() const { return fits(at_least.value_or(goal)); }

 private:
  bool fits(double bound) const { return more_is_better ? reached >= bound : reached <= bound; }
};

// "2.52 us", "17.3 W"
std::string text_of(double value, const std::string& unit);
// "1,234,567"
std::string text_of_count(std::size_t count);

class Report {
 public:
  Report(std::string name, std::string title) : name_(std::move(name)), title_(std::move(title)) {}

  // Adds a row after those of the same work.
  void add(Row row);
  void add(Goal goal) { goals_.push_back(std::move(goal)); }
  // Adds a checked effect, in words, and whether it was right.
  void check(const std::string& what, bool right) { checks_.push_back({what, right}); }
  // As check, for a count that must be 0: "lost tasks".
  void check_none(const std::string& what, std::size_t count) { check(text_of_count(count) + " " + what, count == 0); }
  // Adds a note for readers of the figures.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  // Records that the benchmark could not continue.
  void fail(std::string error) { error_ = std::move(error); }
  void took(double seconds) { seconds_ = seconds; }

  // Returns whether the benchmark ran to its end, and every effect was right.
  bool right() const;
  // Returns the figure to quote: "2.52 us p50 (goal 2.5 us: within at least 3 us)".
  std::string key_figure() const;

  void print(std::ostream& to) const;
  nlohmann::ordered_json json() const;

 private:
  struct Check {
    std::string what;
    bool right;
  };

  // Returns a row's time as a multiple of ours; nothing for our own.
  std::optional<double> ratio_of(const Row& row) const;

  std::string name_;
  std::string title_;
  std::vector<Row> rows_;
  std::vector<Goal> goals_;
  std::vector<Check> checks_;
  std::vector<std::string> notes_;
  std::string error_;
  double seconds_ = 0;
};

}  // namespace dwell::bench
