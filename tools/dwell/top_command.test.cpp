#include "top_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "live/published.hpp"
#include "tests/unit/child.hpp"
#include "tests/unit/live.hpp"

namespace dwell::tool {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

live::Source source_of(std::uint64_t runtime) {
  live::Source source;
  source.runtime = runtime;
  source.metrics = [runtime, seconds = std::make_shared<std::atomic<std::uint64_t>>(1)] {
    Metrics metrics = test::metrics_after((*seconds)++);
    metrics.runtime = runtime;
    return metrics;
  };
  source.logs = [](std::uint64_t after, std::size_t, std::uint64_t* next) {
    *next = 1;
    return after == 0 ? std::vector<LogRecord>{test::log_line("a line")} : std::vector<LogRecord>();
  };
  return source;
}

// A screen, as far as dwell top draws on it: text, places, erasing, the alternate screen.
class Screen {
 public:
  void take(const std::string& bytes) {
    for (const char byte : bytes) {
      if (!sequence_.empty()) {
        sequence_ += byte;
        if (sequence_.size() > 2 && byte >= '@' && byte <= '~') obey();
      } else if (byte == '\x1b') {
        sequence_ = byte;
      } else if (byte == '\r') {
        column_ = 0;
      } else if (byte == '\n') {
        ++row_;
      } else {
        put(byte);
      }
    }
  }
  std::string text() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }
  bool alternate() const { return alternate_; }
  bool cursor() const { return cursor_; }

 private:
  void put(char byte) {
    if (lines_.size() <= row_) lines_.resize(row_ + 1);
    std::string& line = lines_[row_];
    if (line.size() <= column_) line.resize(column_ + 1, ' ');
    line[column_++] = byte;
  }
  void obey() {
    const std::string sequence = std::exchange(sequence_, {}).substr(2);
    if (sequence == "H") row_ = column_ = 0;
    if (sequence == "K" && row_ < lines_.size()) lines_[row_].resize(std::min(lines_[row_].size(), column_));
    if (sequence == "J") lines_.resize(std::min(lines_.size(), row_ + 1));
    if (sequence == "?1049h") alternate_ = true;
    if (sequence == "?1049l") alternate_ = false, lines_.clear(), row_ = column_ = 0;
    if (sequence == "?25l") cursor_ = false;
    if (sequence == "?25h") cursor_ = true;
  }

  std::vector<std::string> lines_;
  std::string sequence_;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
  bool alternate_ = false;
  bool cursor_ = true;
};

// dwell top in a child, on a terminal of its own; this process is the one it looks at.
class TopOnATerminal : public test::LiveTest {
 protected:
  TopOnATerminal() {
    const winsize size{24, 100, 0, 0};
    EXPECT_EQ(openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    EXPECT_EQ(tcgetattr(slave_, &before_), 0);
    EXPECT_EQ(pipe(published_), 0);
    const pid_t self = getpid();
    // Before the server has threads.
    child_ = test::start_child([&] {
      setsid();
      ioctl(slave_, TIOCSCTTY, 0);
      for (int i = 0; i < 3; ++i) dup2(slave_, i);
      char byte = 0;
      if (read(published_[0], &byte, 1) != 1) return 9;
      TopOptions options;
      options.look.pid = self;
      options.delay = 0.05;
      return static_cast<int>(top_command(options, std::cout << std::unitbuf));
    });
    one_.emplace(source_of(1), nullptr);
    two_.emplace(source_of(2), nullptr);
    EXPECT_EQ(write(published_[1], "x", 1), 1);
  }
  ~TopOnATerminal() override {
    if (child_ != 0) {  // 0 would be all of the process group
      kill(child_, SIGKILL);
      test::end_of(child_);
    }
    for (const int end : {master_, slave_, published_[0], published_[1]}) close(end);
  }

  void press(const std::string& keys) const { EXPECT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size())); }

  // Returns whether the screen comes to look like this.
  bool becomes(const std::function<bool(const Screen&)>& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!wanted(screen_)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << screen_.text();
        return false;
      }
      read_some();
    }
    return true;
  }
  bool shows(const std::string& text) {
    return becomes([&](const Screen& screen) { return screen.text().find(text) != std::string::npos; });
  }

  // How the child ends; the terminal is then as it was.
  int end() {
    int status = 0;
    for (int i = 0; i < 2000 && waitpid(child_, &status, WNOHANG) == 0; ++i) read_some();
    child_ = 0;
    read_some();
    EXPECT_FALSE(screen_.alternate());
    EXPECT_TRUE(screen_.cursor());
    termios after{};
    EXPECT_EQ(tcgetattr(slave_, &after), 0);
    EXPECT_EQ(after.c_lflag, before_.c_lflag);
    EXPECT_EQ(after.c_iflag, before_.c_iflag);
    return status;
  }

  void read_some() {
    pollfd ready{master_, POLLIN, 0};
    char bytes[4096];
    if (poll(&ready, 1, 10) > 0)
      screen_.take(std::string(bytes, static_cast<std::size_t>(std::max<ssize_t>(read(master_, bytes, sizeof(bytes)), 0))));
  }

  int master_ = -1;
  int slave_ = -1;
  int published_[2] = {};
  termios before_{};
  pid_t child_ = 0;
  std::optional<live::Published> one_;
  std::optional<live::Published> two_;
  Screen screen_;
};

