// The terminal as a screen that a program draws, and keys that it reads.
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

// Has the terminal of standard input and output for as long as it lives: the alternate screen, keys as they are pressed, nothing echoed.
// The destructor leaves everything as it was. While it lives, signals that end or stop the program arrive as events, in the one thread that
// the program has.
class Terminal {
 public:
  // Throws Failure when one of the two is no terminal, or the terminal draws no screen (TERM=dumb). Colours are left out where NO_COLOR is
  // set and not empty.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  Size size() const;

  // Replaces what is shown.
  void show(const std::vector<Line>& lines);

  struct Event {
    std::vector<int> keys;
    int signal = 0;       // that wants the program to end
    bool closed = false;  // nobody is at the terminal any more
  };
  // Waits for keys, for another size, for a signal, or until `due`. A signal to stop is obeyed in here.
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
