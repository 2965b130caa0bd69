// The terminal: draws a screen and reads keys.
#pragma once

#include <termios.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <signal.h>

#include "base/file.hpp"
#include "screen_text.hpp"

namespace dwell::tool {

// Controls the terminal of standard input and output during its lifetime: the alternate screen, unbuffered keys, no echo. The destructor
// restores the terminal. Meanwhile signals that end or stop the program arrive as events. The program must have a single thread.
class Terminal {
 public:
  // Throws Failure if one of the two is no terminal, or the terminal draws no screen (TERM=dumb). Uses no colours if NO_COLOR is set and
  // not empty.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  Size size() const;

  // Replaces the screen's content.
  void show(const std::vector<Line>& lines);

  struct Event {
    std::vector<int> keys;
    int signal = 0;       // that asks the program to end
    bool closed = false;  // the terminal is closed
  };
  // Waits for keys, a new size, a signal, or until `due`. Handles stop signals itself.
  Event wait(std::chrono::steady_clock::time_point due);

 private:
  void enter();
  void leave();
  void stop();

  termios before_{};
  sigset_t mask_before_{};
  File signals_;
  bool colours_ = true;
  std::chrono::steady_clock::time_point read_at_;
  std::string unread_;
};

}  // namespace dwell::tool
