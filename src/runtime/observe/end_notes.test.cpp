#include "runtime/observe/end_notes.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>

#include "base/notes_of_worker.hpp"
#include "live/flight.hpp"
#include "tests/unit/child.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::runtime {
namespace {

using live::FlightEnd;
using live::FlightFile;

// Each test runs in a child; the file records the child's end.
class EndNotesTest : public testing::Test {
 protected:
  template <class Work>
  int end_with(Work work) {
    *file_ = FlightFile{};
    return test::run_child([&] {
      for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);  // a sanitizer would exit
      file_->pid = getpid();
      file_->workers = 4;
      note_end_in(*file_);
      return work();
    });
  }
  static bool ended_by(int status, int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }

  test::SharedWithChildren<FlightFile> file_;
};

TEST_F(EndNotesTest, FaultsAreRecordedAndStillEndTheProcess) {
  EXPECT_TRUE(ended_by(end_with([] {
                         *reinterpret_cast<volatile int*>(16) = 1;  // NOLINT
                         return 0;
                       }),
                       SIGSEGV));
  EXPECT_EQ(file_->end.signal, SIGSEGV);
  EXPECT_EQ(file_->end.worker, FlightEnd::kNoWorker);
  EXPECT_NE(file_->end.thread, 0U);
  for (const int signal : {SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_TRUE(ended_by(end_with([&] { return raise(signal); }), signal));
    EXPECT_EQ(file_->end.signal, signal);
  }
  EXPECT_TRUE(ended_by(end_with([]() -> int { std::terminate(); }), SIGABRT));
  EXPECT_EQ(file_->end.signal, SIGABRT);
}

TEST_F(EndNotesTest, FaultNamesItsWorker) {
  const auto fault_of = [&](std::size_t entry) {
    end_with([&] {
      notes_of_worker = reinterpret_cast<const std::byte*>(&*file_) + FlightFile::entries_at() + entry * sizeof(live::FlightEntry);
      return raise(SIGSEGV);
    });
    return file_->end.worker;
  };
  EXPECT_EQ(fault_of(0), 0);
  EXPECT_EQ(fault_of(3 * live::kFlightEntries), 3);
  EXPECT_EQ(fault_of(4 * live::kFlightEntries), FlightEnd::kNoWorker) << "of another runtime";
}

TEST_F(EndNotesTest, ExternalKillIsNotRecorded) {
  EXPECT_TRUE(ended_by(end_with([] { return raise(SIGKILL); }), SIGKILL));
  EXPECT_EQ(file_->end.signal, 0);
  EXPECT_TRUE(ended_by(end_with([] { return raise(SIGTERM); }), SIGTERM));
  EXPECT_EQ(file_->end.signal, 0);
}

TEST_F(EndNotesTest, ExitIsRecordedWhileTheFileExists) {
  EXPECT_TRUE(test::ended_well(end_with([]() -> int { std::exit(0); })));
  EXPECT_EQ(file_->end.signal, FlightEnd::kExit);
  EXPECT_TRUE(test::ended_well(end_with([&]() -> int {
    forget_end_in(*file_);
    std::exit(0);
  })));
  EXPECT_EQ(file_->end.signal, 0);
}

int calls = 0;
void count(int) { ++calls; }
void count_and_exit(int) { _exit(++calls); }

TEST_F(EndNotesTest, PreviousHandlerIsCalled) {
  *file_ = FlightFile{};
  const int status = test::run_child([&] {
    std::signal(SIGSEGV, count_and_exit);
    file_->pid = getpid();
    note_end_in(*file_);
    return raise(SIGSEGV);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_EQ(file_->end.signal, SIGSEGV);
}

TEST_F(EndNotesTest, HandledSignalIsNotTheEnd) {
  *file_ = FlightFile{};
  EXPECT_TRUE(test::ended_well(test::run_child([&] {
    std::signal(SIGFPE, count);
    std::signal(SIGABRT, SIG_IGN);
    file_->pid = getpid();
    note_end_in(*file_);
    raise(SIGFPE);
    raise(SIGABRT);
    return calls == 1 ? 0 : 1;
  })));
  EXPECT_EQ(file_->end.signal, 0);
}

struct sigaction ours_before {};
void call_ours(int signal, siginfo_t* info, void* context) {
  ++calls;
  ours_before.sa_sigaction(signal, info, context);
}

// Handlers installed over ours must not recurse when a runtime is closed and another opened.
TEST_F(EndNotesTest, LaterHandlerCallsOurs) {
  const int status = end_with([&] {
    struct sigaction theirs {};
    theirs.sa_sigaction = call_ours;
    theirs.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &theirs, &ours_before);
    forget_end_in(*file_);
    note_end_in(*file_);
    raise(SIGSEGV);
    return calls;
  });
  EXPECT_TRUE(ended_by(status, SIGSEGV));
  EXPECT_EQ(file_->end.signal, SIGSEGV);
}

TEST_F(EndNotesTest, HandlersAreRestoredWithTheLastFile) {
  EXPECT_TRUE(test::ended_well(end_with([&] {
    forget_end_in(*file_);
    std::signal(SIGILL, count);
    note_end_in(*file_);
    forget_end_in(*file_);
    struct sigaction now {};
    sigaction(SIGILL, nullptr, &now);
    return now.sa_handler == count && (now.sa_flags & SA_SIGINFO) == 0 ? 0 : 1;
  })));
}

TEST_F(EndNotesTest, EndOfAChildIsNotRecordedForItsParent) {
  EXPECT_TRUE(test::ended_well(end_with([&] {
    const int status = test::run_child([] { return raise(SIGSEGV); });
    return ended_by(status, SIGSEGV) && file_->end.signal == 0 ? 0 : 1;
  })));
}

}  // namespace
}  // namespace dwell::runtime
