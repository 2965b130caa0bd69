// Runtime::preempt: which tasks yield to a more urgent one.
#include <algorithm>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class PreemptTest : public DeviceTest {
 protected:
  Options with_priorities(unsigned workers) const {
    Options given = options();
    given.workers = workers;
    given.priorities = Priorities{};
    return given;
  }
  static const Preemption::Holder* find(const Preemption& preemption, const Ticket& ticket) {
    for (const Preemption::Holder& holder : preemption.holders)
      if (holder.position == ticket.position()) return &holder;
    return nullptr;
  }
  static constexpr auto kSoon = 30s;  // generous, for a busy machine
};
DWELL_ON_EVERY_DEVICE(PreemptTest);

TEST_P(PreemptTest, FreeWorkerIsAvailableAtOnce) {
  Runtime runtime(with_priorities(2));
  EXPECT_TRUE(runtime.preempt(7, 0ns).in_time) << "nothing can run before the first operator";
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  runtime.submit(nothing).wait();
  for (unsigned priority = 0; priority < 8; ++priority) {
    const Preemption had = runtime.preempt(priority, kSoon);
    EXPECT_TRUE(had.in_time) << priority;
    EXPECT_TRUE(had.holders.empty()) << to_string(had);
    EXPECT_GT(had.waited, 0ns);
    EXPECT_LT(had.waited, kSoon);
  }
  EXPECT_EQ(runtime.metrics().submitted, 1U) << "requests are no tasks of the user's";
  runtime.submit(nothing).wait();
}

TEST_P(PreemptTest, TasksThatDoNotYieldAreNamed) {
  Runtime runtime(with_priorities(2));
  const auto hold = runtime.define<Hold>("hold", kHold);
  Latch latches[] = {Latch(runtime), Latch(runtime)};
  const u32 workers = std::min(runtime.info().workers, 2U);
  std::vector<Ticket> holds;
  for (u32 i = 0; i < workers; ++i) {
    holds.push_back(runtime.submit(hold, latches[i].words(), priority(i == 0 ? 1 : 3)));
    latches[i].await();
  }
  std::this_thread::sleep_for(10ms);
  const Preemption late = runtime.preempt(6, 50ms);
  EXPECT_FALSE(late.in_time);
  EXPECT_GE(late.waited, 50ms);
  EXPECT_EQ(late.holders.size(), workers);
  EXPECT_FALSE(late.parked);
  EXPECT_FALSE(late.behind_drain.has_value());
  for (u32 i = 0; i < workers; ++i) {
    const Preemption::Holder* const holder = find(late, holds[i]);
    ASSERT_NE(holder, nullptr) << to_string(late);
    EXPECT_EQ(holder->name, "hold (version 1)");
    EXPECT_EQ(holder->priority, i == 0 ? 1U : 3U);
    EXPECT_EQ(holder->workers.size(), 1U);
    EXPECT_GT(holder->since, 20ms);
    EXPECT_FALSE(holder->graph);
  }
  EXPECT_THAT(to_string(late), AllOf(HasSubstr("no worker was free within"), HasSubstr("ticket " + std::to_string(holds[0].position()) +
                                                                                       " of operator hold (version 1), priority 1,"
                                                                                       " holds worker")));
  // The request is still pending: the next call gets the worker.
  latches[0].release();
  const Preemption had = runtime.preempt(6, kSoon);
  EXPECT_TRUE(had.in_time);
  EXPECT_EQ(find(had, holds[0]), nullptr);
  if (workers == 2) {
    EXPECT_NE(find(had, holds[1]), nullptr) << "who goes on is told all the same";
  }
  latches[1].release();
  runtime.wait_all();
}

TEST_P(PreemptTest, GraphYieldsAfterANodeUnlessItIsLong) {
  Runtime runtime(with_priorities(1));
  const auto spin = runtime.define<Spin>("spin", kSpin);
  const auto hold = runtime.define<Hold>("hold", kHold);
  Graph nodes;
  Node before;
  for (int i = 0; i < 400; ++i) {
    Node node = nodes.add(spin, u64{1'000'000});
    if (i > 0) node.after(before);
    before = node;
  }
  const GraphExec exec = runtime.instantiate(nodes);
  const Ticket launch = runtime.launch(exec, priority(2));
  std::this_thread::sleep_for(5ms);
  const Preemption had = runtime.preempt(5, kSoon);
  EXPECT_TRUE(had.in_time);
  EXPECT_FALSE(launch.done()) << "it has given way in between";
  launch.wait();

  Latch latch(runtime);
  Graph stubborn;
  const Node first = stubborn.add(spin, u64{1000}).name("short");
  stubborn.add(hold, latch.words()).name("stubborn").after(first);
  const Ticket holds = runtime.launch(runtime.instantiate(stubborn), priority(2));
  latch.await();
  const Preemption late = runtime.preempt(5, 50ms);
  EXPECT_FALSE(late.in_time);
  const Preemption::Holder* const holder = find(late, holds);
  ASSERT_NE(holder, nullptr) << to_string(late);
  EXPECT_TRUE(holder->graph);
  EXPECT_EQ(holder->priority, 2U);
  latch.release();
  EXPECT_TRUE(runtime.preempt(5, kSoon).in_time);
  holds.wait();
}

