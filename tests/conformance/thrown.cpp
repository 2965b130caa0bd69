// C++ exceptions that leave operators. CPU only: CUDA has none.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

constexpr const char* kThrow = R"(
#include <stdexcept>
#include <string>
DWELL_OPERATOR(thrower)(dwell::Group g, dwell::i32 how, dwell::Span<dwell::u32> x) {
  if (how == 1) throw std::runtime_error("no number " + std::to_string(x[0]));
  if (how == 2) throw 42;
  if (how == 3) {
    g.fail(7);
    throw std::logic_error("later");
  }
  x[0] += 1;
})";
using Thrower = void(i32, Span<u32>);

class ThrownTest : public DeviceTest {
 protected:
  void SetUp() override {
    if (!on_cpu()) GTEST_SKIP() << "operators on CUDA throw nothing";
    DeviceTest::SetUp();
  }
};
DWELL_ON_EVERY_DEVICE(ThrownTest);

TEST_P(ThrownTest, AnExceptionFailsItsTaskAlone) {
  Runtime runtime(options());
  auto op = runtime.define<Thrower>("thrower", kThrow);
  auto x = filled<u32>(runtime, 1, 0);
  for (i32 i = 0; i < 100; ++i) {
    runtime.submit(op, 0, x).wait();
    const Ticket thrown = runtime.submit(op, 1, x);
    DWELL_EXPECT_ERROR(thrown.wait(), errc::task_failed,
                       AllOf(HasSubstr("thrower (version 1)"), HasSubstr("an exception left it: no number " + std::to_string(i + 1))));
    EXPECT_EQ(thrown.status(), status::exception);
    DWELL_EXPECT_ERROR(runtime.submit(op, 2, x).wait(), errc::task_failed, HasSubstr("something that is no std::exception"));
  }
  EXPECT_EQ(read(x)[0], 100U) << "the worker goes on";
}

TEST_P(ThrownTest, FirstFailureIsKept) {
  Runtime runtime(options());
  auto op = runtime.define<Thrower>("thrower", kThrow);
  auto x = filled<u32>(runtime, 1, 0);
  DWELL_EXPECT_ERROR(runtime.submit(op, 3, x).wait(), errc::task_failed, HasSubstr("code 7"));
}

TEST_P(ThrownTest, LinkedTaskIsCancelledAndHardLinkedRuns) {
  Runtime runtime(options());
  auto op = runtime.define<Thrower>("thrower", kThrow);
  auto x = filled<u32>(runtime, 1, 0);
  const Ticket thrown = runtime.submit(op, 1, x);
  const Ticket cancelled = runtime.submit(op, 0, x, dwell::link);
  const Ticket runs = runtime.submit(op, 0, x, hard_link);
  EXPECT_EQ(thrown.status(), status::exception);
  DWELL_EXPECT_ERROR(cancelled.wait(), errc::cancelled, HasSubstr("an exception left it"));
  runs.wait();
  EXPECT_EQ(read(x)[0], 1U);
}

TEST_P(ThrownTest, OtherGroupsRun) {
  Runtime runtime(options());
  auto op = runtime.define<void(Span<u32>)>("wide", R"(
    #include <stdexcept>
    DWELL_OPERATOR(wide)(dwell::Group g, dwell::Span<dwell::u32> x) {
      if (g.index() % 2 == 0) throw std::runtime_error("an even group");
      x[g.index()] = 1;
    })");
  auto x = filled<u32>(runtime, 8, 0);
  DWELL_EXPECT_ERROR(runtime.submit(op, x, groups(8)).wait(), errc::task_failed, HasSubstr("an even group"));
  EXPECT_EQ(read(x), (std::vector<u32>{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST_P(ThrownTest, ANodeThatThrowsFailsItsLaunch) {
  Runtime runtime(options());
  auto op = runtime.define<Thrower>("thrower", kThrow);
  auto x = filled<u32>(runtime, 1, 5);
  Graph graph("step");
  const Node first = graph.add("first", op, 0, x);
  const Node second = graph.add("second", op, 1, x).after(first);
  graph.add("third", op, 0, x).after(second);
  GraphExec exec = runtime.instantiate(graph);
  for (i32 i = 0; i < 3; ++i)
    DWELL_EXPECT_ERROR(runtime.launch(exec).wait(), errc::task_failed,
                       AllOf(HasSubstr("second"), HasSubstr("an exception left it: no number " + std::to_string(6 + i))));
  exec.set(second, 0, 0);
  runtime.launch(exec).wait();
  EXPECT_EQ(read(x)[0], 11U);
}

TEST_P(ThrownTest, SpawnedTaskFailsItsParent) {
  Runtime runtime(options());
  auto child = runtime.define<Thrower>("thrower", kThrow);
  auto parent = runtime.define<void(Span<u32>)>("parent", R"(
    DWELL_USES(thrower, dwell::i32, dwell::Span<dwell::u32>)
    DWELL_OPERATOR(parent)(dwell::Group g, dwell::Span<dwell::u32> x) { g.spawn(uses::thrower, 1, x); })");
  auto x = filled<u32>(runtime, 1, 0);
  DWELL_EXPECT_ERROR(runtime.submit(parent, x).wait(), errc::task_failed, HasSubstr("an exception left it"));
  runtime.submit(child, 0, x).wait();
}

}  // namespace
}  // namespace dwell::test
