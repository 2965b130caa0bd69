// Log lines of operators (dwell/device/log.hpp), read on the host.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <dwell/device/level.hpp>

namespace dwell {

namespace runtime {
class Core;
class LogMemory;
}  // namespace runtime

// "trace", "debug", "info", "warning", "error", "off".
std::string_view text_of(level severity) noexcept;

// One line.
struct LogRecord {
  level severity = level::info;
  std::string text;            // formatted
  std::string op;              // "add (version 2)"
  std::uint64_t position = 0;  // of the task's ticket, of a node that of its launch, if `has_position`
  bool has_position = false;   // false for tasks that operators have made, and for nodes of graphs that operators have launched
  std::uint32_t worker = 0;
  std::chrono::steady_clock::time_point at;  // the device's clock, aligned to within Trace::clock_error_ns
  std::string node;                          // a graph node's name, "#3" without one; empty when the graph no longer exists
  std::string graph;                         // the name of that graph; empty without one
};

// "12:34:56.789012 warning add (version 2) worker 3 ticket 17: text", of a node "... node 'left' of graph 'step' worker 3 ticket 17: text"
std::string to_string(const LogRecord& record);

// Destinations of log lines (Options::log). A thread of the runtime reads them from the workers' rings while the loop runs: within a
// millisecond, or ten after a pause.
struct Logging {
  // The threshold: less severe lines are not written. Runtime::set_log_level changes it.
  level from = level::info;

  // Called by the runtime's thread for each line, in the order in which they were read from the workers, sorted by time within one read.
  // While it runs, no other line is read: the rings fill, and lines that do not fit are dropped and counted. It may use the runtime, but
  // must not close or rebuild it, which wait for it. Without a sink and a file, lines go to stderr.
  std::function<void(const LogRecord&)> sink = {};

  // A file that lines are appended to, one each. When it has `file_bytes` (0: never) it becomes "<file>.1", that one "<file>.2" and so
  // on; there are `files` at most. Options::warn reports once that the file cannot be written.
  std::string file = {};
  std::uint64_t file_bytes = std::uint64_t{64} << 20U;
  unsigned files = 4;

  // The ring of each worker, in lines of four arguments (of 64 bytes; others may take two). A power of two from 16 to 65536. The last
  // eighth is for errors, the one before for warnings too.
  unsigned ring_lines = 256;

  // Lines per second and site (a format of an operator's version); further ones are counted and reported as one line. 0: no limit.
  unsigned per_site_per_second = 0;

  // The last lines, kept for Runtime::logs.
  std::size_t kept = 1024;
};

// Reads the lines that a runtime keeps, oldest first, and later ones. Each reader has a position of its own. Used by one thread at a time.
// May outlive the runtime.
class Logs {
 public:
  // Returns the next line. Waits up to `wait` for one, then returns nothing; does not wait once the runtime has ended.
  std::optional<LogRecord> next(std::chrono::nanoseconds wait = {});
  // Lines that were discarded before they were read, beyond Logging::kept.
  std::uint64_t missed() const noexcept { return missed_; }

  // for (const LogRecord& record : runtime.logs(100ms)): ends when no line arrives for that long.
  class Iterator {
   public:
    using value_type = LogRecord;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    const LogRecord& operator*() const { return *record_; }
    const LogRecord* operator->() const { return &*record_; }
    Iterator& operator++() {
      record_ = logs_->next(logs_->wait_);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !record_.has_value(); }

   private:
    friend class Logs;
    explicit Iterator(Logs* logs) : logs_(logs), record_(logs->next(logs->wait_)) {}
    Logs* logs_;
    std::optional<LogRecord> record_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend class runtime::Core;
  Logs(std::shared_ptr<runtime::LogMemory> memory, std::chrono::nanoseconds wait) : memory_(std::move(memory)), wait_(wait) {}

  std::shared_ptr<runtime::LogMemory> memory_;
  std::chrono::nanoseconds wait_;
  std::uint64_t at_ = 0;  // number of the next line
  std::uint64_t missed_ = 0;
};

}  // namespace dwell
