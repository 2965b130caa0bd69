// A runtime whose device is lost and reopened, and the fate of older handles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <dwell/device/status.hpp>
#include <dwell/dwell.hpp>

#include "live/flight.hpp"
#include "runtime/generations.hpp"
#include "tests/unit/breakable_backend.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kStore = R"(
DWELL_OPERATOR(store)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 value) {
  for (auto i : g.local_range(static_cast<dwell::u32>(cells.size()))) cells[i] = value;
})";
using Store = void(Span<u32>, u32);
constexpr const char* kFail = R"(
DWELL_OPERATOR(fail)(dwell::Group g, dwell::i32 code) {
  if (g.rank() == 0) g.fail(code);
})";
using Fail = void(i32);

#define DWELL_EXPECT_STALE(statement, matches)                                        \
  do {                                                                                \
    const Error thrown = error_of([&] { static_cast<void>(statement); });             \
    EXPECT_EQ(thrown.kind(), errc::stale_handle) << #statement ": " << thrown.what(); \
    EXPECT_THAT(thrown.message(), matches) << #statement;                             \
  } while (false)

class RebuildTest : public testing::Test {
 protected:
  static Options options() {
    Options options;
    options.workers = 1;
    options.ring_slots = 128;
    return options;
  }
  Runtime open(const Options& with = options(), std::uint64_t first_position = 64) {
    return detail::runtime_on(with, opener(device_), first_position);
  }
  static std::vector<u32> read(const Buffer<u32>& buffer) {
    std::vector<u32> to(buffer.size());
    buffer.read(to);
    return to;
  }
  // Breaks the device under tasks from `submit`, which never run.
  void lose(Runtime& runtime, const std::function<void()>& submit) {
    runtime.park();
    submit();
    device_->break_now();
    EXPECT_EQ(error_of([&] {
                runtime.resume();
                runtime.wait_all();
              }).kind(),
              errc::device_lost);
  }
  static std::string name_of(const Runtime& runtime) { return "runtime " + std::to_string(runtime.info().runtime); }

  std::shared_ptr<BreakableDevice> device_ = std::make_shared<BreakableDevice>();
};

