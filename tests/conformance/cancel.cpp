// Tasks linked behind a failed one.
#include <unistd.h>

#include <coroutine>
#include <future>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Adds 1 to a cell, each group separately, and fails with a code other than 0.
constexpr const char* kStep = R"(
DWELL_OPERATOR(step)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::i32 code) {
  if (g.rank() != 0) return;
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
  if (code != 0 && g.index() == 0) g.fail(code);
})";

// As above with `Words` more words: a task of several slots, or with a block of memory.
template <u32 Words>
struct Extra {
  u32 word[Words];
};
std::string long_step(const std::string& name, u32 words) {
  return "struct Extra { dwell::u32 word[" + std::to_string(words) + "]; };\nDWELL_OPERATOR(" + name + R"()(dwell::Group g,
      dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::i32 code, Extra extra) {
  if (g.rank() != 0) return;
  for (dwell::u32 i = 0; i < )" +
         std::to_string(words) + R"(; ++i) if (extra.word[i] != at + i) g.fail(999);
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
  if (code != 0 && g.index() == 0) g.fail(code);
})";
}

// Runs until the host releases it, and fails with 5.
constexpr const char* kHoldAndFail = R"(
DWELL_OPERATOR(hold_and_fail)(dwell::Group g, dwell::Span<dwell::u32> latch) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    const dwell::u64 start = now_ns();
    store<Order::release, Scope::system>(&latch[0], 1u);
    for (dwell::u32 round = 0; load<Order::acquire, Scope::system>(&latch[1]) == 0; ++round) {
      if (now_ns() - start > 20000000000ull) break;
      relax(round);
    }
    g.fail(5);
  }
})";

class CancelTest : public DeviceTest {
 protected:
  // A runtime with the operators of the tests. `tracked`: links are in use already, so that the next one is no drain.
  struct Setup {
    explicit Setup(const Options& options, bool tracked = true)
        : runtime(options), step(runtime.define("step", kStep)), cells(filled<u32>(runtime, 4096, 0)) {
      if (!tracked) return;
      runtime.submit(step, cells, 4095U, 0);
      runtime.submit(step, cells, 4095U, 0, link).wait();
      runtime.submit(step, cells, 4095U, 0);
    }
    u32 cell(std::size_t at) const { return read(cells)[at]; }

    Runtime runtime;
    Operator<> step;
    Buffer<u32> cells;
  };

  static auto names(const Ticket& cancelled, const Ticket& cause, const std::string& how) {
    return AllOf(HasSubstr("ticket " + std::to_string(cancelled.position()) + " of operator"), HasSubstr("was cancelled"),
                 HasSubstr("ticket " + std::to_string(cause.position()) + " of operator"), HasSubstr(how));
  }
};
DWELL_ON_EVERY_DEVICE(CancelTest);

TEST_P(CancelTest, ChainBehindAFailureIsCancelled) {
  for (const bool tracked : {false, true}) {
    SCOPED_TRACE(tracked ? "" : "the first link of a runtime is a drain");
    Setup all(options(), tracked);
    const Ticket bad = all.runtime.submit(all.step, all.cells, 0U, 7);
    std::vector<Ticket> chain;
    for (u32 i = 1; i < 400; ++i) chain.push_back(all.runtime.submit(all.step, all.cells, i, 0, link));
    const Ticket after = all.runtime.submit(all.step, all.cells, 400U, 0);
    for (const Ticket& ticket : chain) {
      EXPECT_EQ(ticket.status(), status::cancelled);
      DWELL_EXPECT_ERROR(ticket.wait(), errc::cancelled, names(ticket, bad, "step (version 1), which failed with code 7; hard_link"));
      DWELL_EXPECT_ERROR_FIELDS(static_cast<void>(ticket.wait_for(1s)), errc::cancelled, "task", "step (version 1)", bad.position());
    }
    EXPECT_EQ(bad.status(), 7);
    EXPECT_EQ(after.status(), status::ok);
    const std::vector<u32> cells = read(all.cells);
    EXPECT_EQ(cells[0], 1U);
    EXPECT_EQ(cells[400], 1U);
    for (u32 i = 1; i < 400; ++i) ASSERT_EQ(cells[i], 0U) << "a cancelled task ran";
    // The message stays the same after more laps of the ring.
    for (u32 i = 0; i < 2000; ++i) all.runtime.submit(all.step, all.cells, 500U, 0);
    all.runtime.wait_all();
    DWELL_EXPECT_ERROR(chain.back().wait(), errc::cancelled, names(chain.back(), bad, "code 7"));
  }
}