TEST_F(TopOnATerminal, ShowsTheProcessAndObeysKeys) {
  EXPECT_TRUE(shows("1.00 k"));
  EXPECT_TRUE(screen_.alternate());
  EXPECT_FALSE(screen_.cursor());
  EXPECT_THAT(screen_.text(), testing::AllOf(HasSubstr("process " + std::to_string(getpid())), HasSubstr("TASKS/s*"), HasSubstr(" axpy"),
                                             HasSubstr(": a line"), HasSubstr("runtime 1 of 2")));
  press("n");
  EXPECT_TRUE(shows("OPERATOR*"));
  press("\x1b[D");
  EXPECT_TRUE(shows("VERSION*"));
  press("h");
  EXPECT_TRUE(shows("sort by tasks/s"));
  press("h\t");
  EXPECT_TRUE(shows("runtime 2 of 2"));
  press(" ");
  EXPECT_TRUE(shows("paused"));
  press("q");
  EXPECT_TRUE(test::ended_well(end()));
}

TEST_F(TopOnATerminal, FollowsTheSizeOfTheTerminal) {
  EXPECT_TRUE(shows("1.00 k"));
  const winsize small{12, 40, 0, 0};
  EXPECT_EQ(ioctl(master_, TIOCSWINSZ, &small), 0);
  EXPECT_TRUE(becomes([](const Screen& screen) {
    const std::string text = screen.text();
    return std::ranges::count(text, '\n') == 12 && text.find("ring full") == std::string::npos && text.find("q quit") != std::string::npos;
  }));
  press("\x03");
  EXPECT_TRUE(test::ended_well(end()));
}

TEST_F(TopOnATerminal, ASignalLeavesTheTerminalAsItWas) {
  EXPECT_TRUE(shows("1.00 k"));
  kill(child_, SIGTERM);
  const int status = end();
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(TopOnATerminal, StopsAndGoesOn) {
  EXPECT_TRUE(shows("1.00 k"));
  press("\x1a");
  int status = 0;
  EXPECT_TRUE(becomes([&](const Screen& screen) { return !screen.alternate(); }));
  EXPECT_EQ(waitpid(child_, &status, WUNTRACED), child_);
  EXPECT_TRUE(WIFSTOPPED(status));
  kill(child_, SIGCONT);
  EXPECT_TRUE(becomes([&](const Screen& screen) { return screen.alternate(); }));
  press("q");
  EXPECT_TRUE(test::ended_well(end()));
}

TEST_F(TopOnATerminal, EndsWithTheProcess) {
  EXPECT_TRUE(shows("1.00 k"));
  one_.reset();
  EXPECT_TRUE(shows("runtime 2 "));
  two_.reset();
  EXPECT_TRUE(test::ended_well(end()));
  EXPECT_THAT(screen_.text(), HasSubstr("has closed its runtimes"));
}

class TopOnce : public test::LiveTest {
 protected:
  static std::string top(bool json) {
    std::ostringstream out;
    TopOptions options;
    options.delay = 0.01;
    options.once = true;
    options.json = json;
    EXPECT_EQ(top_command(options, out), Exit::success);
    return out.str();
  }
};

TEST_F(TopOnce, PrintsOnePicture) {
  const live::Published published(source_of(1), {});
  const std::string text = top(false);
  EXPECT_THAT(text,
              testing::AllOf(HasSubstr("tasks/s 1.01 k"), HasSubstr(" axpy\n"), HasSubstr(": a line"), testing::Not(HasSubstr("\x1b"))));
}

TEST_F(TopOnce, PrintsJson) {
  const live::Published published(source_of(1), {});
  const auto json = nlohmann::json::parse(top(true));
  EXPECT_EQ(json["pid"], getpid());
  EXPECT_EQ(json["tasks_per_s"], 1010);
  EXPECT_EQ(json["leases_per_s"], 900);
  EXPECT_EQ(json["operators"][0]["name"], "axpy");
  EXPECT_EQ(json["operators"][0]["mean_ns"], 2000);
  EXPECT_EQ(json["workers"][1]["busy"], 0.01);
  EXPECT_EQ(json["log"].size(), 1U);
}

TEST_F(TopOnce, SaysWhatIsWrong) {
  TopOptions options;
  options.once = true;
  const auto message = [&] {
    try {
      std::ostringstream out;
      top_command(options, out);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.exit(), Exit::mistake);
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(), HasSubstr("no process of yours runs dwell"));
  options.look.pid = getpid();
  EXPECT_THAT(message(), HasSubstr("publishes nothing"));
  const live::Published published(source_of(1), {});
  options.look.runtime = 3;
  EXPECT_THAT(message(), HasSubstr("has the runtimes 1"));
  options.delay = 0;
  EXPECT_THAT(message(), HasSubstr("a delay is"));
}

}  // namespace
}  // namespace dwell::tool