TEST_F(RebuildTest, ARebuiltRuntimeWorksAndOldHandlesAreStale) {
  Runtime runtime = open();
  const std::string name = name_of(runtime);
  const Operator<> untyped = runtime.define("store", kStore);
  Operator<Store> store(untyped);
  auto fail = runtime.define<Fail>("fail", kFail);
  auto cells = runtime.allocate<u32>(1024);
  const Ticket good = runtime.submit(store, cells, 7U);
  const Ticket bad = runtime.submit(fail, 12);
  runtime.wait_all();
  EXPECT_EQ(runtime.info().generation, 1U);
  std::vector<Ticket> lost;
  lose(runtime, [&] {
    for (u32 i = 0; i < 10; ++i) lost.push_back(runtime.submit(store, cells, i));
  });
  for (const Ticket& ticket : lost) EXPECT_EQ(error_of([&] { ticket.wait(); }).kind(), errc::device_lost);
  const std::uint64_t before = lost.back().position();

  runtime.rebuild();
  EXPECT_EQ(runtime.info().generation, 2U);
  EXPECT_EQ(name_of(runtime), name);
  EXPECT_EQ(device_->opened, 2);
  EXPECT_EQ(device_->alive, 1);

  const auto moved = "belongs to generation 1 of " + name + ", which is at generation 2 since it was rebuilt";
  const auto buffer = AllOf(HasSubstr("buffer of 4096 bytes " + moved), HasSubstr("allocate it again"));
  const auto op = AllOf(HasSubstr("operator 'store' " + moved), HasSubstr("define it again"));
  auto fresh = runtime.allocate<u32>(16);
  auto again = runtime.define<Store>("store", kStore);
  DWELL_EXPECT_STALE(runtime.submit(store, fresh, 1U), op);
  DWELL_EXPECT_STALE(runtime.try_submit(store, fresh, 1U), op);
  DWELL_EXPECT_STALE(runtime.submit_many(store, 1, [&](std::size_t, auto&& put) { put(fresh, 1U); }), op);
  DWELL_EXPECT_STALE(runtime.submit(untyped, Arguments().add(fresh).add(1U)), op);
  DWELL_EXPECT_STALE(store.redefine(kStore), op);
  DWELL_EXPECT_STALE(store.rollback(), op);
  DWELL_EXPECT_STALE(runtime.submit(again, cells, 1U), buffer);
  DWELL_EXPECT_STALE(runtime.submit(again, cells.slice(1, 2), 1U), buffer);
  DWELL_EXPECT_STALE(read(cells), buffer);
  DWELL_EXPECT_STALE(cells.write(std::vector<u32>(1)), buffer);
  DWELL_EXPECT_STALE(cells.host(), buffer);
  EXPECT_EQ(store.name(), "store");
  EXPECT_EQ(store.version(), 1U);
  EXPECT_EQ(cells.size(), 1024U);

  EXPECT_NO_THROW(good.wait());
  EXPECT_EQ(good.status(), status::ok);
  EXPECT_EQ(error_of([&] { bad.wait(); }).kind(), errc::task_failed);
  EXPECT_EQ(bad.status(), 12);
  for (const Ticket& ticket : lost) {
    const auto message = AllOf(HasSubstr("ticket " + std::to_string(ticket.position()) + " " + moved),
                               AnyOf(HasSubstr("the device is broken"), HasSubstr("it broke")));  // as seen by the submitter or the keeper
    DWELL_EXPECT_STALE(ticket.wait(), message);
    DWELL_EXPECT_STALE(ticket.wait_for(std::chrono::seconds(1)), message);
    EXPECT_TRUE(ticket.done());
    EXPECT_EQ(ticket.status(), status::lost);
  }

  const Ticket first = runtime.submit(again, fresh, 5U);
  EXPECT_GT(first.position(), before);
  EXPECT_EQ(first.position() % 64, 0U);
  first.wait();
  EXPECT_THAT(read(fresh), Each(5U));
  cells = {};
  runtime.close();
  DWELL_EXPECT_STALE(read(fresh), HasSubstr("buffer of 64 bytes belongs to generation 2 of " + name + ", which is closed"));
  DWELL_EXPECT_STALE(store.rollback(), HasSubstr("belongs to generation 1 of " + name + ", which is closed, at generation 2"));
  DWELL_EXPECT_STALE(lost[0].wait(), HasSubstr("which is closed, at generation 2; it was lost with the device"));
  EXPECT_EQ(device_->alive, 0);
  EXPECT_EQ(device_->held, 0);
}

TEST_F(RebuildTest, ArgumentsOfAnEarlierGenerationAreStale) {
  Runtime runtime = open();
  Operator<> before = runtime.define("store", kStore);
  auto old = runtime.allocate<u32>(4);
  Arguments began;
  began.add(old);
  Arguments whole = began;
  whole.add(1U);
  lose(runtime, [&] { runtime.submit(before, whole); });
  runtime.rebuild();
  auto fresh = runtime.allocate<u32>(4);
  Operator<> store = runtime.define("store", kStore);
  DWELL_EXPECT_STALE(runtime.submit(store, whole), HasSubstr("a buffer among the arguments belongs to generation 1"));
  DWELL_EXPECT_STALE(began.add(fresh), HasSubstr("a buffer among the arguments belongs to generation 1"));
  DWELL_EXPECT_STALE(Arguments().add(fresh).add(old), HasSubstr("buffer of 16 bytes belongs to generation 1"));
}

