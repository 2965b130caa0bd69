// Tasks that wait for other tasks, named by their tickets.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Stamps its begin and end from a common clock, each group separately; runs for `ns`, and fails with a code other than 0.
constexpr const char* kTimedStep = R"(
DWELL_OPERATOR(step)(dwell::Group g, dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> began, dwell::Span<dwell::u32> ended,
                     dwell::u32 at, dwell::u64 ns, dwell::i32 code) {
  using namespace dwell::device;
  if (g.rank() != 0) return;
  began[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
  const dwell::u64 start = now_ns();
  while (now_ns() - start < ns) {}
  if (code != 0) g.fail(code);
  ended[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
})";

// As above with many more words, which it checks.
template <u32 Words>
struct TimedWords {
  u32 word[Words];
  explicit TimedWords(u32 at) {
    for (u32 i = 0; i < Words; ++i) word[i] = at + i;
  }
};
std::string long_timed_step(const std::string& name, u32 words) {
  return "struct Extra { dwell::u32 word[" + std::to_string(words) + "]; };\nDWELL_OPERATOR(" + name + R"()(dwell::Group g,
      dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> began, dwell::Span<dwell::u32> ended, dwell::u32 at, Extra extra) {
  using namespace dwell::device;
  if (g.rank() != 0) return;
  began[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
  for (dwell::u32 i = 0; i < )" +
         std::to_string(words) + R"(; ++i) if (extra.word[i] != at + i) g.fail(999);
  ended[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
})";
}

class AfterTest : public DeviceTest {
 protected:
  static constexpr std::size_t kCells = 8192;
  struct Setup {
    explicit Setup(const Options& options)
        : runtime(options),
          step(runtime.define("step", kTimedStep)),
          hold(runtime.define<Hold>("hold", kHold)),
          nothing(runtime.define<void()>("nothing", kNothing)),
          clock(filled<u32>(runtime, 1, 0)),
          began(filled<u32>(runtime, kCells, ~0U)),
          ended(filled<u32>(runtime, kCells, ~0U)) {}

    template <class... Modifiers>
    Ticket submit(u32 at, const Modifiers&... modifiers) {
      return runtime.submit(step, clock, began, ended, at, u64{0}, 0, modifiers...);
    }
    template <class... Modifiers>
    Ticket submit_slow(u32 at, u64 ns, const Modifiers&... modifiers) {
      return runtime.submit(step, clock, began, ended, at, ns, 0, modifiers...);
    }
    template <class... Modifiers>
    Ticket submit_bad(u32 at, int code, const Modifiers&... modifiers) {
      return runtime.submit(step, clock, began, ended, at, u64{0}, code, modifiers...);
    }
    // Makes later tasks tracked, so that waiting for them needs no drain.
    void track() {
      runtime.submit(nothing);
      runtime.submit(nothing, link).wait();
    }
    struct Stamps {
      std::vector<u32> began;
      std::vector<u32> ended;
    };
    Stamps stamps() {
      runtime.wait_all();
      return {read(began), read(ended)};
    }

    Runtime runtime;
    Operator<> step;
    Operator<Hold> hold;
    Operator<void()> nothing;
    Buffer<u32> clock;
    Buffer<u32> began;
    Buffer<u32> ended;
  };

  static auto names(const Ticket& cancelled, const Ticket& cause, const std::string& how) {
    return AllOf(HasSubstr("ticket " + std::to_string(cancelled.position()) + " of operator"), HasSubstr("was cancelled"),
                 HasSubstr("ticket " + std::to_string(cause.position()) + " of operator"), HasSubstr(how));
  }
};
DWELL_ON_EVERY_DEVICE(AfterTest);

TEST_P(AfterTest, AChainRunsInOrder) {
  constexpr u32 kLength = kSanitized ? 3'000 : 20'000;
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  Ticket last;
  for (u32 i = 0; i < kLength; ++i) last = runtime.submit(append, number, i, after(last));
  EXPECT_EQ(read(number)[0], appended(kLength));
}

TEST_P(AfterTest, DiamondsJoin) {
  constexpr u32 kDiamonds = kSanitized ? 200 : 1'000;
  for (const bool tracked : {false, true}) {
    Setup all(options());
    if (tracked) all.track();
    Ticket top;
    for (u32 i = 0; i < kDiamonds; ++i) {
      const Ticket left = all.submit(i * 4 + 1, after(top));
      const Ticket right = all.submit_slow(i * 4 + 2, i % 7 * 1000, after(top));
      top = all.submit(i * 4 + 3, after(left, right));
    }
    const auto [began, ended] = all.stamps();
    for (u32 i = 0; i < kDiamonds; ++i) {
      const u32 at = i * 4;
      ASSERT_GT(began[at + 3], std::max(ended[at + 1], ended[at + 2])) << i;
      if (i == 0) continue;
      ASSERT_GT(std::min(began[at + 1], began[at + 2]), ended[at - 1]) << i;
    }
  }
}

TEST_P(AfterTest, ATaskWaitsForSixteenOthers) {
  Setup all(options());
  all.track();
  for (u32 round = 0; round < 100; ++round) {
    const u32 at = round * 17;
    std::vector<Ticket> before;
    for (u32 i = 0; i < 16; ++i) before.push_back(all.submit_slow(at + i, (i * 7 + round) % 16 * 2000));
    all.submit(at + 16, after(before));
  }
  const auto [began, ended] = all.stamps();
  for (u32 round = 0; round < 100; ++round)
    for (u32 i = 0; i < 16; ++i) ASSERT_LT(ended[round * 17 + i], began[round * 17 + 16]) << round;
}

TEST_P(AfterTest, ManyTasksWaitForOne) {
  Options many = options();
  many.ring_slots = 4096;
  Setup all(many);
  all.track();
  Latch latch(all.runtime);
  const Ticket held = all.runtime.submit(all.hold, latch.words());
  const Ticket other = all.submit(0);
  latch.await();
  std::vector<Ticket> waiting;
  for (u32 i = 1; i <= 1000; ++i) {
    if (i % 3 == 0)
      waiting.push_back(all.submit(i, after(held, other)));
    else
      waiting.push_back(all.submit(i, after(held)));
  }
  EXPECT_TRUE(all.submit(1001).wait_for(20s)) << "others pass";
  EXPECT_FALSE(waiting[500].wait_for(5ms));
  for (const Ticket& ticket : waiting) ASSERT_FALSE(ticket.done());
  latch.release();
  const auto [began, ended] = all.stamps();
  for (u32 i = 1; i <= 1000; ++i) ASSERT_NE(ended[i], ~0U) << i;
  EXPECT_EQ(read(all.clock)[0], 2 * 1002U) << "something ran twice";
}

TEST_P(AfterTest, FirstWaitCoversAnUntrackedTask) {
  for (int turn = 0; turn < 5; ++turn) {
    Setup all(options());
    const Ticket first = all.submit_slow(0, 2'000'000);
    const Ticket second = all.submit_slow(1, 1'000'000);
    all.submit(2, after(first, second));
    const auto [began, ended] = all.stamps();
    EXPECT_GT(began[2], std::max(ended[0], ended[1]));
  }
}

TEST_P(AfterTest, TicketsOfOtherThreadsAndOldTickets) {
  constexpr u32 kEach = kSanitized ? 300 : 1500;
  Options small = options();
  small.ring_slots = 256;
  Setup all(small);
  std::mutex mutex;
  std::vector<Ticket> tickets(4 * kEach);
  std::vector<std::vector<u32>> before(4 * kEach);
  std::atomic<u32> count{0};
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < 4; ++me)
    threads.emplace_back([&, me] {
      Random random(me + 77);
      for (u32 i = 0; i < kEach; ++i) {
        std::vector<Ticket> list;
        u32 at = 0;
        {
          const std::lock_guard lock(mutex);
          at = count;
          // Mostly recent tasks, and some of any age.
          for (u32 k = random() % 5; k > 0 && at != 0; --k) {
            const u32 which = random() % 4 == 0 ? random() % at : at - 1 - random() % std::min(at, 40U);
            before[at].push_back(which);
            list.push_back(tickets[which]);
          }
          tickets[at] = all.submit(at, after(list));
          ++count;
        }
        if (i % 3 == 0) all.runtime.submit(all.nothing);
      }
    });
  threads.clear();
  const auto [began, ended] = all.stamps();
  for (u32 at = 0; at < before.size(); ++at)
    for (const u32 task : before[at]) ASSERT_LT(ended[task], began[at]) << at << " after " << task;
}

