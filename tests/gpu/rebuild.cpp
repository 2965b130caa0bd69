// Runtimes that open the device again after a task has taken it down.
#include "tests/gpu/fault_test.hpp"

namespace dwell::test {
namespace {

class RebuildTest : public FaultTest {
 protected:
  // Defines and runs: the device gives right results.
  static void expect_works(Runtime& runtime) {
    auto add = runtime.define<Add>("add", kAdd);
    auto cells = filled<u32>(runtime, 1000, 5);
    auto host = runtime.allocate<u32>(1, Memory::host);
    for (u32 i = 0; i < 100'000; ++i) runtime.submit(add, cells, i % 1000, 1U);
    runtime.submit(add, host, 0U, 3U).wait();
    EXPECT_THAT(read(cells), testing::Each(105U));
    EXPECT_EQ(host.host()[0], 3U);
  }
  // Loses the device to a task of the runtime.
  static Ticket lose(Runtime& runtime) {
    auto wild = runtime.define<Deadly>("wild_write", kWildWrite);
    const Ticket ticket = runtime.submit(wild, bad_address());
    DWELL_EXPECT_ERROR(ticket.wait(), errc::device_lost,
                       AllOf(HasSubstr("CUDA_ERROR_"), HasSubstr("it was running wild_write (version 1)")));
    return ticket;
  }
};

TEST_F(RebuildTest, AfterAWriteToABadAddress) {
  in_a_child([] {
    Runtime runtime(options());
    // Again and again: nothing of a generation may stay behind and spoil the next.
    for (u32 turn = 1; turn <= 3; ++turn) {
      SCOPED_TRACE(turn);
      expect_works(runtime);
      auto nothing = runtime.define("nothing", kNothing);
      const Ticket good = runtime.submit(nothing);
      good.wait();
      auto device = filled<u32>(runtime, 1U << 20U, 1);
      auto host = runtime.allocate<u32>(1U << 20U, Memory::host);
      const Ticket lost = lose(runtime);
      const auto start = Clock::now();
      runtime.rebuild();
      std::cout << "rebuild takes " << std::chrono::duration<double, std::milli>(Clock::now() - start).count() << " ms\n";
      const auto stale = HasSubstr("belongs to generation " + std::to_string(turn) + " of runtime " +
                                   std::to_string(runtime.info().runtime) + ", which is at generation " + std::to_string(turn + 1));
      EXPECT_EQ(runtime.info().generation, turn + 1);
      EXPECT_NO_THROW(good.wait());
      DWELL_EXPECT_ERROR(lost.wait(), errc::stale_handle, AllOf(stale, HasSubstr("wild_write (version 1)")));
      DWELL_EXPECT_ERROR(read(device), errc::stale_handle, stale);
      DWELL_EXPECT_ERROR(host.host(), errc::stale_handle, stale);
      DWELL_EXPECT_ERROR(runtime.submit(nothing), errc::stale_handle, stale);
    }
    expect_works(runtime);
    runtime.close();
  });
}

TEST_F(RebuildTest, SomebodyElseHoldsTheContext) {
  in_a_child([] {
    Runtime runtime(options());
    auto cells = filled<u32>(runtime, 100, 1);
    {
      const Foreign foreign;
      lose(runtime);
      for (int again = 0; again < 2; ++again) {
        DWELL_EXPECT_ERROR(runtime.rebuild(), errc::device_lost, AllOf(HasSubstr("share the context"), HasSubstr("CUDA_ERROR_")));
        DWELL_EXPECT_ERROR(runtime.allocate<u32>(1), errc::device_lost, HasSubstr("wild_write (version 1)"));
        DWELL_EXPECT_ERROR(read(cells), errc::device_lost, HasSubstr("wild_write (version 1)"));
      }
    }
    runtime.rebuild();
    expect_works(runtime);
  });
}

// Runtimes of one process share the context: it is gone when the last of them has let go of it, each by a rebuild of its own.
TEST_F(RebuildTest, AllRuntimesOfTheProcessAreRebuilt) {
  in_a_child([] {
    Runtime one(options());
    Runtime two(options());
    auto closed = std::make_unique<Runtime>(options());
    expect_works(two);
    lose(one);
    DWELL_EXPECT_ERROR(one.rebuild(), errc::device_lost, HasSubstr("share the context"));
    DWELL_EXPECT_ERROR(two.rebuild(), errc::device_lost, HasSubstr("share the context"));
    closed.reset();
    two.rebuild();
    expect_works(two);
    one.rebuild();
    expect_works(one);
    auto add = two.define<Add>("sum", R"(
      DWELL_OPERATOR(sum)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
        if (g.rank() == 0) cells[at] += value;
      })");
    auto cells = filled<u32>(two, 1, 0);
    two.submit(add, cells, 0U, 1U).wait();
    EXPECT_EQ(read(cells)[0], 1U);
  });
}

TEST_F(RebuildTest, ATaskThatHangsHoldsTheDevice) {
  in_a_child([] {
    Options strict = options();
    strict.task_timeout = 200ms;
    Runtime runtime(strict);
    auto endless = runtime.define<Deadly>("endless", kEndless);
    DWELL_EXPECT_ERROR(runtime.submit(endless, bad_address()).wait(), errc::task_timeout, HasSubstr("endless (version 1)"));
    const auto start = Clock::now();
    DWELL_EXPECT_ERROR(runtime.rebuild(), errc::device_lost, AllOf(HasSubstr("hangs"), HasSubstr("a new process is needed")));
    DWELL_EXPECT_ERROR(runtime.close(), errc::task_timeout, HasSubstr("endless (version 1)"));
    EXPECT_LT(Clock::now() - start, 2s);
  });
}

}  // namespace
}  // namespace dwell::test