// Belongs to the same kind of device: a launch cannot be cancelled, but the runtime still closes.
TEST_F(RebuildTest, ARuntimeClosesBehindAHangingKernel) {
  Options strict = options();
  strict.task_timeout = std::chrono::milliseconds(200);
  device_->kernels_hang = true;
  Runtime runtime = open(strict);
  auto store = runtime.define<Store>("store", kStore);
  auto cells = runtime.allocate<u32>(4);
  const Ticket stored = runtime.submit(store, cells, 7U);
  const Ticket launched = runtime.compile("spin").kernel("spin").launch({});
  const Error error = error_of([&] { runtime.close(); });
  EXPECT_EQ(error.kind(), errc::task_timeout);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("200 ms"), HasSubstr("spin (launch 0)")));
  EXPECT_EQ(stored.status(), status::ok);
  EXPECT_EQ(error_of([&] { launched.wait(); }).kind(), errc::device_lost);
  EXPECT_EQ(device_->alive, 0);
}

TEST_F(RebuildTest, OnlyALostDeviceIsRebuilt) {
  Runtime runtime = open();
  auto store = runtime.define<Store>("store", kStore);
  auto cells = runtime.allocate<u32>(4);
  EXPECT_EQ(error_of([&] { runtime.rebuild(); }).kind(), errc::invalid_argument);
  runtime.submit(store, cells, 3U).wait();
  EXPECT_THAT(read(cells), Each(3U));
  runtime.close();
  EXPECT_EQ(error_of([&] { runtime.rebuild(); }).kind(), errc::closed);
  Runtime moved = std::move(runtime);
  EXPECT_EQ(error_of([&] { runtime.rebuild(); }).kind(), errc::closed);  // NOLINT(bugprone-use-after-move)
}

TEST_F(RebuildTest, FlightFileListsTasksOfALostDevice) {
  Runtime runtime = open();
  const auto store = runtime.define<Store>("store", kStore);
  const auto cells = runtime.allocate<u32>(4);
  Graph graph("step");
  graph.add(store, cells, 1U);
  graph.add("second", store, cells, 2U);
  runtime.launch(runtime.instantiate(graph)).wait();
  const Ticket ticket = runtime.submit(store, cells, 7U);
  ticket.wait();
  lose(runtime, [&] { runtime.submit(store, cells, 8U); });
  const std::string text = error_of([&] { runtime.wait_all(); }).message();
  const std::string before = "dwell post-mortem ";
  ASSERT_THAT(text, HasSubstr(before));
  const std::filesystem::path path = text.substr(text.find(before) + before.size());
  const std::string told = to_string(live::read_flight(path));
  std::filesystem::remove(path);
  EXPECT_THAT(told, HasSubstr("  graph 'step', ticket 64, lease "));
  EXPECT_THAT(told, testing::ContainsRegex("  second: store .version 1. .0x[0-9a-f]+.4., 2., node at 0x"));
  EXPECT_THAT(told, testing::ContainsRegex("  store .version 1. .0x[0-9a-f]+.4., 7., ticket " + std::to_string(ticket.position())));
  EXPECT_THAT(told, Not(HasSubstr(", 8)"))) << "it was never about to run";
}

TEST_F(RebuildTest, EarlierLogLinesOfALostDeviceAreDelivered) {
  Options logging = options();
  std::mutex mutex;
  std::vector<std::string> lines;
  std::promise<void> first;
  std::once_flag once;
  logging.log.sink = [&](const LogRecord& record) {
    std::call_once(once, [&] { first.set_value(); });
    const std::lock_guard lock(mutex);  // blocks the log thread until the device is lost
    lines.push_back(record.text);
  };
  constexpr u32 kTasks = 100;
  {
    std::unique_lock slow(mutex);
    Runtime runtime = open(logging);
    const auto say = runtime.define<void(u32)>("say", R"(
DWELL_OPERATOR(say)(dwell::Group g, dwell::u32 number) {
  if (g.rank() == 0) dwell::log(g, dwell::level::warning, "line {}", number);
})");
    for (u32 i = 0; i < kTasks; ++i) runtime.submit(say, i);
    runtime.wait_all();
    first.get_future().wait();  // the format has been read
    lose(runtime, [&] { runtime.submit(say, kTasks); });
    slow.unlock();
    static_cast<void>(error_of([&] { runtime.close(); }));
  }
  const std::lock_guard lock(mutex);
  ASSERT_EQ(lines.size(), kTasks);
  for (u32 i = 0; i < kTasks; ++i) EXPECT_EQ(lines[i], "line " + std::to_string(i));
}