TEST_P(AfterTest, DoneAndEmptyTicketsAreSkipped) {
  Setup all(options());
  const Ticket done = all.submit(0);
  done.wait();
  EXPECT_TRUE(all.submit(1, after(Ticket(), done, Ticket())).wait_for(20s));
  EXPECT_TRUE(all.submit(2, after({})).wait_for(20s));
  for (u32 i = 0; i < 3000; ++i) all.runtime.submit(all.nothing);
  all.runtime.wait_all();
  Latch latch(all.runtime);
  const Ticket held = all.runtime.submit(all.hold, latch.words());
  latch.await();
  const Ticket recent = all.submit(3);
  recent.wait();
  // The host drops both tickets: not even a drain is left, although the first waiting task of a runtime is one.
  EXPECT_TRUE(all.submit(5, after(done, recent)).wait_for(20s));
  latch.release();
  held.wait();
}

TEST_P(AfterTest, AFailureCancelsAndIsNamed) {
  for (const bool tracked : {false, true}) {
    Setup all(with_all_parts());
    if (tracked) all.track();
    Latch latch(all.runtime);
    const Ticket held = all.runtime.submit(all.hold, latch.words());
    const Ticket good = all.submit(0);
    const Ticket bad = all.submit_bad(1, 7, after(good));
    latch.await();
    const Ticket cancelled = all.submit(2, after(good, bad, held));
    const Ticket second = all.submit(3, after(cancelled));
    const Ticket third = all.submit(4, after(held, second));
    const Ticket regardless = all.submit(5, after_any_result(bad, third), after(held));
    const Ticket behind = all.submit(6, after(regardless));
    latch.release();
    for (const Ticket& ticket : {cancelled, second, third}) {
      EXPECT_EQ(ticket.status(), status::cancelled);
      DWELL_EXPECT_ERROR(ticket.wait(), errc::cancelled, names(ticket, bad, "step (version 1), which failed with code 7"));
      DWELL_EXPECT_ERROR_FIELDS(ticket.wait(), errc::cancelled, "task", "step (version 1)", bad.position());
    }
    EXPECT_EQ(regardless.status(), status::ok);
    EXPECT_EQ(behind.status(), status::ok);
    const auto [began, ended] = all.stamps();
    for (const u32 at : {2U, 3U, 4U}) EXPECT_EQ(began[at], ~0U) << "a cancelled task ran";
    EXPECT_LT(ended[5], began[6]);
    // The same with tickets that left the ring long ago.
    for (u32 i = 0; i < 3000; ++i) all.runtime.submit(all.nothing);
    all.runtime.wait_all();
    const Ticket late = all.submit(7, after(good, third, bad));
    DWELL_EXPECT_ERROR(late.wait(), errc::cancelled, names(late, bad, "code 7"));
    EXPECT_EQ(all.submit(8, after_any_result(good, third, bad)).status(), status::ok);
  }
}

