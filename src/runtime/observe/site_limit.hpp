// Rate limit of log lines per site.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/observe/log_format.hpp"

namespace dwell::runtime {

// A site is a format of a version of an operator. Its second begins with its first line. Used by one thread at a time.
class SiteLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // 0: no limit.
  explicit SiteLimit(unsigned per_second) : per_second_(per_second) {}

  // Returns whether the line, found at `now`, is among the first of its site in this second.
  bool admits(const LogLine& line, Clock::time_point now) {
    if (per_second_ == 0 || line.format == nullptr) return true;
    Site& site = sites_.try_emplace(*line.op + '\0' + *line.format, Site{line, now, 0, 0}).first->second;
    if (site.lines++ < per_second_) return true;
    ++site.left_out;
    return false;
  }

  // Removes the sites whose second is over at `now`. Calls `tell(line, count)` before for each that had `count` lines too many; `line` was
  // its first line.
  template <class Tell>
  void end_seconds(Clock::time_point now, Tell tell) {
    std::erase_if(sites_, [&](const auto& entry) {
      const Site& site = entry.second;
      if (now - site.begin < std::chrono::seconds(1)) return false;
      if (site.left_out != 0) tell(site.first, site.left_out);
      return true;
    });
  }
  bool owes() const { return !sites_.empty(); }

 private:
  struct Site {
    LogLine first;
    Clock::time_point begin;
    std::uint64_t lines;
    std::uint64_t left_out;
  };
  const unsigned per_second_;
  std::map<std::string, Site> sites_;
};

}  // namespace dwell::runtime
