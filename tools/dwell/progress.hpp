// A progress line, shown only on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace dwell::tool {

// Writes to standard error, at most ten times a second. The destructor erases the line.
class Progress {
 public:
  // `total`: in units of `unit` ("tasks").
  Progress(std::string_view label, std::string unit, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done);
  // Returns whether show() would write now.
  bool due() const { return on_ && std::chrono::steady_clock::now() >= next_; }

 private:
  bool on_;
  bool shown_ = false;
  std::string label_;
  std::string unit_;
  std::uint64_t total_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace dwell::tool