TEST_P(AfterTest, CancelledTaskCompletesAfterAllThatItNames) {
  // Tasks that follow it with after_any_result thus follow those too.
  Setup all(options());
  all.track();
  Latch latch(all.runtime);
  const Ticket bad = all.submit_bad(0, 7);
  EXPECT_EQ(bad.status(), 7);
  const Ticket held = all.runtime.submit(all.hold, latch.words());
  const Ticket other_bad = all.submit_bad(1, 8);
  latch.await();
  const Ticket cancelled = all.submit(2, after(bad, held));
  const Ticket also = all.submit(3, after(held, other_bad));
  const Ticket linked = all.submit(4, link, after(bad));
  const Ticket regardless = all.submit(5, after_any_result(linked, cancelled));
  for (const Ticket& ticket : {cancelled, also, linked, regardless}) EXPECT_FALSE(ticket.wait_for(2ms));
  latch.release();
  EXPECT_EQ(regardless.status(), status::ok);
  DWELL_EXPECT_ERROR(cancelled.wait(), errc::cancelled, names(cancelled, bad, "code 7"));
  DWELL_EXPECT_ERROR(also.wait(), errc::cancelled, names(also, other_bad, "code 8"));
  EXPECT_EQ(linked.status(), status::cancelled);
}

TEST_P(AfterTest, ChainBehindAFailureIsCancelled) {
  Setup all(options());
  all.track();
  const Ticket bad = all.submit_bad(0, 5);
  std::vector<Ticket> chain = {bad, bad};
  for (u32 i = 1; i < 500; ++i) chain.push_back(all.submit(i, after(chain[i], chain[i - 1])));
  for (u32 i = 2; i < chain.size(); ++i) ASSERT_EQ(chain[i].status(), status::cancelled) << i;
  DWELL_EXPECT_ERROR(chain.back().wait(), errc::cancelled, names(chain.back(), bad, "code 5"));
  EXPECT_EQ(all.stamps().began[499], ~0U);
}

