// Opening, closing, moving and coexistence of runtimes.
#include <algorithm>
#include <future>
#include <memory>

#include "tests/conformance/suite.hpp"
#include "tests/unit/child.hpp"

namespace dwell::test {
namespace {

class CloseTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(CloseTest);

TEST_P(CloseTest, ClosingWaitsForAllTasks) {
  std::vector<Ticket> tickets;
  {
    Runtime runtime(options());
    auto spin = runtime.define<Spin>("spin", kSpin);
    for (int i = 0; i < 200; ++i) tickets.push_back(runtime.submit(spin, u64{200'000}));
  }
  for (const Ticket& ticket : tickets) {
    EXPECT_TRUE(ticket.done());
    EXPECT_EQ(ticket.status(), status::ok);
    ticket.wait();
  }
}

TEST_P(CloseTest, ClosingNowCancelsTasksNotStarted) {
  Options one = options();
  one.workers = 1;
  Runtime runtime(one);
  auto hold = runtime.define<Hold>("hold", kHold);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = runtime.allocate<u32>(1, Memory::host);
  Latch latch(runtime);
  const Ticket held = runtime.submit(hold, latch.words());
  std::vector<Ticket> waiting;
  for (int i = 0; i < 50; ++i) waiting.push_back(runtime.submit(add, cells, 0U, 1U, drain));
  latch.await();
  std::jthread closer([&] { runtime.close(Close::now); });
  std::this_thread::sleep_for(20ms);
  latch.release();
  closer.join();
  EXPECT_EQ(held.status(), status::ok);
  held.wait();
  for (const Ticket& ticket : waiting) {
    ASSERT_EQ(ticket.status(), status::cancelled);
    ASSERT_TRUE(ticket.done());
    DWELL_EXPECT_ERROR(ticket.wait(), errc::cancelled, AllOf(HasSubstr("add (version 1)"), HasSubstr(std::to_string(ticket.position()))));
  }
}

// A launch that ends only when the runtime is closed: its callback waits for a task behind the launch.
struct Stuck {
  explicit Stuck(Runtime& runtime) : add(runtime.define<Add>("add", kAdd)), cells(runtime.allocate<u32>(2, Memory::host)) {
    std::ranges::fill(cells.host(), 0U);
    Graph graph;
    const Node first = graph.add(add, cells, 0U, 1U);
    Node calls = graph.add_host("waits", [this] {
      began.set_value();
      behind.get_future().get().status();
    });
    graph.add(add, cells, 1U, 1U).after(calls.after(first));
    exec = runtime.instantiate(graph);
  }
  // Submits a task behind `ticket`; the callback waits for it. Returns the task.
  Ticket begin(Runtime& runtime, const Ticket& ticket) {
    const Ticket after_it = runtime.submit(add, cells, 1U, 1U, after(ticket));
    behind.set_value(after_it);
    began.get_future().wait();
    return after_it;
  }

  Operator<Add> add;
  Buffer<u32> cells;
  std::promise<void> began;
  std::promise<Ticket> behind;
  GraphExec exec;
};

TEST_P(CloseTest, StartedLaunchIsInterruptedAndReportsProgress) {
  Runtime runtime(options());
  Stuck stuck(runtime);
  const Ticket launch = runtime.launch(stuck.exec);
  const Ticket second = runtime.launch(stuck.exec);
  const Ticket behind = stuck.begin(runtime, second);
  EXPECT_EQ(std::atomic_ref(stuck.cells.host()[0]).load(), 1U);
  runtime.close(Close::now);
  EXPECT_EQ(launch.status(), status::interrupted);
  DWELL_EXPECT_ERROR_FIELDS(launch.wait(), errc::interrupted, "task", "", launch.position(), 0U);
  DWELL_EXPECT_ERROR(launch.wait(), errc::interrupted,
                     AllOf(HasSubstr("ticket " + std::to_string(launch.position()) + " of a graph was interrupted"),
                           HasSubstr("at most 2 of its 3 nodes were not complete")));
  DWELL_EXPECT_ERROR(second.wait(), errc::cancelled, HasSubstr("ticket " + std::to_string(second.position())));
  EXPECT_EQ(behind.status(), status::cancelled);
}

TEST_P(CloseTest, ATaskWhoseDescendantsHaveNotEndedIsInterrupted) {
  Runtime runtime(options());
  Stuck stuck(runtime);
  runtime.define("nothing", kNothing);
  const auto tree = runtime.define<void(Exec, u32)>("tree", R"(
DWELL_USES(tree, dwell::Exec, dwell::u32)
DWELL_OPERATOR(tree)(dwell::Group g, dwell::Exec exec, dwell::u32 levels) {
  if (levels == 0)
    g.launch(exec);
  else
    g.spawn(uses::tree, exec, levels - 1);
})");
  // The task, a child with a child of its own, and that one's launch. A chain takes two records at any length.
  const Ticket task = runtime.submit(tree, stuck.exec, 2U);
  const Ticket behind = stuck.begin(runtime, task);
  runtime.close(Close::now);
  EXPECT_EQ(task.status(), status::interrupted);
  DWELL_EXPECT_ERROR(task.wait(), errc::interrupted,
                     AllOf(HasSubstr("of operator tree (version 1) was interrupted"), HasSubstr("1 task that descends from it was not")));
  EXPECT_EQ(behind.status(), status::cancelled);
}

TEST_P(CloseTest, AGangThatHasYieldedIsInterrupted) {
  Runtime runtime(options());
  const auto yields = runtime.define<void(Span<u32>)>("yields", R"(
DWELL_OPERATOR(yields)(dwell::Group g, dwell::Span<dwell::u32> turns) {
  using namespace dwell::device;
  const dwell::Gang gang = g.gang();
  const dwell::u32 turn = gang.resume(0u);
  if (g.rank() == 0) store<Order::relaxed, Scope::system>(&turns[0], turn);
  gang.yield(turn + 1);
})");
  const auto turns = runtime.allocate<u32>(1, Memory::host);
  const std::atomic_ref<u32> turn(turns.host()[0]);
  turn.store(0);
  const Ticket ticket = runtime.submit(yields, turns, gang(1));
  while (turn.load() < 3) std::this_thread::sleep_for(20us);
  EXPECT_TRUE(runtime.cancel(ticket)) << "which comes too late";
  const u32 seen = turn.load();
  while (turn.load() < seen + 100) std::this_thread::sleep_for(20us);
  EXPECT_FALSE(ticket.done());
  runtime.close(Close::now);
  EXPECT_EQ(ticket.status(), status::interrupted);
  DWELL_EXPECT_ERROR(ticket.wait(), errc::interrupted, HasSubstr("it had yielded"));
}

// The first number behind `text` in the error's message.
u32 number_behind(const Ticket& ticket, const std::string& text) {
  try {
    ticket.wait();
  } catch (const Error& error) {
    if (const auto at = error.message().find(text); at != std::string::npos)
      return static_cast<u32>(std::stoul(error.message().substr(at + text.size())));
    ADD_FAILURE() << error.message();
  }
  return ~0U;
}

TEST_P(CloseTest, TicketsOfInterruptedTasksAreCorrect) {
  constexpr u32 kAll = 400;
  Runtime other(little());
  auto memory = other.allocate<u32>(3, Memory::host);  // outlives the runtime
  for (u32 turn = 0; turn < (kSanitized ? 4 : 24); ++turn) {
    SCOPED_TRACE(turn);
    std::ranges::fill(memory.host(), 0U);
    Runtime runtime(options());
    const auto step = runtime.define<void(Span<u32>, u32)>("step", R"(
DWELL_OPERATOR(step)(dwell::Group g, dwell::Span<dwell::u32> count, dwell::u32 ns) {
  using namespace dwell::device;
  if (g.rank() != 0) return;
  fetch_add<Order::relaxed>(&count[0], 1u);
  const dwell::u64 start = now_ns();
  while (now_ns() - start < ns) {}
})");
    const auto tree = runtime.define<void(Span<u32>, u32, u32)>("tree", R"(
DWELL_USES(step, dwell::Span<dwell::u32>, dwell::u32)
DWELL_OPERATOR(tree)(dwell::Group g, dwell::Span<dwell::u32> count, dwell::u32 tasks, dwell::u32 ns) {
  for (dwell::u32 i = 0; i < tasks; ++i) g.spawn(uses::step, count, ns);
})");
    Buffer<u32> count[3];
    for (int i = 0; i < 3; ++i) count[i] = runtime.wrap(&memory.host()[static_cast<std::size_t>(i)], 1);
    Graph graph;
    std::vector<Node> nodes;
    for (u32 i = 0; i < kAll; ++i) {
      nodes.push_back(graph.add(step, count[0], 5'000U));
      if (i != 0) nodes[i].after(nodes[turn % 2 == 0 ? i - 1 : (i - 1) / 2]);  // a chain, a tree
    }
    const GraphExec exec = runtime.instantiate(graph);
    const Ticket launch = runtime.launch(exec);
    const Ticket makes = runtime.submit(tree, count[1], kAll, 5'000U);
    const Ticket wide = runtime.submit(step, count[2], 5'000U, groups(kAll));
    std::this_thread::sleep_for(std::chrono::microseconds(200) * turn);
    runtime.close(Close::now);
    const auto ran = [&](std::size_t i) { return std::atomic_ref(memory.host()[i]).load(); };
    const auto expect = [&](const Ticket& ticket, std::size_t i) {
      const int status = ticket.status();
      EXPECT_THAT(status, testing::AnyOf(status::ok, status::cancelled, status::interrupted));
      if (status == status::interrupted) return true;
      EXPECT_EQ(ran(i), status == status::ok ? kAll : 0U);
      return false;
    };
    if (expect(launch, 0)) {
      EXPECT_EQ(ran(0) + number_behind(launch, "at most "), kAll);
    }
    if (expect(makes, 1)) {
      EXPECT_EQ(ran(1) + number_behind(makes, "in the middle of it, when "), kAll);
    }
    if (expect(wide, 2)) {
      EXPECT_EQ(ran(2), number_behind(wide, "in the middle of it, when "));
    }
  }
}

TEST_P(CloseTest, ClosingNowEndsEveryTicket) {
  for (int turn = 0; turn < 10; ++turn) {
    Options small = options();
    small.ring_slots = 256;
    Runtime runtime(small);
    auto add = runtime.define<Add>("add", kAdd);
    auto cells = runtime.allocate<u32>(300, Memory::host);
    const std::span<u32> seen = cells.host();
    std::vector<Ticket> tickets;
    for (u32 i = 0; i < 300; ++i)
      tickets.push_back(i % 10 == 0 ? runtime.submit(add, cells, i, 1U, link) : runtime.submit(add, cells, i, 1U));
    std::vector<bool> ran;
    for (u32& cell : seen) ran.push_back(std::atomic_ref(cell).load(std::memory_order_relaxed) != 0);
    runtime.close(Close::now);
    for (u32 i = 0; i < 300; ++i) {
      ASSERT_TRUE(tickets[i].done());
      const int status = tickets[i].status();
      ASSERT_TRUE(status == status::ok || (status == status::cancelled && !ran[i])) << i << ": " << status;
    }
    runtime.close();
  }
}

TEST_P(CloseTest, VeryManyCancelledTicketsReportIt) {
  Options large = options();
  large.ring_slots = 1U << 20U;
  Runtime runtime(large);
  auto nothing = runtime.define("nothing", kNothing);
  runtime.submit(nothing).wait();
  runtime.park();
  std::vector<Ticket> tickets;
  for (int i = 0; i < (kSanitized ? 30'000 : 300'000); ++i) tickets.push_back(runtime.submit(nothing));
  runtime.close(Close::now);
  for (const Ticket& ticket : tickets) ASSERT_EQ(ticket.status(), status::cancelled);
  DWELL_EXPECT_ERROR(tickets.front().wait(), errc::cancelled, HasSubstr(std::to_string(tickets.front().position())));
}

TEST_P(CloseTest, WaitersAreWokenWithTheError) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  runtime.park();
  const Ticket ticket = runtime.submit(add, cells, 0U, 1U);
  std::atomic<bool> told{false};
  std::jthread waiter([&] {
    DWELL_EXPECT_ERROR(ticket.wait(), errc::cancelled, HasSubstr("add"));
    told = true;
  });
  std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(told);
  runtime.close(Close::now);
  waiter.join();
  EXPECT_TRUE(told);
}

TEST_P(CloseTest, AParkedRuntimeCloses) {
  // Closing waits for all tasks, but not for those that need a resume, which can no longer come.
  Ticket ticket;
  {
    Runtime runtime(options());
    auto nothing = runtime.define("nothing", kNothing);
    runtime.submit(nothing).wait();
    runtime.park();
    ticket = runtime.submit(nothing);
  }
  EXPECT_TRUE(ticket.done());
  EXPECT_THAT(ticket.status(), testing::AnyOf(status::ok, status::cancelled));
}

TEST_P(CloseTest, EveryHandleReportsTheClose) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  const Ticket ticket = runtime.submit(add, cells, 0U, 1U);
  runtime.close();
  runtime.close();
  runtime.close(Close::now);
  ticket.wait();
  EXPECT_TRUE(ticket.wait_for(0ns));
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.status(), status::ok);
  const auto closed = HasSubstr("closed");
  DWELL_EXPECT_ERROR(runtime.submit(add, cells, 0U, 1U), errc::closed, closed);
  DWELL_EXPECT_ERROR(runtime.try_submit(add, cells, 0U, 1U), errc::closed, closed);
  DWELL_EXPECT_ERROR(runtime.submit_many(add, 1, [&](std::size_t, auto&& put) { put(cells, 0U, 1U); }), errc::closed, closed);
  DWELL_EXPECT_ERROR(runtime.define("other", kNothing), errc::closed, closed);
  DWELL_EXPECT_ERROR(runtime.allocate<u32>(1), errc::closed, closed);
  DWELL_EXPECT_ERROR(runtime.wait_all(), errc::closed, closed);
  DWELL_EXPECT_ERROR(runtime.park(), errc::closed, closed);
  DWELL_EXPECT_ERROR(runtime.resume(), errc::closed, closed);
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.info()), errc::closed, closed);
  const auto stale = AllOf(HasSubstr("belongs to generation 1 of runtime "), HasSubstr("which is closed"));
  DWELL_EXPECT_ERROR(add.redefine(kAdd), errc::stale_handle, stale);
  DWELL_EXPECT_ERROR(add.rollback(), errc::stale_handle, stale);
  std::vector<u32> to(1);
  DWELL_EXPECT_ERROR(cells.read(to), errc::stale_handle, stale);
  DWELL_EXPECT_ERROR(cells.write(to), errc::stale_handle, stale);
  EXPECT_EQ(add.name(), "add");
  EXPECT_EQ(add.version(), 1U);
  EXPECT_EQ(add.signature().text(), "(Span<u32>, u32, u32)");
}

TEST_P(CloseTest, AnUnusedRuntimeCloses) {
  { const Runtime runtime(options()); }
  {
    Runtime runtime(options());
    runtime.wait_all();
    runtime.park();
    runtime.resume();
    runtime.close(Close::now);
  }
  Runtime runtime(options());
  runtime.define("nothing", kNothing);
}

TEST_P(CloseTest, RuntimesMove) {
  Runtime first(options());
  auto add = first.define<Add>("add", kAdd);
  auto cells = filled<u32>(first, 1, 0);
  const Ticket ticket = first.submit(add, cells, 0U, 1U);
  Runtime second(std::move(first));
  ticket.wait();
  second.submit(add, cells, 0U, 10U).wait();
  EXPECT_EQ(read(cells)[0], 11U);
  DWELL_EXPECT_ERROR(static_cast<void>(first.info()), errc::closed, HasSubstr("names no runtime"));  // NOLINT(bugprone-use-after-move)
  DWELL_EXPECT_ERROR(first.define("nothing", kNothing), errc::closed, HasSubstr("names no runtime"));
  DWELL_EXPECT_ERROR(first.submit(Operator<>(), 1), errc::invalid_argument, HasSubstr("empty"));
  first.close();

  // Assignment closes the old runtime, and waits for it.
  Runtime third(options());
  auto spin = third.define<Spin>("spin", kSpin);
  const Ticket late = third.submit(spin, u64{20'000'000});
  auto gone = third.allocate<u32>(1);
  third = std::move(second);
  EXPECT_TRUE(late.done());
  std::vector<u32> to(1);
  DWELL_EXPECT_ERROR(gone.read(to), errc::stale_handle, HasSubstr("buffer of 4 bytes belongs to generation 1 of runtime "));
  third.submit(add, cells, 0U, 100U).wait();
  EXPECT_EQ(read(cells)[0], 111U);
  Runtime& same = third;
  third = std::move(same);
  third.submit(add, cells, 0U, 1000U).wait();
  EXPECT_EQ(read(cells)[0], 1111U);
}

TEST_P(CloseTest, SeveralRuntimesWorkAtOnce) {
  constexpr u32 kRuntimes = 3;
  constexpr u32 kTasks = kSanitized ? 400 : 2000;
  struct Side {
    Runtime runtime;
    Operator<Append> append;
    Operator<Add> add;
    Buffer<u32> number;
    Buffer<u32> cells;
  };
  std::vector<Side> sides;
  for (u32 i = 0; i < kRuntimes; ++i) {
    Options some = options();
    some.ring_slots = 128U << i;
    if (!on_cpu()) some.workers = 40;
    Runtime runtime(some);
    auto append = runtime.define<Append>("append", kAppend);
    auto add = runtime.define<Add>("add", kAdd);
    auto number = filled<u32>(runtime, 1, 0);
    auto cells = filled<u32>(runtime, kTasks, 0);
    sides.push_back({std::move(runtime), append, add, std::move(number), std::move(cells)});
  }
  for (u32 i = 0; i < kTasks; ++i)
    for (Side& side : sides) {
      side.runtime.submit(side.append, side.number, i, link);
      side.runtime.submit(side.add, side.cells, i, 1U, link);
    }
  for (const Side& side : sides) {
    EXPECT_EQ(read(side.number)[0], appended(kTasks));
    EXPECT_THAT(read(side.cells), testing::Each(1U));
  }
  // Destroys one; the others keep working.
  sides.erase(sides.begin() + 1);
  for (Side& side : sides) {
    side.runtime.submit(side.add, side.cells, 0U, 1U).wait();
    EXPECT_EQ(read(side.cells)[0], 2U);
  }
}

TEST_P(CloseTest, RuntimesComeAndGo) {
  for (int i = 0; i < (kSanitized ? 5 : 20); ++i) {
    Runtime runtime(options());
    auto add = runtime.define<Add>("add", kAdd);
    auto cells = filled<u32>(runtime, 1, 0);
    for (int k = 0; k < 50; ++k) runtime.submit(add, cells, 0U, 1U);
    if (i % 2 == 0) {
      EXPECT_EQ(read(cells)[0], 50U);
    }
  }
}

// An operator that adds `k`. Few different texts, so that each is compiled once and hand-overs follow each other closely.
std::string adds(const std::string& name, u32 k) {
  return "DWELL_OPERATOR(" + name + ")(dwell::Group g, dwell::Span<dwell::u32> x) { for (auto i : g.range(x.size())) x.atomic_add(i, " +
         std::to_string(k) + "U); }";
}

TEST_P(CloseTest, RedefinitionsDuringCloseSucceedOrAreRefused) {
  for (int round = 0; round < (kSanitized ? 6 : 30); ++round) {
    SCOPED_TRACE(round);
    Runtime runtime(options());
    auto op = runtime.define("op", adds("op", 0));
    auto cells = runtime.allocate<u32>(16);
    for (u32 k = 1; k < 3; ++k) op.redefine(adds("op", k));
    std::jthread redefines([&op](const std::stop_token& stop) {
      for (u32 k = 0; !stop.stop_requested(); ++k) {
        try {
          op.redefine(adds("op", k % 3));
        } catch (const Error& error) {
          EXPECT_THAT(error.kind(), testing::AnyOf(errc::stale_handle, errc::cancelled)) << error.what();
          return;
        }
      }
    });
    std::vector<Ticket> tickets;
    for (int i = 0; i < 900; ++i) tickets.push_back(runtime.submit(op, cells));
    const auto later = op.redefine_async(adds("op", static_cast<u32>(round) % 3));
    std::this_thread::sleep_for(std::chrono::microseconds(round * 67));
    for (int i = 0; i < 100; ++i) tickets.push_back(runtime.submit(op, cells));
    ASSERT_NO_THROW(runtime.close(round % 5 == 4 ? Close::now : Close::when_done));
    redefines.request_stop();
    redefines.join();
    for (const Ticket& ticket : tickets)
      ASSERT_THAT(ticket.status(), testing::AnyOf(status::ok, round % 5 == 4 ? status::cancelled : status::ok));
    try {
      later.get();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::cancelled) << error.what();
    }
  }
}

TEST_P(CloseTest, CallbackOfACancelledDefinitionRuns) {
  static const std::string run = std::to_string(Clock::now().time_since_epoch().count());
  std::atomic<int> called{0};
  std::atomic<int> cancelled{0};
  {
    Options one = options();
    one.compile_threads = 1;
    Runtime runtime(one);
    for (int k = 0; k < 8; ++k) {
      const std::string name = "op" + std::to_string(k);
      const auto done = [&](const std::shared_future<Operator<>>& future) {
        ++called;
        try {
          future.get();
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), errc::cancelled) << error.what();
          ++cancelled;
        }
      };
      runtime.define_async(name, "// " + run + "\n" + adds(name, 1), {}, {.done = done});
    }
  }
  EXPECT_EQ(called, 8);
  EXPECT_GE(cancelled, 1) << "all were compiled before the runtime was closed";
}

TEST_P(CloseTest, ACallbackMayWaitForTasksDuringClose) {
  for (const Close how : {Close::when_done, Close::now}) {
    Runtime runtime(options());
    auto nothing = runtime.define("nothing", kNothing);
    runtime.park();
    const Ticket ticket = runtime.submit(nothing);
    std::atomic<bool> called{false};
    const auto done = [&](const auto&) {
      EXPECT_THAT(ticket.status(), testing::AnyOf(status::ok, status::cancelled));
      called = true;
    };
    auto later = nothing.redefine_async(kNothing, {.done = done});
    later.wait();
    ASSERT_NO_THROW(runtime.close(how));
    EXPECT_TRUE(called);
  }
}

TEST_P(CloseTest, AnExceptionOfACallbackGoesToWarn) {
  std::mutex mutex;
  std::string told;
  {
    Options with = options();
    with.warn = [&](std::string_view line) {
      const std::lock_guard lock(mutex);
      told += line;
    };
    Runtime runtime(with);
    runtime.define_async("nothing", kNothing, {}, {.done = [](const auto&) { throw Error(errc::closed, "thrown by the callback"); }});
  }
  EXPECT_THAT(told, HasSubstr("thrown by the callback"));
}

TEST_P(CloseTest, AResumeWithoutAParkIsRefusedAndEndsNoHoldOfTheRuntime) {
  Runtime runtime(options());
  auto op = runtime.define("op", adds("op", 0));
  auto cells = filled<u32>(runtime, 1, 0);
  for (u32 k = 1; k < 3; ++k) op.redefine(adds("op", k));
  std::jthread redefines([&] {
    for (u32 k = 0; k < 100; ++k) ASSERT_NO_THROW(op.redefine(adds("op", 1 + k % 2)));
  });
  for (int i = 0; i < 2000; ++i) {
    DWELL_EXPECT_ERROR(runtime.resume(), errc::invalid_argument, HasSubstr("resume without park"));
    if (i % 100 == 0) runtime.submit(op, cells).wait();
  }
  redefines.join();
  runtime.park();
  runtime.resume();
  DWELL_EXPECT_ERROR(runtime.resume(), errc::invalid_argument, HasSubstr("resume without park"));
}

TEST_P(CloseTest, StopMayBeRequestedDuringTheEnd) {
  for (int round = 0; round < 20; ++round) {
    std::stop_source stop;
    std::jthread stops;
    {
      Runtime runtime(options());
      auto op = runtime.define("op", adds("op", 0));
      for (u32 k = 0; k < 8; ++k) op.redefine_async(adds("op", k % 3), {.stop = stop.get_token()});
      stops = std::jthread([&stop] { stop.request_stop(); });
      std::this_thread::sleep_for(std::chrono::microseconds(round * 29));
      runtime.close(Close::now);
    }
  }
}

TEST_P(CloseTest, InfoDescribesDeviceAndImage) {
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  runtime.submit(nothing).wait();
  const RuntimeInfo info = runtime.info();
  EXPECT_EQ(info.device, GetParam());
  EXPECT_NE(info.device_name, "");
  EXPECT_NE(info.compiler, "");
  EXPECT_GT(info.workers, 0U);
  EXPECT_GT(info.crew, 0U);
  EXPECT_LE(info.crew, info.workers);
  if (on_cpu()) {
    EXPECT_EQ(info.workers, 2U);
    EXPECT_EQ(info.registers, 0U);
  } else {
    EXPECT_GT(info.registers, 0U);
    EXPECT_GT(info.shared_bytes, 0U);
  }
}

TEST_P(CloseTest, AForkedChildDestroysItsRuntimeWithoutHanging) {
  if (GetParam() != "cpu") GTEST_SKIP() << "CUDA does not work in a forked child";
  auto runtime = std::make_unique<Runtime>(options());
  auto add = runtime->define<Add>("add", kAdd);
  auto cells = std::make_unique<Buffer<u32>>(runtime->allocate<u32>(1, Memory::host));
  runtime->submit(add, *cells, 0U, 1U).wait();  // the loop runs during the fork
  const pid_t child = start_child([&] {
    alarm(20);
    cells.reset();
    runtime.reset();
    return 0;
  });
  EXPECT_TRUE(ended_well(end_of(child)));
  runtime->submit(add, *cells, 0U, 1U).wait();
  EXPECT_EQ(cells->host()[0], 2U);
}

}  // namespace
}  // namespace dwell::test