TEST_P(CancelTest, HardLinkRuns) {
  Setup all(options());
  const Ticket bad = all.runtime.submit(all.step, all.cells, 0U, 7);
  const Ticket hard = all.runtime.submit(all.step, all.cells, 1U, 0, hard_link);
  const Ticket behind = all.runtime.submit(all.step, all.cells, 2U, 0, link);
  const Ticket worse = all.runtime.submit(all.step, all.cells, 3U, 8, link);
  const Ticket cancelled = all.runtime.submit(all.step, all.cells, 4U, 0, link);
  const Ticket both = all.runtime.submit(all.step, all.cells, 5U, 0, link, hard_link);
  const Ticket last = all.runtime.submit(all.step, Arguments().add(all.cells).add(6U).add(0).add(hard_link));
  EXPECT_EQ(bad.status(), 7);
  EXPECT_EQ(hard.status(), status::ok);
  EXPECT_EQ(behind.status(), status::ok);
  EXPECT_EQ(worse.status(), 8);
  DWELL_EXPECT_ERROR(cancelled.wait(), errc::cancelled, names(cancelled, worse, "code 8"));
  EXPECT_EQ(both.status(), status::ok) << "the hard link holds";
  EXPECT_EQ(last.status(), status::ok);
  const std::vector<u32> cells = read(all.cells);
  EXPECT_THAT(std::vector<u32>(cells.begin(), cells.begin() + 7), testing::ElementsAre(1, 1, 1, 1, 0, 1, 1));
}

TEST_P(CancelTest, AHardLinkStartsAfterAFailedTaskHasEnded) {
  Setup all(options());
  auto held = all.runtime.define<Hold>("hold_and_fail", kHoldAndFail);
  Latch latch(all.runtime);
  const Ticket bad = all.runtime.submit(held, latch.words());
  const Ticket hard = all.runtime.submit(all.step, all.cells, 1U, 0, hard_link);
  latch.await();
  EXPECT_FALSE(hard.wait_for(10ms));
  latch.release();
  EXPECT_EQ(hard.status(), status::ok);
  EXPECT_EQ(bad.status(), 5);
}

TEST_P(CancelTest, ATaskThatFailedBeforeCancelsToo) {
  for (const bool tracked : {false, true}) {
    // Other tasks in between: none, part of the ring, many laps of it.
    for (const u32 others : {0U, 300U, 5000U}) {
      SCOPED_TRACE(std::to_string(others) + (tracked ? " in between" : " in between, the first link of a runtime"));
      Setup all(options(), tracked);
      const Ticket bad = all.runtime.submit(all.step, all.cells, 0U, 7);
      EXPECT_EQ(bad.status(), 7);
      std::jthread([&] {
        for (u32 i = 0; i < others; ++i) all.runtime.submit(all.step, all.cells, 9U, 0);
      }).join();
      if (others > 1000) all.runtime.wait_all();
      const Ticket behind = all.runtime.submit(all.step, all.cells, 1U, 0, link);
      const Ticket second = all.runtime.submit(all.step, all.cells, 2U, 0, link, drain);
      const Ticket hard = all.runtime.submit(all.step, all.cells, 3U, 0, hard_link);
      DWELL_EXPECT_ERROR(behind.wait(), errc::cancelled, names(behind, bad, "code 7"));
      DWELL_EXPECT_ERROR(second.wait(), errc::cancelled, names(second, bad, "code 7"));
      EXPECT_EQ(hard.status(), status::ok);
      const std::vector<u32> cells = read(all.cells);
      EXPECT_EQ(cells[1] + cells[2], 0U);
      EXPECT_EQ(cells[3], 1U);
      EXPECT_EQ(cells[9], others);
    }
  }
}