TEST_P(AfterTest, WideTasksAndDrainsAndLongOnesWait) {
  constexpr u32 kRounds = kSanitized ? 20 : 150;
  Options small = options();
  small.ring_slots = 256;
  Setup all(small);
  auto longer = all.runtime.define("longer", long_timed_step("longer", 30));
  auto longest = all.runtime.define("longest", long_timed_step("longest", 80));  // with two tickets, more than the eight words of one slot
  auto huge = all.runtime.define("huge", long_timed_step("huge", 600));          // in a block of memory
  const Ticket bad = all.submit_bad(kCells - 1, 3);
  for (u32 round = 0; round < kRounds; ++round) {
    const u32 at = round * 40;
    std::vector<Ticket> before = {bad};
    for (u32 i = 0; i < 12; ++i) before.push_back(all.submit_slow(at + i, i * 500));
    const Ticket wide = all.submit(at + 12, groups(5), after_any_result(before));
    const Ticket second =
        all.runtime.submit(longer, all.clock, all.began, all.ended, at + 17, TimedWords<30>(at + 17), after(wide), after(before[3]));
    std::vector<Ticket> more = before;
    more.push_back(wide);
    more.push_back(second);
    const Ticket third =
        all.runtime.submit(longest, all.clock, all.began, all.ended, at + 18, TimedWords<80>(at + 18), after_any_result(more), groups(3));
    const Ticket fourth =
        all.runtime.submit(huge, all.clock, all.began, all.ended, at + 21, TimedWords<600>(at + 21), after(third, second), link);
    const Ticket fifth = all.submit(at + 22, drain, after(fourth, third));
    all.submit(at + 23, after(fifth));
    const Ticket sixth = all.submit(at + 24, link, after(wide, third));
    if (round % 10 == 9) {
      EXPECT_EQ(sixth.status(), status::ok);
    }
  }
  const auto stamps = all.stamps();
  for (u32 round = 0; round < kRounds; ++round) {
    const u32 at = round * 40;
    const auto begin = [&](u32 first, u32 last) {
      return *std::min_element(stamps.began.begin() + at + first, stamps.began.begin() + at + last);
    };
    const auto end = [&](u32 first, u32 last) {
      return *std::max_element(stamps.ended.begin() + at + first, stamps.ended.begin() + at + last);
    };
    ASSERT_LT(end(0, 12), begin(12, 17));
    ASSERT_LT(end(12, 17), begin(17, 18));
    ASSERT_LT(end(0, 18), begin(18, 21));
    ASSERT_LT(end(18, 21), begin(21, 22));
    ASSERT_LT(end(0, 22), begin(22, 23));
    ASSERT_LT(end(22, 23), begin(23, 24));
    ASSERT_LT(end(23, 24), begin(24, 25));
    for (u32 i = 0; i < 25; ++i) ASSERT_NE(stamps.ended[at + i], ~0U);
  }
}

