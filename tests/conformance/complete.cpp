// Completion notifications: callbacks, coroutines, an eventfd.
#include <poll.h>
#include <unistd.h>

#include <coroutine>
#include <future>
#include <stdexcept>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class CompleteTest : public DeviceTest {
 protected:
  // Reads and resets the count of an eventfd.
  static std::uint64_t counted(int fd) {
    std::uint64_t count = 0;
    return ::read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
  }
  static bool readable(int fd, std::chrono::milliseconds limit) {
    pollfd poll{fd, POLLIN, 0};
    return ::poll(&poll, 1, static_cast<int>(limit.count())) == 1;
  }
};
DWELL_ON_EVERY_DEVICE(CompleteTest);

TEST_P(CompleteTest, CallsBackOnceTheTaskIsComplete) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  const Ticket ticket = runtime.submit(hold, latch.words());
  std::promise<Ticket> called;
  std::atomic<std::thread::id> thread;
  ticket.then([&](const Ticket& done) {
    thread = std::this_thread::get_id();
    called.set_value(done);
  });
  latch.await();
  auto future = called.get_future();
  EXPECT_EQ(future.wait_for(20ms), std::future_status::timeout);
  latch.release();
  const Ticket done = future.get();
  EXPECT_TRUE(done.done());
  EXPECT_EQ(done.position(), ticket.position());
  EXPECT_NE(thread.load(), std::this_thread::get_id());
  // The same with a complete ticket, and with a copy.
  std::promise<int> again;
  const Ticket copy(done);
  copy.then([&](const Ticket& which) { again.set_value(which.status()); });
  EXPECT_EQ(again.get_future().get(), status::ok);
}

TEST_P(CompleteTest, EachCallbackRunsOnce) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  constexpr u32 kTasks = kSanitized ? 500 : 3000;
  auto cells = filled<u32>(runtime, kTasks, 0);
  std::vector<std::atomic<u32>> calls(kTasks);
  std::atomic<u32> all{0};
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < 3; ++me)
    threads.emplace_back([&, me] {
      for (u32 i = me; i < kTasks; i += 3)
        runtime.submit(add, cells, i, 1U).then([&, i](const Ticket& ticket) {
          EXPECT_TRUE(ticket.done());
          ++calls[i];
          ++all;
        });
    });
  threads.clear();
  EXPECT_TRUE(eventually([&] { return all == kTasks; }));
  for (const auto& call : calls) EXPECT_EQ(call, 1U);
  EXPECT_THAT(read(cells), testing::Each(1U));
}

TEST_P(CompleteTest, CallbacksUseTheRuntime) {
  Runtime runtime(options());
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  constexpr u32 kSteps = 50;
  std::promise<void> ended;
  std::function<void(const Ticket&)> next = [&, step = 0U](const Ticket& before) mutable {
    before.wait();
    if (++step == kSteps) return ended.set_value();
    const Ticket ticket = runtime.submit(append, number, step);
    if (step % 7 == 0) ticket.wait();
    ticket.then([&](const Ticket& each) { next(each); });
  };
  runtime.submit(append, number, 0U).then([&](const Ticket& each) { next(each); });
  ended.get_future().get();
  EXPECT_EQ(read(number)[0], appended(kSteps));
}

TEST_P(CompleteTest, CallbacksRunForFailedTasksToo) {
  Runtime runtime(options());
  auto fail = runtime.define<Fail>("fail", kFail);
  std::promise<int> status;
  runtime.submit(fail, 42).then([&](const Ticket& ticket) { status.set_value(ticket.status()); });
  EXPECT_EQ(status.get_future().get(), 42);
}

TEST_P(CompleteTest, AnExceptionOfACallbackGoesToWarn) {
  Options warned = options();
  std::promise<std::string> line;
  warned.warn = [&](std::string_view text) {
    if (text.find("enough") != std::string_view::npos) line.set_value(std::string(text));
  };
  Runtime runtime(warned);
  auto nothing = runtime.define("nothing", kNothing);
  const Ticket ticket = runtime.submit(nothing);
  ticket.then([](const Ticket&) { throw std::runtime_error("enough"); });
  EXPECT_THAT(line.get_future().get(), HasSubstr("a callback threw: enough"));
  // The next callback is called.
  std::promise<void> called;
  ticket.then([&](const Ticket&) { called.set_value(); });
  called.get_future().get();
}

TEST_P(CompleteTest, ATicketWithoutARuntimeCallsBackAtOnce) {
  Ticket ticket;
  int calls = 0;
  const auto here = [&, me = std::this_thread::get_id()](const Ticket&) {
    EXPECT_EQ(std::this_thread::get_id(), me);
    ++calls;
  };
  ticket.then(here);
  ticket.notify();
  EXPECT_EQ(calls, 1);
  {
    Runtime runtime(options());
    auto nothing = runtime.define("nothing", kNothing);
    ticket = runtime.submit(nothing);
  }
  ticket.then(here);
  ticket.notify();
  EXPECT_EQ(calls, 2);
  EXPECT_THROW(ticket.then([](const Ticket&) { throw std::runtime_error("enough"); }), std::runtime_error);
}