// A fault that no lease has seen yet: rebuild asks the device.
TEST_F(RebuildTest, RebuildsAfterAnUnseenFault) {
  Runtime runtime = open();
  device_->break_now();
  runtime.rebuild();
  EXPECT_EQ(runtime.info().generation, 2U);
  runtime.define("store", kStore);
}

TEST_F(RebuildTest, AHangingTaskKeepsTheDeviceFromBeingRebuilt) {
  Runtime runtime = open();
  auto store = runtime.define<Store>("store", kStore);
  auto cells = runtime.allocate<u32>(4);
  lose(runtime, [&] { runtime.submit(store, cells, 1U); });
  device_->stuck = true;
  const Error refused = error_of([&] { runtime.rebuild(); });
  EXPECT_EQ(refused.kind(), errc::device_lost);
  EXPECT_THAT(refused.message(), HasSubstr("breakable cannot be opened again: something hangs on it"));
  EXPECT_EQ(error_of([&] { read(cells); }).kind(), errc::device_lost);
  EXPECT_EQ(device_->alive, 1);
  device_->stuck = false;
  runtime.rebuild();
  EXPECT_EQ(device_->alive, 1);
  EXPECT_EQ(runtime.info().generation, 2U);
}

TEST_F(RebuildTest, AFailedRebuildMayBeTriedAgain) {
  Runtime runtime = open();
  auto store = runtime.define<Store>("store", kStore);
  auto cells = runtime.allocate<u32>(4);
  Ticket lost;
  lose(runtime, [&] { lost = runtime.submit(store, cells, 1U); });
  device_->missing = true;
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(error_of([&] { runtime.rebuild(); }).kind(), errc::device_unavailable);
    EXPECT_EQ(device_->alive, 0);
    EXPECT_EQ(device_->held, 0) << "memory or images of the lost device are kept";
    // Everything fails as before.
    const std::vector<std::function<void()>> calls = {[&] { runtime.submit(store, cells, 1U); },
                                                      [&] { runtime.define("other", kStore); },
                                                      [&] { runtime.allocate<u32>(1); },
                                                      [&] { runtime.wait_all(); },
                                                      [&] { runtime.park(); },
                                                      [&] { static_cast<void>(runtime.info()); },
                                                      [&] { store.redefine(kStore); },
                                                      [&] { read(cells); },
                                                      [&] { lost.wait(); }};
    for (std::size_t i = 0; i < calls.size(); ++i) {
      SCOPED_TRACE(i);
      const Error failure = error_of(calls[i]);
      EXPECT_EQ(failure.kind(), errc::device_lost) << failure.what();
      EXPECT_THAT(failure.message(), HasSubstr("the device is broken"));
    }
    EXPECT_EQ(lost.status(), status::lost);
  }
  device_->missing = false;
  runtime.rebuild();
  EXPECT_EQ(runtime.info().generation, 2U);
  DWELL_EXPECT_STALE(lost.wait(), HasSubstr("at generation 2"));
}

TEST_F(RebuildTest, AFailedRebuildCanBeClosed) {
  Runtime runtime = open();
  auto store = runtime.define<Store>("store", kStore);
  auto cells = runtime.allocate<u32>(4);
  lose(runtime, [&] { runtime.submit(store, cells, 1U); });
  device_->missing = true;
  EXPECT_EQ(error_of([&] { runtime.rebuild(); }).kind(), errc::device_unavailable);
  EXPECT_EQ(error_of([&] { runtime.close(); }).kind(), errc::device_lost);
  EXPECT_NO_THROW(runtime.close());
  EXPECT_EQ(error_of([&] { runtime.rebuild(); }).kind(), errc::closed);
  DWELL_EXPECT_STALE(read(cells), HasSubstr("which is closed"));
}

