// Filters the tool's output for a terminal.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

namespace dwell::tool {

// Passes text on to another buffer. The text may contain names, paths, logs and answers of other processes. Replaces invalid UTF-8, and
// control characters except line ends and tabs, which would act on the terminal, by question marks. Used from one thread.
class ScreenBuffer : public std::streambuf {
 public:
  // `to` must outlive it.
  explicit ScreenBuffer(std::streambuf& to) : to_(to) {}
  // Passes on the rest of an incomplete character.
  ~ScreenBuffer() override;
  ScreenBuffer(const ScreenBuffer&) = delete;
  ScreenBuffer& operator=(const ScreenBuffer&) = delete;

 private:
  int_type overflow(int_type next) override;
  std::streamsize xsputn(const char* from, std::streamsize count) override;
  int sync() override { return to_.pubsync(); }
  bool pass(std::string_view text);

  std::streambuf& to_;
  std::string begun_;  // bytes of an incomplete character
};

}  // namespace dwell::tool