TEST_P(CancelTest, ALinkReachesAcrossTasksOfOthers) {
  for (const bool tracked : {false, true}) {
    for (const bool fails : {false, true}) {
      SCOPED_TRACE(tracked ? "" : "the first link of a runtime is a drain");
      Setup all(with_all_parts(), tracked);
      auto held = fails ? all.runtime.define<Hold>("hold_and_fail", kHoldAndFail) : all.runtime.define<Hold>("hold", kHold);
      Latch latch(all.runtime);
      const Ticket first = all.runtime.submit(held, latch.words());
      std::jthread([&] {
        for (u32 i = 0; i < 500; ++i) all.runtime.submit(all.step, all.cells, 9U, 0);
      }).join();
      const Ticket behind = all.runtime.submit(all.step, all.cells, 1U, 0, link);
      EXPECT_GE(behind.position() - first.position(), 500U);
      latch.await();
      EXPECT_FALSE(behind.wait_for(5ms));
      latch.release();
      EXPECT_EQ(behind.status(), fails ? status::cancelled : status::ok);
      if (fails) DWELL_EXPECT_ERROR(behind.wait(), errc::cancelled, names(behind, first, "code 5"));
      EXPECT_EQ(all.cell(1), fails ? 0U : 1U);
    }
  }
}

TEST_P(CancelTest, EveryKindOfFailureCancelsEveryKindOfTask) {
  Setup all(options());
  auto longer = all.runtime.define("longer", long_step("longer", 60));
  auto longest = all.runtime.define("longest", long_step("longest", 400));
  auto too_much_scratch = all.runtime.define("too_much_scratch", R"(
    DWELL_OPERATOR(too_much_scratch)(dwell::Group g) { if (g.shared<dwell::u32>(1u << 28).size() != 0) g.fail(1); })");
  const auto extra = [](auto value, u32 at) {
    for (u32 i = 0; i < std::size(value.word); ++i) value.word[i] = at + i;
    return value;
  };
  const auto each = [&](u32 kind, u32 at, int code, auto... more) {
    switch (kind) {
      case 0: return all.runtime.submit(all.step, all.cells, at, code, more...);
      case 1: return all.runtime.submit(all.step, all.cells, at, code, groups(5), more...);
      case 2: return all.runtime.submit(longer, all.cells, at, code, extra(Extra<60>{}, at), more...);
      case 3: return all.runtime.submit(longer, all.cells, at, code, extra(Extra<60>{}, at), groups(3), more...);
      case 4: return all.runtime.submit(longest, all.cells, at, code, extra(Extra<400>{}, at), more...);
      case 5: return all.runtime.submit(all.step, all.cells, at, code, drain, more...);
      default: return all.runtime.submit(too_much_scratch, more...);
    }
  };
  constexpr u32 kTasks = 6;
  for (u32 bad = 0; bad <= kTasks; ++bad) {
    for (u32 kind = 0; kind < kTasks; ++kind) {
      SCOPED_TRACE("task " + std::to_string(kind) + " behind failure " + std::to_string(bad));
      const u32 at = (bad * kTasks + kind) * 4;
      const Ticket first = each(bad, at, 7);
      const Ticket cancelled = each(kind, at + 1, 0, link);
      const Ticket behind = each(kind, at + 2, 0, link);
      const Ticket hard = each(kind, at + 3, 0, hard_link);
      EXPECT_EQ(cancelled.status(), status::cancelled);
      DWELL_EXPECT_ERROR(behind.wait(), errc::cancelled, names(behind, first, bad < kTasks ? "failed with code 7" : "Group::shared asked"));
      EXPECT_EQ(hard.status(), status::ok);
      const std::vector<u32> cells = read(all.cells);
      EXPECT_EQ(cells[at + 1] + cells[at + 2], 0U);
      EXPECT_EQ(cells[at + 3], kind == 1 ? 5U : kind == 3 ? 3U : 1U);
    }
  }
}

