#include "jit/base/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <dwell/error.hpp>

namespace dwell::jit {
namespace {

using namespace std::chrono_literals;

TEST(Process, CollectsOutputAndStatus) {
  const ProcessResult result = run_process({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, 10s);
  EXPECT_EQ(result.end, ProcessResult::End::exited);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.output, "out\nerr\n");
}

TEST(Process, PassesArgumentsVerbatim) { EXPECT_EQ(run_process({"/bin/echo", "a b", "$HOME", "'\""}, 10s).output, "a b $HOME '\"\n"); }

TEST(Process, ReportsASignal) {
  const ProcessResult result = run_process({"/bin/sh", "-c", "kill -SEGV $$"}, 10s);
  EXPECT_EQ(result.end, ProcessResult::End::killed);
  EXPECT_EQ(result.code, SIGSEGV);
}

TEST(Process, KillsHangingPrograms) {
  const auto start = std::chrono::steady_clock::now();
  // The shell's own child holds the pipe open and must be killed too.
  EXPECT_EQ(run_process({"/bin/sh", "-c", "echo started; sleep 60; true"}, 200ms).end, ProcessResult::End::timed_out);
  // A program that closes its output and keeps running.
  EXPECT_EQ(run_process({"/bin/sh", "-c", "exec >&- 2>&-; sleep 60"}, 200ms).end, ProcessResult::End::timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST(Process, BoundsTheOutput) {
  const ProcessResult result = run_process({"/bin/sh", "-c", "head -c 3000000 /dev/zero"}, 10s);
  EXPECT_EQ(result.output.size(), std::size_t{1} << 20U);
}

TEST(Process, MissingProgramsAreNamed) {
  try {
    run_process({"/nowhere/program"}, 1s);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::io_failed);
    EXPECT_NE(error.message().find("/nowhere/program"), std::string::npos);
  }
}

TEST(Process, FindsPrograms) {
  EXPECT_TRUE(find_program("sh").starts_with('/'));
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_EQ(find_program("dwell-no-such-program"), "");
  EXPECT_EQ(find_program("/nowhere/program"), "");
}

}  // namespace
}  // namespace dwell::jit