TEST_P(AfterTest, OrderHoldsThroughLeasesAndParks) {
  constexpr u32 kTasks = kSanitized ? 1'500 : 8'000;
  Options tiny = options();
  tiny.ring_slots = 128;
  tiny.lease = 200us;
  tiny.idle = 50us;
  Setup all(tiny);
  std::atomic<bool> over{false};
  std::jthread parker([&] {
    while (!over) {
      all.runtime.park();
      std::this_thread::sleep_for(100us);
      all.runtime.resume();
      std::this_thread::sleep_for(1ms);
    }
  });
  Random random(3);
  std::vector<Ticket> tickets;
  std::vector<std::vector<u32>> before(kTasks);
  for (u32 i = 0; i < kTasks; ++i) {
    std::vector<Ticket> list;
    for (u32 k = random() % 4; k > 0 && i != 0; --k) {
      const u32 which = i - 1 - random() % std::min(i, 30U);
      before[i].push_back(which);
      list.push_back(tickets[which]);
    }
    tickets.push_back(all.submit_slow(i, random() % 50 == 0 ? 100'000 : 0, after(list)));
  }
  over = true;
  parker.join();
  const auto [began, ended] = all.stamps();
  for (u32 i = 0; i < kTasks; ++i)
    for (const u32 task : before[i]) ASSERT_LT(ended[task], began[i]) << i << " after " << task;
}

TEST_P(AfterTest, EverySubmitFunctionAcceptsAfter) {
  Setup all(options());
  all.track();
  Latch latch(all.runtime);
  const Ticket held = all.runtime.submit(all.hold, latch.words());
  const Ticket other = all.submit(0);
  latch.await();
  const std::optional<Ticket> tried = all.runtime.try_submit(all.step, all.clock, all.began, all.ended, 1U, u64{0}, 0, after(held, other));
  ASSERT_TRUE(tried);
  const Ticket many = all.runtime.submit_many(all.step, 3, [&](std::size_t i, auto&& put) {
    const u32 at = 2 + static_cast<u32>(i);
    if (i == 1)
      put(all.clock, all.began, all.ended, at, u64{0}, 0);
    else
      put(all.clock, all.began, all.ended, at, u64{0}, 0, after({held, other}));
  });
  const auto submit_listed = [&](u32 at) {
    Arguments arguments;
    arguments.add(all.clock).add(all.began).add(all.ended).add(at).add(u64{0}).add(0);
    arguments.add(after(std::span<const Ticket>(&held, 1))).add(after_any_result(other));
    return all.runtime.submit(all.step, arguments);
  };
  const Ticket listed = submit_listed(5);
  const Ticket again = submit_listed(6);
  std::this_thread::sleep_for(5ms);
  for (const Ticket& ticket : {*tried, many, listed, again}) EXPECT_FALSE(ticket.done());
  latch.release();
  for (const Ticket& ticket : {*tried, many, listed, again}) EXPECT_EQ(ticket.status(), status::ok);
  const auto [began, ended] = all.stamps();
  for (u32 at = 1; at <= 6; ++at) EXPECT_NE(ended[at], ~0U);
}

TEST_P(AfterTest, TicketsThatCannotBeWaitedForAreRefused) {
  Setup all(options());
  Setup other(options());
  const Ticket theirs = other.submit(0);
  DWELL_EXPECT_ERROR(all.submit(0, after(theirs)), errc::invalid_argument, HasSubstr("belongs to another runtime"));
  Arguments arguments;
  arguments.add(all.clock).add(all.began).add(all.ended).add(5U).add(u64{0}).add(0).add(after(theirs));
  DWELL_EXPECT_ERROR(all.runtime.submit(all.step, arguments), errc::invalid_argument, HasSubstr("belongs to another runtime"));
  const Ticket mine = all.submit(0);
  DWELL_EXPECT_ERROR(arguments.add(after(mine)), errc::invalid_argument, HasSubstr("belongs to another runtime"));
  other.runtime.close();
  DWELL_EXPECT_ERROR(all.submit(0, after(mine, theirs)), errc::stale_handle, HasSubstr("named in `after`"));
  const std::vector<Ticket> many(17, mine);
  DWELL_EXPECT_ERROR(static_cast<void>(after(many)), errc::invalid_argument, HasSubstr("at most 16 tickets, 17 were given"));
  const std::vector<Ticket> nine(9, mine);
  DWELL_EXPECT_ERROR(all.submit(0, after(nine), after_any_result(nine)), errc::invalid_argument, HasSubstr("at most 16 tickets"));
  DWELL_EXPECT_ERROR_FIELDS(all.submit(0, after(nine), after(nine)), errc::invalid_argument, "ticket", "after", 17U, 16U);
  EXPECT_EQ(all.submit(1, after(std::span(nine).first(8)), after_any_result(std::span(nine).first(8))).status(), status::ok);
}

TEST_P(AfterTest, CloseCancelsWaitingTasks) {
  for (const Close how : {Close::now, Close::when_done}) {
    Setup all(options());
    all.track();
    const Ticket slow = all.submit_slow(0, 20'000'000);
    const Ticket second = all.submit(1);
    const Ticket waiting = all.submit(2, after(slow, second));
    all.runtime.close(how);
    EXPECT_TRUE(waiting.done());
    if (how == Close::when_done)
      EXPECT_EQ(waiting.status(), status::ok);
    else if (waiting.status() != status::ok)
      DWELL_EXPECT_ERROR(waiting.wait(), errc::cancelled, HasSubstr("the runtime was closed before it ran"));
  }
}

}  // namespace
}  // namespace dwell::test