TEST_P(PreemptTest, OnlyMoreUrgentTasksComeFirst) {
  Runtime runtime(with_priorities(1));
  const auto hold = runtime.define<Hold>("hold", kHold);
  const auto spin = runtime.define<Spin>("spin", kSpin);
  Latch latch(runtime);
  runtime.submit(hold, latch.words());
  latch.await();
  // They wait for the worker; the request overtakes them.
  std::vector<Ticket> lower;
  for (int i = 0; i < 20; ++i) lower.push_back(runtime.submit(spin, u64{20'000'000}, priority(2)));
  std::this_thread::sleep_for(20ms);
  std::jthread releases([&] {
    std::this_thread::sleep_for(20ms);
    latch.release();
  });
  EXPECT_TRUE(runtime.preempt(5, kSoon).in_time);
  EXPECT_FALSE(lower.back().done());
  const Preemption behind = runtime.preempt(1, kSoon);
  EXPECT_TRUE(behind.in_time);
  EXPECT_TRUE(lower.back().done()) << "less urgent than those";
}

TEST_P(PreemptTest, ReportsWhyNoWorkerIsAsked) {
  Runtime runtime(with_priorities(2));
  const auto hold = runtime.define<Hold>("hold", kHold);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  runtime.submit(nothing).wait();
  runtime.park();
  const Preemption parked = runtime.preempt(4, 20ms);
  EXPECT_FALSE(parked.in_time);
  EXPECT_TRUE(parked.parked);
  EXPECT_THAT(to_string(parked), HasSubstr("parked"));
  runtime.resume();
  EXPECT_TRUE(runtime.preempt(4, kSoon).in_time);
  Latch latch(runtime);
  runtime.submit(hold, latch.words());
  latch.await();
  const Ticket drains = runtime.submit(nothing, drain);
  const Preemption behind = runtime.preempt(4, 20ms);
  EXPECT_FALSE(behind.in_time);
  EXPECT_EQ(behind.behind_drain, drains.position());
  EXPECT_THAT(to_string(behind), HasSubstr("the drain of ticket " + std::to_string(drains.position())));
  latch.release();
  EXPECT_TRUE(runtime.preempt(4, kSoon).in_time);
}

TEST_P(PreemptTest, FullRingRefusesARequest) {
  Options small = with_priorities(2);
  small.ring_slots = 128;
  Runtime runtime(small);
  const auto hold = runtime.define<Hold>("hold", kHold);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  Latch latch(runtime);
  const Ticket holds = runtime.submit(hold, latch.words());
  latch.await();
  runtime.submit(nothing, drain);
  while (runtime.try_submit(nothing)) {}
  const Preemption late = runtime.preempt(5, 50ms);
  EXPECT_FALSE(late.in_time);
  EXPECT_NE(find(late, holds), nullptr);
  std::jthread releases([&] {
    std::this_thread::sleep_for(10ms);
    latch.release();
  });
  EXPECT_TRUE(runtime.preempt(5, kSoon).in_time);
  runtime.wait_all();
}

TEST_P(PreemptTest, CallbacksMayPreempt) {
  Runtime runtime(with_priorities(2));
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  runtime.submit(nothing).wait();
  std::atomic<bool> in_time{false};
  Graph graph;
  graph.add_host("asks", [&] { in_time = runtime.preempt(7, kSoon).in_time; });
  runtime.launch(runtime.instantiate(graph)).wait();
  EXPECT_TRUE(in_time);
}

TEST_P(PreemptTest, ManyPreemptAtOnce) {
  Runtime runtime(with_priorities(2));
  const auto spin = runtime.define<Spin>("spin", kSpin);
  std::atomic<bool> over{false};
  std::jthread submitter([&] {
    while (!over) runtime.submit(spin, u64{200'000}, priority(2));
  });
  std::vector<std::jthread> askers;
  for (unsigned i = 0; i < 4; ++i)
    askers.emplace_back([&, i] {
      for (int turn = 0; turn < (kSanitized ? 5 : 30); ++turn) EXPECT_TRUE(runtime.preempt(4 + i % 2, kSoon).in_time);
    });
  askers.clear();
  over = true;
  submitter.join();
  runtime.wait_all();
}

TEST_P(PreemptTest, InvalidRequestsAreRefused) {
  Runtime without(options());
  DWELL_EXPECT_ERROR(without.preempt(5, 1ms), errc::unsupported, HasSubstr("the option priorities"));
  Runtime runtime(with_priorities(1));
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  DWELL_EXPECT_ERROR(runtime.preempt(8, 1ms), errc::invalid_argument, HasSubstr("priority is 8"));
  DWELL_EXPECT_ERROR(runtime.preempt(5, -1ns), errc::invalid_argument, HasSubstr("negative"));
  DWELL_EXPECT_ERROR(runtime.capture([&] {
    runtime.submit(nothing);
    runtime.preempt(5, 1ms);
  }),
                     errc::unsupported, HasSubstr("capture"));
  EXPECT_TRUE(runtime.preempt(5, std::chrono::nanoseconds::max()).in_time) << "for ever";
  runtime.close();
  DWELL_EXPECT_ERROR(runtime.preempt(5, 1ms), errc::closed, HasSubstr("closed"));
}

}  // namespace
}  // namespace dwell::test