TEST_P(CancelTest, ABatchHasLinks) {
  Setup all(options());
  const Ticket last = all.runtime.submit_many(all.step, 10, [&](std::size_t i, auto&& put) {
    const auto at = static_cast<u32>(i);
    if (i == 0 || i == 5)
      put(all.cells, at, 0);
    else if (i == 8)
      put(all.cells, at, 0, hard_link);
    else
      put(all.cells, at, i == 6 ? 7 : 0, link);
  });
  EXPECT_EQ(last.status(), status::ok);
  all.runtime.wait_all();
  const std::vector<u32> cells = read(all.cells);
  EXPECT_THAT(std::vector<u32>(cells.begin(), cells.begin() + 10), testing::ElementsAre(1, 1, 1, 1, 1, 1, 1, 0, 1, 1));
}

// ---- Notifications ----

TEST_P(CancelTest, CallbacksAndTheEventfdReportCancelledTasks) {
  Setup all(options());
  auto held = all.runtime.define<Hold>("hold_and_fail", kHoldAndFail);
  Latch latch(all.runtime);
  all.runtime.submit(held, latch.words());
  const Ticket cancelled = all.runtime.submit(all.step, all.cells, 0U, 0, link);
  const int fd = all.runtime.completion_fd();
  std::promise<int> told;
  cancelled.then([&](const Ticket& ticket) { told.set_value(ticket.status()); });
  cancelled.notify();
  latch.release();
  EXPECT_EQ(told.get_future().get(), status::cancelled);
  std::uint64_t count = 0;
  EXPECT_TRUE(eventually([&] { return ::read(fd, &count, sizeof(count)) == sizeof(count); }));
  EXPECT_EQ(count, 1U);
}