TEST_F(RebuildTest, CallbacksOfLostTasksAreCalled) {
  Runtime runtime = open();
  auto store = runtime.define<Store>("store", kStore);
  auto cells = runtime.allocate<u32>(4);
  std::atomic<int> lost{0};
  lose(runtime, [&] {
    for (int i = 0; i < 3; ++i)
      runtime.submit(store, cells, 1U).then([&](const Ticket& ticket) {
        EXPECT_EQ(error_of([&] { ticket.wait(); }).kind(), errc::device_lost);
        ++lost;
      });
  });
  runtime.rebuild();
  EXPECT_EQ(lost, 3);
}

// Crosses the wrap-around of the device's 32-bit positions.
TEST_F(RebuildTest, ARuntimeIsRebuiltManyTimes) {
  Runtime runtime = open(options(), (1ULL << 32U) - 512);
  std::uint64_t last = 0;
  std::vector<Ticket> done;
  for (u32 turn = 1; turn <= 5; ++turn) {
    auto store = runtime.define<Store>("store", kStore);
    auto cells = runtime.allocate<u32>(4);
    for (u32 i = 0; i < 200; ++i) runtime.submit(store, cells, turn);
    done.push_back(runtime.submit(store, cells, turn));
    EXPECT_THAT(read(cells), Each(turn));
    EXPECT_GT(done.back().position(), last);
    last = done.back().position();
    lose(runtime, [&] { runtime.submit(store, cells, 0U); });
    runtime.rebuild();
    EXPECT_EQ(runtime.info().generation, turn + 1);
  }
  EXPECT_GT(last, 1ULL << 32U);
  for (const Ticket& ticket : done) EXPECT_EQ(ticket.status(), status::ok);
}

// Other threads use their handles while the runtime is rebuilt. Their errors come in order.
TEST_F(RebuildTest, HandlesMayBeUsedDuringARebuild) {
  Runtime runtime = open();
  for (int turn = 0; turn < 20; ++turn) {
    auto store = runtime.define<Store>("store", kStore);
    auto used = runtime.allocate<u32>(64);
    std::vector<Buffer<u32>> dropped;
    for (int i = 0; i < 50; ++i) dropped.push_back(runtime.allocate<u32>(64));
    const Ticket good = runtime.submit(store, used, 1U);
    good.wait();
    Ticket lost;
    std::atomic<int> ready{0};
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto await = [&ready] {
      ++ready;
      while (ready < 5) {}
    };
    // Calls until the handle is stale: first calls succeed, then the device is lost, then the handle is stale.
    const auto until_stale = [&](const std::function<void()>& call) {
      return std::jthread([&await, limit, call] {
        await();
        errc seen = errc::ok;
        while (seen != errc::stale_handle && std::chrono::steady_clock::now() < limit) {
          const Error told = error_of(call);
          EXPECT_THAT(told.kind(), testing::AnyOf(errc::ok, errc::device_lost, errc::stale_handle)) << told.what();
          EXPECT_TRUE(told.kind() != errc::ok || seen == errc::ok) << told.what();
          seen = told.kind();
        }
        EXPECT_EQ(seen, errc::stale_handle);
      });
    };
    lose(runtime, [&] { lost = runtime.submit(store, used, 2U); });
    std::vector<std::jthread> threads;
    threads.push_back(until_stale([&] { read(used); }));
    threads.push_back(until_stale([&] { lost.wait(); }));
    threads.push_back(until_stale([&] {
      EXPECT_EQ(good.status(), status::ok);
      EXPECT_TRUE(good.done() && lost.done());
      EXPECT_EQ(lost.status(), status::lost);
      try {
        store.rollback();
      } catch (const Error& error) {
        if (error.kind() != errc::no_previous_version) throw;
      }
    }));
    threads.emplace_back([&] {
      await();
      while (!dropped.empty()) dropped.pop_back();
    });
    await();
    ASSERT_NO_THROW(runtime.rebuild());
  }
}

}  // namespace
}  // namespace dwell::test
