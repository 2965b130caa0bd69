#include "runtime/observe/log_sink.hpp"

#include <unistd.h>

#include <cstddef>
#include <system_error>
#include <utility>

#include "runtime/caught.hpp"

namespace dwell::runtime {

namespace {

constexpr std::string_view kNoMemory = "dwell: lines of the log are lost: the host has no memory";
constexpr std::size_t kMostText = 64U << 10U;  // bytes that may wait to be written

}  // namespace

LogSink::LogSink(const Logging& logging, Warn warn)
    : callback_(logging.sink), to_stderr_(!logging.sink && logging.file.empty()), warn_(std::move(warn)) {
  if (!logging.file.empty()) file_.emplace(logging.file, logging.file_bytes, logging.files);
}

void LogSink::take(const LogRecord& record) noexcept {
  if (callback_) {
    if (const auto thrown = failure_of(errc::invalid_argument, [&] { callback_(record); }))
      if (failure_of(errc::out_of_memory,
                     [&] { complain(told_of_callback_, "dwell: the callback of the log threw: " + thrown->message()); }))
        complain(told_of_callback_, "dwell: the callback of the log threw");
  }
  if (!file_ && !to_stderr_) return;
  const bool full = text_.size() >= kMostText;
  if (full) flush();
  if (failure_of(errc::out_of_memory, [&] { text_ += to_string(record) + "\n"; })) complain(told_of_writes_, kNoMemory);
}

void LogSink::flush() noexcept {
  if (text_.empty()) return;
  const auto failure = failure_of(errc::out_of_memory, [&] {
    std::string why;
    if (file_) {
      why = file_->write(text_);
    } else if (const int error = write_all(STDERR_FILENO, text_); error != 0) {
      why = "stderr: " + std::generic_category().message(error);
    }
    if (!why.empty()) complain(told_of_writes_, "dwell: lines of the log are lost, " + why);
  });
  if (failure) complain(told_of_writes_, kNoMemory);
  text_.clear();
}

void LogSink::complain(bool& told, std::string_view why) noexcept {
  if (std::exchange(told, true) || !warn_) return;
  static_cast<void>(failure_of(errc::invalid_argument, [&] { warn_(why); }));
}

}  // namespace dwell::runtime
