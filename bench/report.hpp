// A benchmark's figures: as a table for people, as JSON for plots.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/samples.hpp"

namespace dwell::bench {

// One line of the table. Lines with the same `what` did the same work, in the same run; the first of ours among them is what the others
// are compared with.
struct Row {
  std::string what;
  std::string by;    // ours or a peer
  bool ours = true;  // dwell, or a peer
  std::string unit;  // "ns", or anything that is printed as it is
  Spread spread;     // lower is better
  std::optional<double> gigabytes_per_second = std::nullopt;
};

// A figure that was aimed at. `reached` is compared with both; no `at_least` means that only the goal was set.
struct Goal {
  std::string what;
  std::string unit;
  double reached = 0;
  double goal = 0;
  std::optional<double> at_least = std::nullopt;
  bool more_is_better = false;

  bool is_reached() const { return fits(goal); }
  // Whether it is good enough to accept.
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

  // Behind the rows of the same work.
  void add(Row row);
  void add(Goal goal) { goals_.push_back(std::move(goal)); }
  // An effect that was looked at, in words, and whether it was as it must be.
  void check(const std::string& what, bool right) { checks_.push_back({what, right}); }
  // The same for things that are counted: right when there are none. "lost tasks"
  void check_none(const std::string& what, std::size_t count) { check(text_of_count(count) + " " + what, count == 0); }
  // Something to know when reading the figures.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  // The benchmark could not go on.
  void fail(std::string error) { error_ = std::move(error); }
  void took(double seconds) { seconds_ = seconds; }

  // Whether it ran to its end, and every effect was as it must be.
  bool right() const;
  // The figure to quote: "2.52 us p50 (goal 2.5 us: within at least 3 us)".
  std::string key_figure() const;

  void print(std::ostream& to) const;
  nlohmann::ordered_json json() const;

 private:
  struct Check {
    std::string what;
    bool right;
  };

  // How many times ours a row took; nothing for our own.
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
