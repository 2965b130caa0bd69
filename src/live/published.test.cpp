#include "live/published.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dwell/error.hpp>

#include "live/channel.hpp"
#include "live/client.hpp"
#include "live/server.hpp"
#include "tests/unit/child.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/live.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::live {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;

Source source_of(std::uint64_t runtime) {
  Source source;
  source.runtime = runtime;
  source.metrics = [=] {
    Metrics metrics = test::metrics_after(1);
    metrics.runtime = runtime;
    return metrics;
  };
  source.diagnose = [] { return test::diagnosis_of_two(); };
  source.logs = [](std::uint64_t after, std::size_t most, std::uint64_t* next) {
    std::vector<LogRecord> lines;
    for (; after < 5 && lines.size() < most; ++after) lines.push_back(test::log_line("line " + std::to_string(after + 1)));
    *next = after;
    return lines;
  };
  source.inspect = [](std::string_view name) { return "described: " + std::string(name); };
  source.heap = [] { return test::heap_of_two(); };
  source.census = [] { return test::census_after(1); };
  source.verify = [] { return HeapVerification{1, 2, 3}; };
  return source;
}

// Writes until the reader has gone.
void trace_without_end(TraceWriter& writer, std::chrono::milliseconds pause) {
  Trace piece;
  piece.device = "cpu";
  piece.runtime = 1;
  for (int i = 0;; ++i) {
    piece.names = {"a name of one hundred letters and more, so that the connection is full before long: " + std::to_string(i) +
                   std::string(100, 'x')};
    piece.events.assign(1000, TraceEvent{.begin_ns = i, .took_ns = 1, .name = 0});
    writer.write(piece);
    std::this_thread::sleep_for(pause);
  }
}

// A pipe on which processes of a test wait for each other.
class Gate {
 public:
  Gate() { EXPECT_EQ(pipe(ends_), 0); }
  ~Gate() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void wait() const {
    char byte = 0;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }

 private:
  int ends_[2] = {};
};

class LivePublished : public test::LiveTest {
 protected:
  static Client self() { return Client::of(getpid()); }

  // A child that publishes runtime `runtime` until finish() is called.
  class Other {
   public:
    explicit Other(std::uint64_t runtime)
        : child_(test::start_child([&] {
            const Published published(source_of(runtime), {});
            ready_.open();
            finish_.wait();
            return 0;
          })) {
      ready_.wait();
    }
    pid_t pid() const { return child_; }
    void finish() const {
      finish_.open();
      EXPECT_TRUE(test::ended_well(test::end_of(child_)));
    }
    void kill() const {
      ::kill(child_, SIGKILL);
      test::end_of(child_);
    }

   private:
    Gate ready_;
    Gate finish_;
    pid_t child_;
  };

  // A connection that sends a request and reads nothing.
  static Channel deaf(const std::string& request) {
    Channel channel(Directory::find(geteuid())->connect(Process::self()), 1s);
    channel.send_request(request);
    return channel;
  }
};

TEST_F(LivePublished, AnswersFromItsSource) {
  const Published published(source_of(3), {});
  const Client client = self();
  EXPECT_EQ(client.runtimes(), RuntimeIds{3});
  EXPECT_EQ(client.metrics(3).operators.at(0).name, "axpy");
  EXPECT_EQ(client.diagnosis(3).tasks.size(), 2U);
  EXPECT_EQ(client.heap(3).classes.size(), 3U);
  EXPECT_EQ(client.census(3).types, test::census_after(1).types);
  EXPECT_EQ(client.verify(3).live, 3U);
  EXPECT_EQ(client.inspect(3, "a name<with, blanks>"), "described: a name<with, blanks>");
  const LogPage page = client.logs(3, 1, 3);
  EXPECT_EQ(page.next, 4U);
  ASSERT_EQ(page.records.size(), 3U);
  EXPECT_EQ(page.records[0].text, "line 2");
  EXPECT_TRUE(client.logs(3, 5, 3).records.empty());
}

TEST_F(LivePublished, LongAnswersArriveWhole) {
  Source source = source_of(1);
  const std::string text(3 * Channel::kLongestFrame + 17, 'y');
  source.inspect = [&](std::string_view) { return std::string(text); };
  const Published published(std::move(source), {});
  EXPECT_TRUE(self().inspect(1, "op") == text);
}

