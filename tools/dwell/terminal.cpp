#include "terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "failure.hpp"
#include "keys.hpp"

namespace dwell::tool {

namespace {

constexpr std::chrono::milliseconds kOfOneKey{100};  // the longest time between its bytes

constexpr char kControlZ = 26;

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(STDOUT_FILENO, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;  // the terminal is closed: wait() reports it
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

Terminal::Terminal() {
  if (isatty(STDOUT_FILENO) == 0 || tcgetattr(STDIN_FILENO, &before_) != 0)
    throw Failure(Exit::mistake, "dwell: error: this needs a terminal: --once prints one picture without");
  if (variable("TERM") == "dumb")
    throw Failure(Exit::mistake, "dwell: error: this terminal draws no screen (TERM=dumb): --once prints one picture as lines");
  colours_ = variable("NO_COLOR").empty();
  const sigset_t set = watched();
  signals_ = File(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw Failure(Exit::failed, "dwell: error: no signalfd can be opened");
  sigprocmask(SIG_BLOCK, &set, &mask_before_);
  enter();
}

Terminal::~Terminal() {
  leave();
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Terminal::enter() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  put("\x1b[?1049h\x1b[?25l\x1b[?7l");  // the alternate screen, no cursor, no wrapping of long lines
}

void Terminal::leave() {
  put("\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

void Terminal::stop() {
  leave();
  raise(SIGSTOP);
  enter();
}

Terminal::Size Terminal::size() const {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void Terminal::show(const std::vector<Line>& lines) {
  const Size size = this->size();
  std::string text = "\x1b[H";
  // Overwrite each line, then erase its rest: erasing the screen first would flicker.
  for (std::size_t i = 0; i < std::min(lines.size(), size.height); ++i)
    text += (i == 0 ? "" : "\r\n") + lines[i].fitted(size.width).styled(colours_) + "\x1b[K";
  put(text + "\x1b[J");
}

Terminal::Event Terminal::wait(std::chrono::steady_clock::time_point due) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - std::chrono::steady_clock::now()).count();
  pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  poll(ready, 2, static_cast<int>(std::clamp<long long>(left, 0, 3'600'000)));
  Event event;
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP) stop();
    if (signal != SIGTSTP && signal != SIGWINCH) event.signal = signal;
  }
  if (ready[0].revents == 0) return event;
  char bytes[256];
  const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
  event.closed = got == 0 || (got < 0 && errno != EINTR);
  // The bytes of a key arrive together: a lone escape is the escape key.
  const auto now = std::chrono::steady_clock::now();
  if (now - read_at_ > kOfOneKey) unread_.clear();
  read_at_ = now;
  unread_.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  event.keys = take_keys(unread_);
  if (std::erase(event.keys, kControlZ) != 0) stop();
  return event;
}

}  // namespace dwell::tool
