// Operators defined in the background, without a compiler or a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "runtime/program/registry.hpp"
#include "tests/unit/registry_test.hpp"

namespace dwell::runtime {
namespace {

using testing::HasSubstr;

class RegistryAsyncTest : public RegistryTest {};

// Reports of asynchronous requests, in order.
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

TEST_F(RegistryAsyncTest, VersionsReadyMeanwhileShareAHandOver) {
  Said said;
  for (const char* const name : {"a", "b", "c", "d", "e", "f"}) registry_->define_async(name, "slow", {}, said.report(name), {});
  for (const std::string& line : said.wait_for(6)) EXPECT_THAT(line, HasSubstr(" done"));
  EXPECT_LT(registry_->table().images(), 6U);
  EXPECT_EQ(image().size(), 6U);
}

TEST_F(RegistryAsyncTest, AFailedLinkFailsOnlyItsOwnDefinition) {
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

TEST_F(RegistryAsyncTest, CancelledRequestReleasesTheNext) {
  const auto a = define("a", "a1");
  Said said;
  std::stop_source stop;
  registry_->redefine_async(a, std::string("slow"), nullptr, said.report("off"), stop.get_token());
  registry_->redefine_async(a, std::string("a3"), nullptr, said.report("on"), {});
  stop.request_stop();
  EXPECT_THAT(said.wait_for(2), testing::UnorderedElementsAre("off cancelled", "on done"));
  EXPECT_EQ(image().at(opcode_of(submit(*a))), "a3");
}

// Threads wait at a step until the test lets them pass.
class Step {
 public:
  void arrive() {
    arrived_.set_value();
    passed_.get_future().wait();
  }
  void await() { arrived_.get_future().wait(); }
  void let_pass() { passed_.set_value(); }

 private:
  std::promise<void> arrived_;
  std::promise<void> passed_;
};

TEST_F(RegistryAsyncTest, EqualRequestsAreStoppedOneByOne) {
  for (const int stopped : {0, 1}) {
    const std::string name = "a" + std::to_string(stopped);
    Step compiling;
    workshop_->on_compile = [&](const std::string& text) {
      if (text == name) compiling.arrive();
    };
    Said said;
    std::stop_source stops[2];
    for (int i = 0; i < 2; ++i) registry_->define_async(name, name, {}, said.report(std::to_string(i)), stops[i].get_token());
    compiling.await();
    stops[stopped].request_stop();
    EXPECT_THAT(said.wait_for(1), testing::ElementsAre(std::to_string(stopped) + " cancelled"));
    compiling.let_pass();
    EXPECT_THAT(said.wait_for(2), testing::Contains(std::to_string(1 - stopped) + " done"));
    EXPECT_EQ(kind_of([&] { define(name, name); }), errc::invalid_argument) << "it is not defined";
  }
}

TEST_F(RegistryAsyncTest, DefinitionIsCancelledWithItsLastRequest) {
  Step compiling;
  workshop_->on_compile = [&](const std::string& text) {
    if (text == "a1") compiling.arrive();
  };
  Said said;
  std::stop_source stops[2];
  for (int i = 0; i < 2; ++i) registry_->define_async("a", "a1", {}, said.report(std::to_string(i)), stops[i].get_token());
  compiling.await();
  for (std::stop_source& stop : stops) stop.request_stop();
  EXPECT_THAT(said.wait_for(2), testing::ElementsAre("0 cancelled", "1 cancelled"));
  compiling.let_pass();
  define("a", "a2");
  EXPECT_EQ(image(), std::vector<std::string>{"a2"});
  registry_->close();  // waits for the first compilation, which uses `compiling`
}

TEST_F(RegistryAsyncTest, AStopAskedForBeforeTheRequestCancelsIt) {
  Said said;
  std::stop_source stop;
  stop.request_stop();
  registry_->define_async("a", "slow", {}, said.report("a"), stop.get_token());
  EXPECT_THAT(said.wait_for(1), testing::ElementsAre("a cancelled"));
}

TEST_F(RegistryAsyncTest, TheEndWaitsForAStopUnderWay) {
  const auto a = define("a", "a1");
  Step compiling;
  workshop_->on_compile = [&](const std::string& text) {
    if (text == "a2") compiling.arrive();
  };
  Step reporting;
  std::stop_source stop;
  registry_->redefine_async(
      a, std::string("a2"), nullptr, [&](const auto&, const Error*) { reporting.arrive(); }, stop.get_token());
  compiling.await();
  std::jthread stopper([&] { stop.request_stop(); });
  reporting.await();  // in the registry, on the stopper's thread
  compiling.let_pass();
  std::atomic<bool> ended{false};
  std::jthread end([&] {
    registry_.reset();
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(ended);
  reporting.let_pass();
  end.join();
}

TEST_F(RegistryAsyncTest, RequestsNotBeingHandedOverAreCancelledAtOnce) {
  // A report of close holds it up; a compilation that ends meanwhile must not be handed over.
  const auto a = define("a", "a1");
  const auto b = define("b", "b1");
  const int images = device_->loads;
  Step compiling_a;
  Step compiling_b;
  workshop_->on_compile = [&](const std::string& text) {
    if (text == "a2") compiling_a.arrive();
    if (text == "b2") compiling_b.arrive();
  };
  Step reporting;
  registry_->redefine_async(a, std::string("a2"), nullptr, [&](const auto&, const Error*) { reporting.arrive(); }, {});
  compiling_a.await();
  std::jthread redefines([&] { EXPECT_EQ(kind_of([&] { registry_->redefine(b, std::string("b2")); }), errc::cancelled); });
  compiling_b.await();
  std::jthread closes([&] { registry_->close(); });
  reporting.await();
  compiling_b.let_pass();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  reporting.let_pass();
  compiling_a.let_pass();
  closes.join();
  redefines.join();
  EXPECT_EQ(device_->loads, images);
}

TEST_F(RegistryAsyncTest, TheEndWaitsForTheHandOverUnderWay) {
  const auto a = define("a", "a1");
  Step loading;
  device_->on_load = [&] { loading.arrive(); };
  std::jthread redefines([&] { registry_->redefine(a, std::string("a2")); });
  loading.await();
  device_->on_load = {};
  std::atomic<bool> closed{false};
  std::jthread closes([&] {
    registry_->close();
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(closed);
  loading.let_pass();
  closes.join();
  redefines.join();
  EXPECT_EQ(a->current, 2U);
  EXPECT_EQ(kind_of([&] { registry_->rollback(*a); }), errc::closed);
}

TEST_F(RegistryAsyncTest, EveryRequestIsAnsweredOnce) {
  // Definitions, versions, stops and the close, from several threads at once.
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
