#include "heap_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>
#include <string>

#include <dwell/error.hpp>
#include <nlohmann/json.hpp>

#include "live/published.hpp"
#include "tests/unit/live.hpp"

namespace dwell::tool {
namespace {

using testing::HasSubstr;

class HeapCommand : public test::LiveTest {
 protected:
  HeapCommand() {
    source_.runtime = 1;
    source_.heap = [this] { return has_heap_ ? test::heap_of_two() : HeapStatistics{}; };
    source_.census = [this] { return test::census_after(++looks_); };
    source_.verify = [this] { return HeapVerification{mistakes_, 65536, 7}; };
  }

  // Returns what it prints.
  static std::string run(const HeapLookOptions& options, Exit expected = Exit::success) {
    std::ostringstream out;
    EXPECT_EQ(heap_command(options, out), expected);
    return out.str();
  }
  static std::string head(const std::string& what) { return what + " of process " + std::to_string(getpid()) + ", runtime 1: "; }
  static nlohmann::json json(HeapLookOptions options, Exit expected = Exit::success) {
    options.json = true;
    nlohmann::json all = nlohmann::json::parse(run(options, expected));
    EXPECT_EQ(all["pid"], getpid());
    EXPECT_EQ(all["runtime"], 1);
    return all;
  }

  live::Source source_;
  bool has_heap_ = true;
  std::atomic<std::uint64_t> looks_{0};
  std::uint64_t mistakes_ = 0;
};

TEST_F(HeapCommand, PrintsCounts) {
  const live::Published published(source_, {});
  EXPECT_THAT(run({}), testing::AllOf(testing::StartsWith(head("heap") + "32.0 MiB of"), HasSubstr("collections 3;")));
  EXPECT_EQ(json({})["mapped"], 32 << 20);
  EXPECT_EQ(looks_, 0U) << "nothing stops the process";
}

TEST_F(HeapCommand, PrintsTypes) {
  const live::Published published(source_, {});
  EXPECT_THAT(run({.types = true}), HasSubstr("Node      100"));
  EXPECT_EQ(json({.types = true})["types"][0]["objects"], 200);
}

TEST_F(HeapCommand, FailsWhenTheTablesHaveMistakes) {
  const live::Published published(source_, {});
  EXPECT_EQ(run({.verify = true}), head("heap") + "7 live allocations, 0 mistakes in the tables\n");
  mistakes_ = 2;
  EXPECT_THAT(run({.verify = true}, Exit::failed), HasSubstr("2 mistakes"));
  EXPECT_EQ(json({.verify = true}, Exit::failed)["mistakes"], 2);
}

TEST_F(HeapCommand, WatchPrintsWhatHasGrown) {
  const live::Published published(source_, {});
  EXPECT_THAT(run({.watch = 0.01}), testing::AllOf(testing::StartsWith(head("growth of the heap") + "in "), HasSubstr("+100")));
  const nlohmann::json growth = json({.watch = 0.01})["growth"];
  ASSERT_EQ(growth.size(), 1U);
  EXPECT_EQ(growth[0]["more_bytes"], 3200);
}

TEST_F(HeapCommand, SaysThatThereIsNoHeap) {
  has_heap_ = false;
  const live::Published published(source_, {});
  EXPECT_THAT(run({.types = true}), HasSubstr("runtime 1: no heap"));
  EXPECT_EQ(json({})["reserved"], 0);
}

TEST_F(HeapCommand, RefusesMistakesOfTheUser) {
  const live::Published published(source_, {});
  for (const auto& [options, message] : {std::pair{HeapLookOptions{.types = true, .verify = true}, "one at a time"},
                                         {HeapLookOptions{.watch = -1}, "0.01 to 86400 seconds"},
                                         {HeapLookOptions{.look = {.runtime = 9}}, "has the runtimes 1"}}) {
    std::ostringstream out;
    try {
      heap_command(options, out);
      ADD_FAILURE() << message;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.exit(), Exit::mistake);
      EXPECT_THAT(failure.what(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace dwell::tool