TEST_F(LivePublished, OneProcessInspectsAnother) {
  const Other other(7);
  EXPECT_THAT(Client::processes(), ElementsAre(*Process::with(other.pid())));
  EXPECT_EQ(Client::of(other.pid()).metrics(7).runtime, 7U);
  EXPECT_EQ(Client::of_the_only_one().process().pid, other.pid());
  other.finish();
  EXPECT_EQ(files(), 0U) << "whoever ends takes its socket with it";
}

TEST_F(LivePublished, ProcessesAreDistinguished) {
  DWELL_EXPECT_ERROR(Client::of_the_only_one(), errc::invalid_argument, HasSubstr("no process of yours runs dwell"));
  const Other one(1);
  const Other two(2);
  EXPECT_EQ(Client::of(one.pid()).runtimes(), RuntimeIds{1});
  EXPECT_EQ(Client::of(two.pid()).runtimes(), RuntimeIds{2});
  DWELL_EXPECT_ERROR(Client::of_the_only_one(), errc::invalid_argument,
                     testing::AllOf(HasSubstr(std::to_string(one.pid())), HasSubstr(std::to_string(two.pid()))));
  one.finish();
  two.finish();
}

TEST_F(LivePublished, DeadProcessIsNotListed) {
  const Other other(1);
  const Client client = Client::of(other.pid());
  EXPECT_EQ(client.runtimes(), RuntimeIds{1});
  other.kill();
  const std::string id = "process " + std::to_string(other.pid());
  DWELL_EXPECT_ERROR(client.runtimes(), errc::closed, HasSubstr(id + " is gone"));
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(Client::processes().empty());
  EXPECT_EQ(files(), 0U) << "the socket of the dead is removed";
  DWELL_EXPECT_ERROR(Client::of(other.pid()), errc::invalid_argument, HasSubstr("there is no " + id));
}

TEST_F(LivePublished, ReusedPidIsNotThePublisher) {
  const Directory directory = Directory::make();
  Process earlier = Process::self();
  --earlier.start;
  const File socket = directory.listen(earlier);
  DWELL_EXPECT_ERROR(self(), errc::invalid_argument, HasSubstr("publishes nothing"));
}

TEST_F(LivePublished, LastPublisherRemovesTheSocket) {
  for (int turn = 0; turn < 3; ++turn) {
    std::optional<Published> one(std::in_place, source_of(1), nullptr);
    std::optional<Published> two(std::in_place, source_of(2), nullptr);
    const Client client = self();
    EXPECT_EQ(client.runtimes(), (RuntimeIds{1, 2}));
    one.reset();
    EXPECT_EQ(client.runtimes(), RuntimeIds{2});
    DWELL_EXPECT_ERROR(client.metrics(1), errc::closed, HasSubstr("no runtime 1"));
    two.reset();
    DWELL_EXPECT_ERROR(client.runtimes(), errc::closed, HasSubstr("has closed its runtimes"));
    EXPECT_EQ(files(), 0U);
  }
}

TEST_F(LivePublished, ExceptionsOfTheSourceAreAnswers) {
  Source source = source_of(1);
  source.metrics = []() -> Metrics { throw Error(errc::device_lost, "the device is lost"); };
  source.diagnose = []() -> Diagnosis { throw std::runtime_error("enough"); };
  source.inspect = [](std::string_view) -> std::string { throw 3; };
  source.logs = {};
  const Published published(std::move(source), {});
  const Client client = self();
  DWELL_EXPECT_ERROR(client.metrics(1), errc::device_lost, HasSubstr("the device is lost"));
  DWELL_EXPECT_ERROR(client.diagnosis(1), errc::io_failed, HasSubstr("enough"));
  DWELL_EXPECT_ERROR(client.inspect(1, "op"), errc::io_failed, HasSubstr("no std::exception"));
  DWELL_EXPECT_ERROR(client.logs(1, 0, 1), errc::unsupported, HasSubstr("has no log"));
  EXPECT_EQ(client.runtimes(), RuntimeIds{1}) << "and the next request is answered";
}

TEST_F(LivePublished, WrongRequestsAreAnswered) {
  const Published published(source_of(1), {});
  for (const char* const request : {"", "metrics", "metrics one", "metrics 1x", "dance 1", "trace 1 -1 perfetto", "trace 1 nan perfetto",
                                    "trace 1 1 text", "logs 1 2", "logs 1 -1 1", "runtimes2"}) {
    Channel channel = deaf(request);
    EXPECT_EQ(channel.receive().kind, FrameKind::failure) << request;
  }
  Channel channel(Directory::find(geteuid())->connect(Process::self()), 5s);
  EXPECT_THROW(
      {
        channel.send_request(std::string(Channel::kLongestRequest + 1, 'x'));
        channel.receive();
      },
      Error);
  EXPECT_EQ(self().runtimes(), RuntimeIds{1});
}

