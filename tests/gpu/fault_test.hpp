// Tests of device failures. Each runs in a child process, because a failed CUDA context is lost for its whole process. The parent has a
// runtime too, which must not be affected.
#pragma once

#include <signal.h>
#include <sys/prctl.h>

#include <filesystem>
#include <functional>
#include <iostream>

#include "jit/base/process.hpp"
#include "tests/gpu/gpu_test.hpp"
#include "tests/gpu/stream.hpp"

namespace dwell::test {

// Set in the child.
inline constexpr const char* kChild = "DWELL_TEST_FAULT_CHILD";
inline bool is_child() { return !environment(kChild).empty(); }

class FaultTest : public GpuTest {
 protected:
  std::chrono::seconds limit() const override { return is_child() ? 40s : 80s; }

  // Runs `scenario` in a child: this program, with this test only.
  static void in_a_child(const std::function<void()>& scenario) {
    if (is_child()) {
      prctl(PR_SET_PDEATHSIG, static_cast<unsigned long>(SIGKILL), 0UL, 0UL, 0UL);  // a hanging task must not outlive the test
      scenario();
      return;
    }
    Runtime runtime(options());
    auto add = runtime.define<Add>("add", kAdd);
    Stream stream(runtime, add);
    const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
    const jit::ProcessResult child =
        jit::run_process({"/usr/bin/env", kChild + std::string("=1"), std::filesystem::read_symlink("/proc/self/exe"), "--gtest_color=no",
                          std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name()},
                         60s);
    EXPECT_EQ(child.end, jit::ProcessResult::End::exited) << "the child does not end, or crashes, with signal " << child.code;
    EXPECT_EQ(child.code, 0);
    if (HasFailure()) std::cout << "the child's output:\n" << child.output;
    // The device keeps working for other processes.
    const std::uint64_t before = stream.tasks();
    EXPECT_TRUE(eventually([&] { return stream.tasks() > before + 100'000; }));
    stream.expect_all();
    runtime.submit(runtime.define("nothing", kNothing)).wait();
  }
};

// Operators that crash the device, or do nothing without an address. A task with a pointer argument ends only when its stores have
// completed.
using Deadly = void(u32*);
inline u32* bad_address() { return reinterpret_cast<u32*>(16); }
inline constexpr const char* kWildWrite = R"(
DWELL_OPERATOR(wild_write)(dwell::Group g, dwell::u32* address) {
  if (address != nullptr && g.rank() == 0) *const_cast<volatile dwell::u32*>(address) = 1;
})";
inline constexpr const char* kEndless = R"(
DWELL_OPERATOR(endless)(dwell::Group g, dwell::u32* address) {
  while (address != nullptr && dwell::device::now_ns() != 0) {}
  g.sync();
})";

}  // namespace dwell::test