struct Flow {
  struct promise_type {
    Flow get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Flow await(Ticket ticket, std::promise<std::string>& told) {
  try {
    co_await ticket;
    told.set_value("");
  } catch (const Error& error) {
    told.set_value(error.kind() == errc::cancelled ? error.what() : "another error");
  }
}

TEST_P(CancelTest, ACoroutineThatAwaitsACancelledTaskThrows) {
  Setup all(options());
  auto held = all.runtime.define<Hold>("hold_and_fail", kHoldAndFail);
  Latch latch(all.runtime);
  const Ticket bad = all.runtime.submit(held, latch.words());
  const Ticket cancelled = all.runtime.submit(all.step, all.cells, 0U, 0, link);
  std::promise<std::string> told;
  await(cancelled, told);
  latch.release();
  EXPECT_THAT(told.get_future().get(), names(cancelled, bad, "code 5"));
}

// ---- The end of a runtime ----

TEST_P(CancelTest, TicketsKeepTheCauseAfterClose) {
  Ticket bad;
  Ticket cancelled;
  {
    Setup all(options());
    bad = all.runtime.submit(all.step, all.cells, 0U, 7);
    cancelled = all.runtime.submit(all.step, all.cells, 0U, 0, link);
  }
  EXPECT_EQ(cancelled.status(), status::cancelled);
  DWELL_EXPECT_ERROR(cancelled.wait(), errc::cancelled, names(cancelled, bad, "code 7"));
}

TEST_P(CancelTest, TaskCancelledByCloseReportsIt) {
  Setup all(options());
  all.runtime.park();
  all.runtime.submit(all.step, all.cells, 0U, 0);
  const Ticket cancelled = all.runtime.submit(all.step, all.cells, 0U, 0, link);
  all.runtime.close(Close::now);
  DWELL_EXPECT_ERROR(cancelled.wait(), errc::cancelled, HasSubstr("the runtime was closed before it ran"));
}

// ---- Everything at once ----

// Threads submit chains of all kinds, with failures, gaps and waits, to a small ring: each task runs or is cancelled as its thread's
// previous task demands.
TEST_P(CancelTest, ExactlyTheExpectedTasksAreCancelled) {
  constexpr u32 kThreads = 4;
  constexpr u32 kEach = kSanitized ? 500 : 6000;
  Options small = options();
  small.ring_slots = 128;
  small.lease = 500us;
  if (on_cpu()) small.workers = 3;
  Runtime runtime(small);
  auto step = runtime.define("step", kStep);
  auto longer = runtime.define("longer", long_step("longer", 60));
  auto cells = filled<u32>(runtime, std::size_t{kThreads} * kEach, 0);
  struct Task {
    Ticket ticket;
    int code;
    u32 groups;
    bool soft;
  };
  std::vector<std::vector<Task>> all(kThreads);
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < kThreads; ++me)
    threads.emplace_back([&, me] {
      Random random(me);
      for (u32 i = 0; i < kEach; ++i) {
        const u32 at = me * kEach + i;
        Task task{{}, random() % 6 == 0 ? static_cast<int>(1 + random() % 100) : 0, 1, false};
        Arguments arguments;
        arguments.add(cells).add(at).add(i32{task.code});
        const bool is_long = random() % 5 == 0;
        if (is_long) {
          Extra<60> extra{};
          for (u32 k = 0; k < 60; ++k) extra.word[k] = at + k;
          arguments.add(extra);
        }
        if (random() % 5 == 0) arguments.add(groups(task.groups = 2 + random() % 5));
        const u32 order = random() % 16;
        if (order < 9) arguments.add(link);
        if (order == 9 || order == 10) arguments.add(hard_link);
        if (order == 8 || order == 10 || order == 11) arguments.add(drain);
        task.soft = order < 9;
        task.ticket = is_long ? runtime.submit(longer, arguments) : runtime.submit(step, arguments);
        all[me].push_back(task);
        if (random() % 40 == 0) task.ticket.status();
        if (random() % 200 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      }
    });
  std::atomic<bool> over{false};
  std::jthread parker([&] {
    while (!over) {
      std::this_thread::sleep_for(2ms);
      runtime.park();
      runtime.resume();
    }
  });
  threads.clear();
  over = true;
  parker.join();
  runtime.wait_all();
  const std::vector<u32> result = read(cells);
  u32 cancelled = 0;
  for (u32 me = 0; me < kThreads; ++me) {
    const Ticket* cause = nullptr;  // set while the previous task has failed
    for (u32 i = 0; i < kEach; ++i) {
      const Task& task = all[me][i];
      const std::string where = "task " + std::to_string(i) + " of thread " + std::to_string(me);
      if (task.soft && cause != nullptr) {
        ++cancelled;
        ASSERT_EQ(task.ticket.status(), status::cancelled) << where;
        ASSERT_EQ(result[me * kEach + i], 0U) << where;
        if (i % 50 == 0) {
          const std::string text = "to start after ticket " + std::to_string(cause->position()) + " of";
          DWELL_EXPECT_ERROR(task.ticket.wait(), errc::cancelled, HasSubstr(text));
        }
        continue;
      }
      ASSERT_EQ(task.ticket.status(), task.code) << where;
      ASSERT_EQ(result[me * kEach + i], task.groups) << where;
      cause = task.code != 0 ? &task.ticket : nullptr;
    }
  }
  EXPECT_GT(cancelled, kThreads * kEach / 20);
}

}  // namespace
}  // namespace dwell::test
