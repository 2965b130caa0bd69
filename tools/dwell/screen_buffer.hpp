// What the tool prints, as a terminal may have it.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

namespace dwell::tool {

// Passes text on to another buffer: names, paths, logs and answers of other processes are among it. Bytes that are no UTF-8 and control
// characters other than line ends and tabs become question marks, as they would act on the terminal. Used from one thread.
class ScreenBuffer : public std::streambuf {
 public:
  // `to` outlives it.
  explicit ScreenBuffer(std::streambuf& to) : to_(to) {}
  // Passes on what is left of a character that never came to its end.
  ~ScreenBuffer() override;
  ScreenBuffer(const ScreenBuffer&) = delete;
  ScreenBuffer& operator=(const ScreenBuffer&) = delete;

 private:
  int_type overflow(int_type next) override;
  std::streamsize xsputn(const char* from, std::streamsize count) override;
  int sync() override { return to_.pubsync(); }
  bool pass(std::string_view text);

  std::streambuf& to_;
  std::string begun_;  // of a character whose end has not come yet
};

}  // namespace dwell::tool
