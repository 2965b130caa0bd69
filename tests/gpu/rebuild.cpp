// Runtimes that reopen the device after a task has crashed it.
#include "tests/gpu/fault_test.hpp"

namespace dwell::test {
namespace {

class RebuildTest : public FaultTest {
 protected:
  // Checks that a new operator gives right results.
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
  // Whether CUDA gives the process a new context after a fault, which is not guaranteed. A refusal must name its reason and leave the
  // runtime unchanged.
  static bool rebuilds(Runtime& runtime, const std::string& because = "CUDA gives the process no new context") {
    const auto start = Clock::now();
    try {
      runtime.rebuild();
      std::cout << "rebuilt in " << std::chrono::duration<double, std::milli>(Clock::now() - start).count() << " ms\n";
      return true;
    } catch (const Error& refused) {
      std::cout << "not rebuilt: " << refused.what() << '\n';
      EXPECT_EQ(refused.kind(), errc::device_lost) << refused.what();
      EXPECT_THAT(refused.message(),
                  AllOf(HasSubstr(cuda_device()), HasSubstr(because), HasSubstr("a new process is needed"), HasSubstr("CUDA_ERROR_")));
    }
    DWELL_EXPECT_ERROR(runtime.allocate<u32>(1), errc::device_lost, HasSubstr("CUDA_ERROR_"));
    DWELL_EXPECT_ERROR(static_cast<void>(runtime.info()), errc::device_lost, HasSubstr("CUDA_ERROR_"));
    return false;
  }
};

TEST_F(RebuildTest, RebuildsAfterAWriteToABadAddress) {
  in_a_child([] {
    Runtime runtime(options());
    // Repeatedly: no generation may leave state that breaks the next.
    for (u32 turn = 1; turn <= 3; ++turn) {
      SCOPED_TRACE(turn);
      expect_works(runtime);
      const std::string number = std::to_string(runtime.info().runtime);
      auto nothing = runtime.define("nothing", kNothing);
      const Ticket good = runtime.submit(nothing);
      good.wait();
      auto device = filled<u32>(runtime, 1U << 20U, 1);
      auto host = runtime.allocate<u32>(1U << 20U, Memory::host);
      const Ticket lost = lose(runtime);
      if (!rebuilds(runtime)) {
        const auto blame = HasSubstr("wild_write (version 1)");
        EXPECT_FALSE(rebuilds(runtime)) << "the same answer the second time";
        EXPECT_NO_THROW(good.wait());
        DWELL_EXPECT_ERROR(lost.wait(), errc::device_lost, blame);
        DWELL_EXPECT_ERROR(read(device), errc::device_lost, blame);
        DWELL_EXPECT_ERROR(host.host(), errc::device_lost, blame);
        DWELL_EXPECT_ERROR(runtime.submit(nothing), errc::device_lost, blame);
        DWELL_EXPECT_ERROR(runtime.close(), errc::device_lost, blame);
        DWELL_EXPECT_ERROR(read(device), errc::stale_handle, HasSubstr("generation 1 of runtime " + number + ", which is closed"));
        return;
      }
      const auto stale = HasSubstr("belongs to generation " + std::to_string(turn) + " of runtime " + number + ", which is at generation " +
                                   std::to_string(turn + 1));
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

TEST_F(RebuildTest, AnotherUserOfTheContextPreventsARebuild) {
  in_a_child([] {
    Runtime runtime(options());
    auto cells = filled<u32>(runtime, 100, 1);
    {
      const Foreign foreign;
      lose(runtime);
      for (int again = 0; again < 2; ++again) {
        EXPECT_FALSE(rebuilds(runtime, "share the context"));
        DWELL_EXPECT_ERROR(read(cells), errc::device_lost, HasSubstr("wild_write (version 1)"));
      }
    }
    if (rebuilds(runtime)) expect_works(runtime);
  });
}

// Runtimes of one process share the context: it is released when the last one has let go of it, each by its own rebuild.
TEST_F(RebuildTest, RebuildNeedsAllRuntimesToReleaseTheContext) {
  in_a_child([] {
    Runtime one(options());
    Runtime two(options());
    auto closed = std::make_unique<Runtime>(options());
    expect_works(two);
    lose(one);
    EXPECT_FALSE(rebuilds(one, "share the context"));
    EXPECT_FALSE(rebuilds(two, "share the context"));
    closed.reset();
    if (rebuilds(two)) expect_works(two);
    if (rebuilds(one)) expect_works(one);
  });
}

// While the task runs the device is not released; afterwards it is released unharmed.
TEST_F(RebuildTest, RebuildsOnceTheHangingTaskEnds) {
  in_a_child([] {
    Options strict = options();
    strict.task_timeout = 200ms;
    Runtime runtime(strict);
    expect_works(runtime);
    auto slow = runtime.define<Spin>("spin", kSpin);
    const Ticket lost = runtime.submit(slow, u64{1'500'000'000});
    DWELL_EXPECT_ERROR(lost.wait(), errc::task_timeout, HasSubstr("spin (version 1)"));
    DWELL_EXPECT_ERROR(runtime.rebuild(), errc::device_lost, HasSubstr("hangs"));
    std::this_thread::sleep_for(2s);
    runtime.rebuild();
    EXPECT_EQ(runtime.info().generation, 2U);
    lost.wait();  // it has completed after all
    expect_works(runtime);
    runtime.close();
  });
}

TEST_F(RebuildTest, AHangingTaskHoldsTheDevice) {
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