TEST_P(CompleteTest, CloseRunsTheRemainingCallbacks) {
  for (const Close how : {Close::when_done, Close::now}) {
    Runtime runtime(options());
    auto nothing = runtime.define("nothing", kNothing);
    std::atomic<int> succeeded{0};
    std::atomic<int> cancelled{0};
    std::atomic<int> refused{0};
    runtime.submit(nothing).wait();
    runtime.park();
    constexpr int kTasks = 100;
    for (int i = 0; i < kTasks; ++i) {
      const Ticket ticket = runtime.submit(nothing);
      ticket.then([&](const Ticket& done) {
        try {
          done.wait();
          ++succeeded;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), errc::cancelled) << error.what();
          ++cancelled;
        }
        try {
          runtime.submit(nothing);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), errc::closed) << error.what();
          ++refused;
        }
        // Also while the runtime is being closed.
        done.then([&](const Ticket&) { --refused; });
      });
    }
    const int fd = runtime.completion_fd();
    const int kept = ::dup(fd);
    runtime.submit(nothing).notify();
    runtime.close(how);
    EXPECT_EQ(how == Close::when_done ? succeeded : cancelled, kTasks);
    EXPECT_EQ(how == Close::when_done ? cancelled : succeeded, 0);
    EXPECT_EQ(refused, 0);
    EXPECT_EQ(counted(kept), 1U);
    ::close(kept);
  }
}

TEST_P(CompleteTest, ThreadsAddCallbacksDuringClose) {
  for (int turn = 0; turn < 10; ++turn) {
    Runtime runtime(options());
    auto nothing = runtime.define("nothing", kNothing);
    const Ticket ticket = runtime.submit(nothing);
    std::atomic<u32> asked{0};
    std::atomic<u32> called{0};
    std::atomic<bool> stop{false};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] {
        while (!stop) {
          ++asked;
          ticket.then([&](const Ticket&) { ++called; });
        }
      });
    EXPECT_TRUE(eventually([&] { return called > 10; }));
    runtime.close(turn % 2 == 0 ? Close::when_done : Close::now);
    stop = true;
    threads.clear();
    EXPECT_EQ(called, asked);
  }
}

// A coroutine without an awaiter.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Detached steps(Runtime& runtime, Operator<Append> append, Buffer<u32>& number, u32 count, std::promise<u32>& ended) {
  for (u32 i = 0; i < count; ++i) co_await runtime.submit(append, number, i);
  ended.set_value(read(number)[0]);
}

Detached fails(Runtime& runtime, Operator<Fail> fail, std::promise<std::string>& ended) {
  try {
    co_await runtime.submit(fail, 7);
    ended.set_value("nothing thrown");
  } catch (const Error& error) {
    ended.set_value(error.kind() == errc::task_failed ? error.message() : error.what());
  }
}

Detached awaits(Ticket ticket, std::promise<errc>& ended) {
  try {
    co_await ticket;
    ended.set_value(errc::ok);
  } catch (const Error& error) {
    ended.set_value(error.kind());
  }
}

TEST_P(CompleteTest, CoroutinesAwaitTickets) {
  Runtime runtime(options());
  auto number = filled<u32>(runtime, 1, 0);
  std::promise<u32> result;
  steps(runtime, runtime.define<Append>("append", kAppend), number, 40, result);
  EXPECT_EQ(result.get_future().get(), appended(40));
  std::promise<std::string> failure;
  fails(runtime, runtime.define<Fail>("fail", kFail), failure);
  EXPECT_THAT(failure.get_future().get(), HasSubstr("failed with code 7"));
  std::promise<errc> none;
  awaits(Ticket(), none);
  EXPECT_EQ(none.get_future().get(), errc::ok);
}

TEST_P(CompleteTest, CloseResumesCoroutines) {
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  runtime.park();
  std::promise<errc> ended;
  awaits(runtime.submit(nothing), ended);
  auto future = ended.get_future();
  EXPECT_EQ(future.wait_for(10ms), std::future_status::timeout);
  runtime.close(Close::now);
  EXPECT_EQ(future.wait_for(0s), std::future_status::ready);
  EXPECT_EQ(future.get(), errc::cancelled);
}

TEST_P(CompleteTest, TheEventfdCountsNotifiedTickets) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto nothing = runtime.define("nothing", kNothing);
  const int fd = runtime.completion_fd();
  EXPECT_EQ(runtime.completion_fd(), fd);
  runtime.submit(nothing).wait();
  EXPECT_FALSE(readable(fd, 10ms)) << "nobody has asked for that ticket";
  Latch latch(runtime);
  const Ticket ticket = runtime.submit(hold, latch.words());
  ticket.notify();
  latch.await();
  EXPECT_FALSE(readable(fd, 10ms));
  latch.release();
  EXPECT_TRUE(readable(fd, 20s));
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(counted(fd), 1U);
  EXPECT_FALSE(readable(fd, 0ms));
  // Reading before checking misses none, however many notifications one read covers.
  constexpr std::size_t kTasks = 300;
  std::vector<Ticket> waiting;
  for (std::size_t i = 0; i < kTasks; ++i) {
    waiting.push_back(runtime.submit(nothing));
    waiting.back().notify();
  }
  std::uint64_t count = 0;
  while (count < kTasks && readable(fd, 20s)) {
    count += counted(fd);
    std::erase_if(waiting, [](const Ticket& each) { return each.done(); });
    EXPECT_LE(waiting.size(), kTasks - count);
  }
  EXPECT_EQ(count, kTasks);
  EXPECT_TRUE(waiting.empty());
}

}  // namespace
}  // namespace dwell::test
