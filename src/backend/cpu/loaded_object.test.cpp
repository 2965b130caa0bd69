#include "backend/cpu/loaded_object.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "jit/base/process.hpp"
#include "jit/host/host_compiler.hpp"
#include "tests/unit/child.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::backend {
namespace {

using testing::HasSubstr;

TEST(LoadedObject, DebuggersFindItsSymbols) {
  const std::string gdb = jit::find_program("gdb");
  if (gdb.empty()) GTEST_SKIP() << "gdb is not installed";
  const jit::Object object = jit::HostCompiler().compile(jit::axpy_unit("axpy_under_gdb"));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = test::start_child([&] {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    const LoadedObject loaded(object.bytes, "axpy_under_gdb");
    if (write(ready[1], "x", 1) != 1) return 1;
    for (;;) pause();
  });
  char byte = 0;
  close(ready[1]);
  const bool started = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  const jit::ProcessResult result = jit::run_process(
      {gdb, "--nx", "--batch", "-p", std::to_string(child), "-ex", "info address axpy_under_gdb"}, std::chrono::seconds(60));
  kill(child, SIGKILL);
  test::end_of(child);
  ASSERT_TRUE(started);
  if (result.output.find("ptrace: ") != std::string::npos) GTEST_SKIP() << "gdb may not attach here";
  EXPECT_EQ(result.end, jit::ProcessResult::End::exited) << "gdb hangs";
  EXPECT_THAT(result.output, HasSubstr("Symbol \"axpy_under_gdb\" is at 0x"));
}

}  // namespace
}  // namespace dwell::backend
