// The last lines of the log, for later readers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <dwell/log.hpp>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Lines are numbered from 0. Members may be called from any thread.
class LogMemory {
 public:
  explicit LogMemory(std::size_t most) : most_(most) {}

  void add(LogRecord record) {
    {
      const Lock lock(mutex_);
      lines_.push_back(std::move(record));
      if (lines_.size() > most_) {
        lines_.pop_front();
        ++first_;
      }
    }
    changed_.notify_all();
  }
  // Marks the end of the log.
  void end() noexcept {
    {
      const Lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  // Returns the line with number `at`, or the oldest later one, and sets `at` to its number; nothing if none arrives before `deadline`.
  std::optional<LogRecord> next(std::uint64_t& at, std::chrono::steady_clock::time_point deadline) {
    Lock lock(mutex_);
    while (at >= first_ + lines_.size() && !ended_)
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) break;
    if (at < first_) at = first_;
    if (at >= first_ + lines_.size()) return std::nullopt;
    return lines_[static_cast<std::size_t>(at - first_)];
  }
  // Returns at most `most` existing lines from number `at` on, and sets `at` to the number after the last one.
  std::vector<LogRecord> page(std::uint64_t& at, std::size_t most) {
    const Lock lock(mutex_);
    at = std::max(at, first_);
    std::vector<LogRecord> records;
    for (; at < first_ + lines_.size() && records.size() < most; ++at) records.push_back(lines_[static_cast<std::size_t>(at - first_)]);
    return records;
  }

 private:
  const std::size_t most_;
  Mutex mutex_;
  Condition changed_;
  std::deque<LogRecord> lines_ DWELL_GUARDED_BY(mutex_);
  std::uint64_t first_ DWELL_GUARDED_BY(mutex_) = 0;  // number of the oldest
  bool ended_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::runtime
