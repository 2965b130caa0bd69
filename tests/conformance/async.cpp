// Operators compiled in the background.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class AsyncTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(AsyncTest);

// An operator that stores `value`; its text is unique in each run.
std::string store(const std::string& name, u32 value) {
  static const std::string run = std::to_string(Clock::now().time_since_epoch().count());
  return "// " + run + "\nDWELL_OPERATOR(" + name +
         ")(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {\n"
         "  if (g.rank() == 0) cells[at] = " +
         std::to_string(value) + ";\n}\n";
}

TEST_P(AsyncTest, ManyDefinitionsShareHandOvers) {
  constexpr u32 kCount = kSanitized ? 6 : 16;
  Runtime runtime(options());
  std::vector<std::shared_future<Operator<>>> futures;
  for (u32 i = 0; i < kCount; ++i) {
    const std::string name = "store" + std::to_string(i);
    futures.push_back(runtime.define_async(name, store(name, 100 + i)));
  }
  auto cells = filled<u32>(runtime, kCount, 0);
  for (u32 i = 0; i < kCount; ++i) runtime.submit(futures[i].get(), cells, i);
  std::vector<u32> expected;
  for (u32 i = 0; i < kCount; ++i) expected.push_back(100 + i);
  EXPECT_EQ(read(cells), expected);
  EXPECT_LE(runtime.metrics().images, kCount);
}

TEST_P(AsyncTest, TasksFlowMeanwhile) {
  Runtime runtime(options());
  Operator<> mark = runtime.define("mark", store("mark", 1));
  auto cells = filled<u32>(runtime, 1, 0);
  const auto done = mark.redefine_async(store("mark", 2));
  u32 rounds = 0;
  while (done.wait_for(0s) != std::future_status::ready) {
    runtime.submit(mark, cells, 0U).wait();
    ++rounds;
  }
  EXPECT_GT(rounds, 0U);
  done.get();
  EXPECT_EQ(mark.version(), 2U);
  runtime.submit(mark, cells, 0U).wait();
  EXPECT_EQ(read(cells), std::vector<u32>{2});
}

TEST_P(AsyncTest, VersionsFollowTheOrderOfRequests) {
  Runtime runtime(options());
  Operator<> mark = runtime.define("mark", store("mark", 1));
  auto cells = filled<u32>(runtime, 1, 0);
  std::vector<std::shared_future<void>> futures;
  for (u32 i = 2; i < 8; ++i) futures.push_back(mark.redefine_async(store("mark", i)));
  mark.redefine(store("mark", 8));
  for (const auto& future : futures) EXPECT_EQ(future.wait_for(0s), std::future_status::ready) << "it was asked for before";
  EXPECT_EQ(mark.version(), 8U);
  runtime.submit(mark, cells, 0U).wait();
  EXPECT_EQ(read(cells), std::vector<u32>{8});
}

TEST_P(AsyncTest, FutureThrowsTheFailure) {
  Runtime runtime(options());
  const auto bad = runtime.define_async("bad", "DWELL_OPERATOR(bad)(dwell::Group g) { nonsense(); }");
  const auto good = runtime.define_async("good", store("good", 1));
  DWELL_EXPECT_ERROR(bad.get(), errc::compile_failed, HasSubstr("nonsense"));
  EXPECT_EQ(good.get().name(), "good");
  DWELL_EXPECT_ERROR_FIELDS(runtime.define_async("good", store("good", 2)), errc::invalid_argument, "operator", "good");
  Operator<> later = runtime.define("bad", store("bad", 1));
  DWELL_EXPECT_ERROR_FIELDS(later.redefine_async("DWELL_OPERATOR(bad)(dwell::Group g, int x) {}").get(), errc::signature_mismatch,
                            "operator", "bad");
  EXPECT_EQ(later.version(), 1U);
}

TEST_P(AsyncTest, EqualRequestsAreMerged) {
  Runtime runtime(options());
  const std::string source = store("same", 1);
  std::vector<std::shared_future<Operator<>>> futures;
  for (int i = 0; i < 8; ++i) futures.push_back(runtime.define_async("same", source));
  for (const auto& future : futures) EXPECT_TRUE(future.get() == futures[0].get());
  EXPECT_TRUE(runtime.define_async("same", source).get() == futures[0].get());
  EXPECT_EQ(runtime.metrics().images, 1U);
}

TEST_P(AsyncTest, CallbacksRunOnceWhenTheFutureIsReady) {
  Runtime runtime(options());
  std::promise<std::string> named;
  std::promise<errc> failed;
  runtime.define_async("one", store("one", 1), {},
                       {.done = [&](const std::shared_future<Operator<>>& future) { named.set_value(future.get().name()); }});
  runtime.define_async("two", "x", {}, {.done = [&](const std::shared_future<Operator<>>& future) {
                         try {
                           future.get();
                         } catch (const Error& error) {
                           failed.set_value(error.kind());
                         }
                       }});
  EXPECT_EQ(named.get_future().get(), "one");
  EXPECT_NE(failed.get_future().get(), errc::ok);
}

TEST_P(AsyncTest, ARequestIsCancelledBeforeItsTurn) {
  Options one = options();
  one.compile_threads = 1;
  Runtime runtime(one);
  std::stop_source stop;
  const auto first = runtime.define_async("first", store("first", 1));
  const auto second = runtime.define_async("second", store("second", 1), {}, {.stop = stop.get_token()});
  stop.request_stop();
  EXPECT_EQ(second.wait_for(0s), std::future_status::ready);
  DWELL_EXPECT_ERROR(second.get(), errc::cancelled, HasSubstr("'second'"));
  EXPECT_EQ(first.get().name(), "first");
  const auto third = runtime.define_async("third", store("third", 1), {}, {.stop = stop.get_token()});
  DWELL_EXPECT_ERROR(third.get(), errc::cancelled, HasSubstr("'third'"));
  EXPECT_EQ(runtime.define("second", store("second", 2)).version(), 1U) << "the name is free again";
}

TEST_P(AsyncTest, CloseEndsPendingDefinitions) {
  Options one = options();
  one.compile_threads = 1;
  std::vector<std::shared_future<Operator<>>> futures;
  {
    Runtime runtime(one);
    for (int i = 0; i < 6; ++i) {
      const std::string name = "store" + std::to_string(i);
      futures.push_back(runtime.define_async(name, store(name, 1)));
    }
  }
  int cancelled = 0;
  for (const auto& future : futures) {
    ASSERT_EQ(future.wait_for(0s), std::future_status::ready);
    try {
      future.get();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::cancelled);
      ++cancelled;
    }
  }
  EXPECT_GT(cancelled, 0);
}

}  // namespace
}  // namespace dwell::test
