// The destination of log lines: a callback, a file, or stderr.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <dwell/log.hpp>

#include "runtime/observe/rotated_file.hpp"

namespace dwell::runtime {

// Used by one thread at a time.
class LogSink {
 public:
  using Warn = std::function<void(std::string_view)>;

  // `warn`, unless empty, is told once that lines cannot be written, and once that the callback has thrown. Throws as RotatedFile.
  LogSink(const Logging& logging, Warn warn);

  void take(const LogRecord& record) noexcept;
  // Writes the pending lines.
  void flush() noexcept;

 private:
  void complain(bool& told, std::string_view why) noexcept;

  const std::function<void(const LogRecord&)> callback_;
  const bool to_stderr_;
  const Warn warn_;
  std::optional<RotatedFile> file_;
  std::string text_;  // pending lines
  bool told_of_callback_ = false;
  bool told_of_writes_ = false;
};

}  // namespace dwell::runtime