TEST_F(LivePublished, ATraceArrivesAsItGrows) {
  Source source = source_of(1);
  std::chrono::nanoseconds asked{0};
  source.trace = [&](std::chrono::nanoseconds time, TraceWriter& writer) {
    asked = time;
    Trace piece;
    piece.device = "cpu";
    piece.runtime = 1;
    piece.names = {"the first name"};
    piece.events = {TraceEvent{.begin_ns = 1000, .took_ns = 10, .worker = 0, .name = 0}};
    writer.write(piece);
    piece.names.emplace_back("the second name");
    piece.events = {TraceEvent{.begin_ns = 2000, .took_ns = 10, .worker = 0, .name = 1}};
    writer.write(piece);
  };
  const Published published(std::move(source), {});
  for (const char* const format : {"perfetto", "chrome"}) {
    std::ostringstream out;
    self().trace(1, 1500ms, format, out);
    EXPECT_THAT(out.str(), testing::AllOf(HasSubstr("the first name"), HasSubstr("the second name"))) << format;
  }
  EXPECT_EQ(asked, 1500ms);
}

TEST_F(LivePublished, TraceDoesNotBlockOthers) {
  Source source = source_of(1);
  std::promise<void> traces;
  std::promise<void> finish;
  source.trace = [&](std::chrono::nanoseconds, TraceWriter&) {
    traces.set_value();
    finish.get_future().wait();
  };
  const Published published(std::move(source), {});
  const auto tracer = std::async(std::launch::async, [] {
    std::ostringstream out;
    self().trace(1, 1s, "chrome", out);
  });
  traces.get_future().wait();
  EXPECT_EQ(self().metrics(1).runtime, 1U);
  finish.set_value();
  tracer.wait();
}

