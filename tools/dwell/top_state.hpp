// The state of dwell top: the figures of a process, and the user's settings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

namespace dwell::tool {

// A column of the table of operators.
enum class Column : std::uint8_t { tasks, failures, p50, p99, mean, share, version, name };
inline constexpr std::size_t kColumns = 8;

// One version of an operator, in the interval between the last two snapshots. Times are set if tasks were timed.
struct OperatorRow {
  std::string name;
  std::uint32_t version = 0;
  double tasks_per_s = 0;
  std::uint64_t tasks = 0;     // since the start
  std::uint64_t failures = 0;  // since the start
  std::optional<double> p50_ns;
  std::optional<double> p99_ns;
  std::optional<double> mean_ns;
  std::optional<double> share;  // of the time of all workers, 0 to 1
};

struct TopState {
  static constexpr std::size_t kLogLines = 100;

  // The process.
  pid_t pid = 0;
  std::chrono::nanoseconds uptime{0};
  std::vector<std::uint64_t> runtimes;
  std::uint64_t runtime = 0;  // the one shown
  std::string notice;         // why figures are outdated; empty if they are not

  // Its figures.
  std::optional<Metrics> now;
  std::optional<Metrics> interval;  // difference() of the last two snapshots
  double seconds = 0;               // of the interval
  std::deque<LogRecord> log;        // the last lines

  // The user's settings.
  Column sort = Column::tasks;
  bool paused = false;
  bool help = false;
  std::size_t scroll = 0;  // rows of the table above the first shown
  bool blocks = false;     // the terminal has Unicode's block characters

  // Takes a snapshot of `runtime`. The first of a runtime or a generation gives no interval.
  void take(Metrics snapshot);
  void take(std::vector<LogRecord> lines);
  // Switches to another runtime, without figures so far.
  void show(std::uint64_t another);

  double per_second(std::uint64_t count) const { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
  // Returns the rate of all operators; of the ring while nothing is counted.
  double tasks_per_second() const;
  // Returns the sorted table; empty without a snapshot.
  std::vector<OperatorRow> operators() const;
  // Returns each worker's busy share of the interval; without times, its tasks relative to the busiest worker's. Empty without an interval,
  // or if nothing is counted.
  std::vector<double> workers() const;
};

// "off", "counts", "times".
std::string_view text_of(Metering metering);

// Handles a key. False if it quits.
bool press(TopState& state, int key);

}  // namespace dwell::tool
