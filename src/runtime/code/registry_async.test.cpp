// Operators that are defined in the background, without a compiler or a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "runtime/code/registry.hpp"
#include "tests/unit/registry_test.hpp"

namespace dwell::runtime {
namespace {

using testing::HasSubstr;

class RegistryAsyncTest : public RegistryTest {};

// What the reports of asynchronous requests said, in order.
struct Said {
  Registry::Report report(const std::string& name) {
    return [this, name](const auto&, const Error* failure) {
      const std::lock_guard lock(mutex);
      list.push_back(name +
                     (failure == nullptr ? " done" : " " + std::string(error_category().message(static_cast<int>(failure->kind())))));
      changed.notify_all();
    };
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return list.size() >= count; }));
    return list;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> list;
};

TEST_F(RegistryAsyncTest, WhatIsReadyMeanwhileSharesAHandOver) {
  Said said;
  for (const char* const name : {"a", "b", "c", "d", "e", "f"}) registry_->define_async(name, "slow", {}, said.report(name), {});
  for (const std::string& line : said.wait_for(6)) EXPECT_THAT(line, HasSubstr(" done"));
  EXPECT_LT(registry_->table().images(), 6U);
  EXPECT_EQ(image().size(), 6U);
}

TEST_F(RegistryAsyncTest, OneThatDoesNotLinkTakesNoOthersWithIt) {
  Said said;
  for (const char* const name : {"a", "b", "c"})
    registry_->define_async(name, name == std::string("b") ? "unlinkable" : "slow", {}, said.report(name), {});
  EXPECT_THAT(said.wait_for(3), testing::UnorderedElementsAre("a done", "b the operators do not link", "c done"));
  EXPECT_THAT(image(), testing::Contains("slow").Times(2));
  define("b", "b1");
}

TEST_F(RegistryAsyncTest, AFailureInTheMiddleLeavesTheOrder) {
  const auto a = define("a", "a1");
  Said said;
  registry_->redefine_async(a, std::string("slow"), nullptr, said.report("2"), {});
  registry_->redefine_async(a, std::string("error"), nullptr, said.report("none"), {});
  registry_->redefine_async(a, std::string("a3"), nullptr, said.report("3"), {});
  EXPECT_THAT(said.wait_for(3), testing::UnorderedElementsAre("2 done", "none the operator does not compile", "3 done"));
  EXPECT_EQ(a->current, 3U);
  EXPECT_EQ(image().at(opcode_of(submit(*a))), "a3");
}

TEST_F(RegistryAsyncTest, WhatIsCalledOffLetsTheNextPass) {
  const auto a = define("a", "a1");
  Said said;
  std::stop_source stop;
  registry_->redefine_async(a, std::string("slow"), nullptr, said.report("off"), stop.get_token());
  registry_->redefine_async(a, std::string("a3"), nullptr, said.report("on"), {});
  stop.request_stop();
  EXPECT_THAT(said.wait_for(2), testing::UnorderedElementsAre("off cancelled", "on done"));
  EXPECT_EQ(image().at(opcode_of(submit(*a))), "a3");
}

TEST_F(RegistryAsyncTest, EveryRequestIsAnsweredOnceHoweverItEnds) {
  // Definitions, versions, stops and the end of all, from several threads at once.
  std::atomic<int> asked{0};
  std::atomic<int> answered{0};
  const auto report = [&](const auto&, const Error*) { ++answered; };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        try {
          for (int i = 0; i < 40; ++i) {
            std::stop_source stop;
            const std::string name = "op" + std::to_string(t) + "_" + std::to_string(i);
            registry_->define_async(name, i % 7 == 0 ? "error" : "slow", {}, report, stop.get_token());
            ++asked;
            if (i % 3 == 0) stop.request_stop();
            if (i % 5 == 0) {
              const auto own = define(name + "x", "x");
              registry_->redefine_async(own, std::string("y"), nullptr, report, {});
              ++asked;
            }
          }
        } catch (const Error& error) {
          EXPECT_TRUE(error.kind() == errc::closed || error.kind() == errc::cancelled) << error.what();
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    registry_->close();
  }
  EXPECT_GT(asked, 3);
  EXPECT_EQ(answered, asked);
}

}  // namespace
}  // namespace dwell::runtime