TEST_F(LivePublished, TraceEndsWithItsReader) {
  Source source = source_of(1);
  std::promise<void> started;
  std::promise<void> ended;
  source.trace = [&](std::chrono::nanoseconds, TraceWriter& writer) {
    started.set_value();
    try {
      trace_without_end(writer, 1ms);
    } catch (const Error&) {
      ended.set_value();
      throw;
    }
  };
  const Published published(std::move(source), {});
  {
    const Channel client = deaf("trace 1 60 perfetto");
    started.get_future().wait();
  }
  EXPECT_EQ(ended.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(LivePublished, SlowReaderDoesNotBlockOthers) {
  Source source = source_of(1);
  std::atomic<int> pieces{0};
  source.trace = [&](std::chrono::nanoseconds, TraceWriter& writer) { trace_without_end(writer, 0ms); };
  source.inspect = [&](std::string_view) {
    ++pieces;
    return std::string(std::size_t{8} << 20U, 'x');
  };
  std::optional<Published> published(std::in_place, std::move(source), nullptr);
  std::vector<Channel> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(deaf("trace 1 60 perfetto"));
  for (int i = 0; i < 3; ++i) clients.push_back(deaf("inspect 1 op"));
  while (pieces < 3) std::this_thread::sleep_for(1ms);
  const auto begin = Clock::now();
  EXPECT_EQ(self().metrics(1).runtime, 1U);
  published.reset();
  EXPECT_LT(Clock::now() - begin, 1500ms);
}

TEST_F(LivePublished, SilentClientsDelayOthersBriefly) {
  const Published published(source_of(1), {});
  std::vector<File> silent;
  for (std::size_t i = 0; i < Server::kMost; ++i) silent.push_back(Directory::find(geteuid())->connect(Process::self()));
  EXPECT_EQ(self().runtimes(), RuntimeIds{1});
}

TEST_F(LivePublished, DestructorWaitsForRunningRequests) {
  Source source = source_of(1);
  std::promise<void> inside;
  std::atomic<bool> left{false};
  source.metrics = [&] {
    inside.set_value();
    std::this_thread::sleep_for(50ms);
    left = true;
    return Metrics();
  };
  std::optional<Published> published(std::in_place, std::move(source), nullptr);
  const Channel client = deaf("metrics 1");
  inside.get_future().wait();
  published.reset();
  EXPECT_TRUE(left);
}

TEST_F(LivePublished, ForkedChildDoesNotPublishForItsParent) {
  std::optional<Published> published(std::in_place, source_of(1), nullptr);
  const Gate ready;
  const Gate finish;
  const pid_t child = test::start_child([&] {
    published.reset();  // belongs to the parent: no effect
    const bool none = Client::processes() == std::vector<Process>{*Process::with(getppid())};
    if (!kSanitized) {  // the thread sanitizer starts no thread after a fork of a multithreaded process
      const Published own(source_of(9), {});
      if (self().runtimes() != RuntimeIds{9}) return 2;
    }
    ready.open();
    finish.wait();
    return none ? 0 : 1;
  });
  ready.wait();
  EXPECT_EQ(self().runtimes(), RuntimeIds{1});
  published.reset();
  DWELL_EXPECT_ERROR(Client::of(child).runtimes(), errc::invalid_argument, HasSubstr("publishes nothing"));
  finish.open();
  EXPECT_TRUE(test::ended_well(test::end_of(child)));
}

TEST_F(LivePublished, SocketClosesWithItsProcessDespiteChildren) {
  const Gate finish;
  const Gate ready;
  const test::SharedWithChildren<pid_t> grandchild;
  const pid_t child = test::start_child([&] {
    const Published published(source_of(1), {});
    *grandchild = test::start_child([&] {
      ready.open();  // its copy of the socket is closed by now: fork does that first
      finish.wait();
      return 0;
    });
    ready.wait();
    return raise(SIGKILL);
  });
  test::end_of(child);
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(Client::processes().empty());
  finish.open();
}

// The answering thread reports its own signal mask, inherited from the accepting thread: /proc shows an empty mask for a thread that is
// just ending.
TEST_F(LivePublished, SignalsAreBlockedOnServerThreads) {
  Source source = source_of(1);
  sigset_t blocked;
  sigemptyset(&blocked);
  source.inspect = [&](std::string_view) {
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    return std::string();
  };
  sigset_t before;
  sigset_t behind;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  const Published published(std::move(source), {});
  pthread_sigmask(SIG_BLOCK, nullptr, &behind);
  static_cast<void>(self().inspect(1, "op"));
  for (const int signal : {SIGUSR1, SIGINT, SIGTERM, SIGCHLD, SIGALRM}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
    EXPECT_EQ(sigismember(&behind, signal), sigismember(&before, signal)) << signal << ": the program's own thread";
  }
  EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0) << "a fault must end the process";
}

TEST_F(LivePublished, MayBeSwitchedOff) {
  setenv("DWELL_LIVE", "off", 1);
  const Published published(source_of(1), {});
  unsetenv("DWELL_LIVE");
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(LivePublished, MissingFolderIsOnlyAWarning) {
  setenv("DWELL_LIVE_DIR", (root_ / "missing" / "folder").c_str(), 1);
  std::vector<std::string> lines;
  {
    const Published published(source_of(1), [&](std::string_view line) { lines.emplace_back(line); });
    const Published silent(source_of(2), {});
  }
  EXPECT_THAT(lines, ElementsAre(testing::AllOf(HasSubstr("cannot look at this one"), HasSubstr("missing/folder"))));
}

TEST_F(LivePublished, OtherUsersAreNotAnswered) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Published published(source_of(1), {});
  const std::vector<Process> live = Client::processes();
  const int end = test::run_child([&] {
    // Removes all protection except for the server's own check of the user.
    for (const auto& item : std::filesystem::directory_iterator(folder_)) chmod(item.path().c_str(), 0777);
    chmod(root_.c_str(), 0755);
    chmod(folder_.c_str(), 0755);
    std::string name;
    for (const auto& item : std::filesystem::directory_iterator(folder_)) name = item.path().filename();
    const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
    if (setresuid(65534, 65534, 65534) != 0) return 2;
    try {
      static_cast<void>(Client::of(getppid()));
      return 3;
    } catch (const Error& error) {
      if (error.message().find("another user's") == std::string::npos) return 4;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ("/proc/self/fd/" + std::to_string(folder) + "/" + name).copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return 5;
    send(socket, "runtimes\n", 9, MSG_NOSIGNAL);
    char byte = 0;
    return recv(socket, &byte, 1, 0) <= 0 ? 0 : 6;  // closed without an answer
  });
  EXPECT_TRUE(test::ended_well(end)) << end;
}

}  // namespace
}  // namespace dwell::live
