// Runtime::cancel: tasks and launches that have not begun never do. Those that depend on them are cancelled; all others run.
#include <dwell/detail/open_at.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Reports its start, each group separately, and adds 1 to a cell.
constexpr const char* kCount = R"(
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
})";
using Count = void(Span<u32>, u32);

// A gang that adds 1 to a cell in each group.
constexpr const char* kCountInGang = R"(
DWELL_OPERATOR(count_in_gang)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {
  g.gang().sync();
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
})";

class CancelCallTest : public DeviceTest {
 protected:
  // Long enough for the device to fetch the ring and to handle cancels, which nothing outside shows. Processes that share a GPU have it for
  // some milliseconds each, in turns.
  static void let_fetch() { std::this_thread::sleep_for(GetParam() == "cpu" ? 20ms : 200ms); }

  struct Setup {
    explicit Setup(const Options& options)
        : runtime(options),
          count(runtime.define<Count>("count", kCount)),
          hold(runtime.define<Hold>("hold", kHold)),
          cells(filled<u32>(runtime, 16384, 0)),
          latch(runtime) {
      // Links are in use from here on, so that the next one is no drain.
      runtime.submit(count, cells, 16383U);
      runtime.submit(count, cells, 16383U, link).wait();
    }

    // Occupies one worker, or all, until the latch is released.
    Ticket occupy(bool all) {
      const Ticket ticket = all ? runtime.submit(hold, latch.words(), groups(runtime.info().workers)) : runtime.submit(hold, latch.words());
      latch.await();
      if (all) let_fetch();  // until all groups run
      return ticket;
    }
    std::vector<u32> counts() const { return read(cells); }

    Runtime runtime;
    Operator<Count> count;
    Operator<Hold> hold;
    Buffer<u32> cells;
    Latch latch;
  };

  static void expect_cancelled(const Ticket& ticket) {
    EXPECT_EQ(ticket.status(), status::cancelled) << "ticket " << ticket.position();
    DWELL_EXPECT_ERROR(ticket.wait(), errc::cancelled,
                       AllOf(HasSubstr("ticket " + std::to_string(ticket.position()) + " of"), HasSubstr("was cancelled by `cancel`")));
  }
  // Few workers, so that a wide task has a share for each.
  Options few() const {
    Options few = with_all_parts();
    few.workers = 2;
    return few;
  }
};
DWELL_ON_EVERY_DEVICE(CancelCallTest);

TEST_P(CancelCallTest, ATaskThatWaitsNeverRuns) {
  for (const bool fetched : {false, true}) {
    SCOPED_TRACE(fetched ? "it waits on the device" : "it may be in the ring yet");
    Setup all(with_all_parts());
    auto add_padded = all.runtime.define("add_padded", kAddPadded);
    auto count_in_gang = all.runtime.define("count_in_gang", kCountInGang);
    const Ticket held = all.occupy(false);
    const Ticket plain = all.runtime.submit(all.count, all.cells, 0U, after(held));
    const Ticket linked = all.runtime.submit(all.count, all.cells, 1U, link);
    const Ticket behind = all.runtime.submit(all.count, all.cells, 2U, after(linked));
    const Ticket regardless = all.runtime.submit(all.count, all.cells, 3U, after_any_result(plain));
    const Ticket wide = all.runtime.submit(all.count, all.cells, 4U, after(held), groups(7));
    const Ticket extensive = all.runtime.submit(add_padded, all.cells, 5U, Padded(1), after(held));
    const Ticket several = all.runtime.submit(all.count, all.cells, 6U, after_any_result(held, plain));
    const Ticket gang_of_one = all.runtime.submit(count_in_gang, all.cells, 7U, after(held), gang(1));
    const Ticket hard = all.runtime.submit(all.count, all.cells, 8U, hard_link);
    const Ticket free = all.runtime.submit(all.count, all.cells, 9U);
    if (fetched) let_fetch();
    for (const Ticket& ticket : {plain, wide, extensive, several, gang_of_one, hard}) EXPECT_TRUE(all.runtime.cancel(ticket));
    EXPECT_EQ(free.status(), status::ok);
    let_fetch();
    EXPECT_FALSE(plain.done()) << "it ends when its turn comes";
    all.latch.release();
    for (const Ticket& ticket : {plain, wide, extensive, several, gang_of_one, hard}) expect_cancelled(ticket);
    for (const Ticket& ticket : {linked, behind})
      DWELL_EXPECT_ERROR(ticket.wait(), errc::cancelled,
                         AllOf(HasSubstr("it was to start after ticket " + std::to_string(plain.position()) + " of operator count"),
                               HasSubstr("which was cancelled by `cancel`")));
    EXPECT_EQ(regardless.status(), status::ok);
    EXPECT_EQ(held.status(), status::ok);
    all.runtime.wait_all();
    const std::vector<u32> cells = all.counts();
    EXPECT_THAT(std::vector<u32>(cells.begin(), cells.begin() + 10), testing::ElementsAre(0, 0, 0, 1, 0, 0, 0, 0, 0, 1));
    // The message stays the same after more laps of the ring.
    for (u32 i = 0; i < 3000; ++i) all.runtime.submit(all.count, all.cells, 100U);
    all.runtime.wait_all();
    expect_cancelled(plain);
    DWELL_EXPECT_ERROR(behind.wait(), errc::cancelled, HasSubstr("which was cancelled by `cancel`"));
    EXPECT_EQ(all.counts()[100], 3000U);
  }
}

TEST_P(CancelCallTest, TasksInALongQueueNeverRun) {
  Setup all(few());
  const Ticket held = all.occupy(true);
  std::vector<Ticket> tickets;
  for (u32 i = 0; i < 600; ++i)
    tickets.push_back(i % 3 == 0 ? all.runtime.submit(all.count, all.cells, i, groups(3)) : all.runtime.submit(all.count, all.cells, i));
  let_fetch();
  for (u32 i = 0; i < 600; i += 2) EXPECT_TRUE(all.runtime.cancel(tickets[i]));
  let_fetch();
  all.latch.release();
  for (u32 i = 0; i < 600; ++i) ASSERT_EQ(tickets[i].status(), i % 2 == 0 ? status::cancelled : status::ok) << i;
  const std::vector<u32> cells = all.counts();
  for (u32 i = 0; i < 600; ++i) ASSERT_EQ(cells[i], i % 2 == 0 ? 0U : i % 3 == 0 ? 3U : 1U) << i;
  EXPECT_EQ(held.status(), status::ok);
  expect_cancelled(tickets[300]);
}

TEST_P(CancelCallTest, TasksThatWaitForAWorkerNeverRun) {
  // Tasks that have waited for another one and are now in the ready queue.
  Options given = with_all_parts();
  if (on_cpu()) given.workers = 3;
  Setup all(given);
  Latch others(all.runtime);
  Latch first(all.runtime);
  Latch third(all.runtime);
  const u32 workers = all.runtime.info().workers;
  all.runtime.submit(all.hold, others.words(), groups(workers - 2));
  others.await();
  const Ticket before = all.runtime.submit(all.hold, first.words());
  first.await();
  std::vector<Ticket> tickets;
  for (u32 i = 0; i < 20; ++i)
    tickets.push_back(i % 2 == 0 ? all.runtime.submit(all.count, all.cells, i, groups(4), after(before))
                                 : all.runtime.submit(all.count, all.cells, i, after(before)));
  // The last waiter continues first, on its predecessor's worker.
  const Ticket occupies = all.runtime.submit(all.hold, all.latch.words(), after(before));
  // On the CPU, occupies the worker that fetched all of these.
  all.runtime.submit(all.hold, third.words());
  third.await();
  first.release();
  all.latch.await();
  let_fetch();
  for (u32 i = 0; i < 20; i += 5) EXPECT_TRUE(all.runtime.cancel(tickets[i]));
  let_fetch();
  all.latch.release();
  others.release();
  third.release();
  all.runtime.wait_all();
  const std::vector<u32> cells = all.counts();
  for (u32 i = 0; i < 20; ++i) {
    EXPECT_EQ(tickets[i].status(), i % 5 == 0 ? status::cancelled : status::ok) << i;
    EXPECT_EQ(cells[i], i % 5 == 0 ? 0U : i % 2 == 0 ? 4U : 1U) << i;
  }
  EXPECT_EQ(occupies.status(), status::ok);
}

TEST_P(CancelCallTest, RunningTaskContinues) {
  Setup all(with_all_parts());
  const Ticket held = all.occupy(false);
  EXPECT_TRUE(all.runtime.cancel(held));
  let_fetch();
  all.latch.release();
  EXPECT_EQ(held.status(), status::ok);
  EXPECT_FALSE(all.runtime.cancel(held)) << "it is complete";
  // A wide task of which some groups have begun.
  all.latch.reset();
  const u32 workers = all.runtime.info().workers;
  const Ticket wide = all.runtime.submit(all.hold, all.latch.words(), groups(4 * workers));
  all.latch.await();
  EXPECT_TRUE(all.runtime.cancel(wide));
  let_fetch();
  all.latch.release();
  EXPECT_EQ(wide.status(), status::ok);
}

TEST_P(CancelCallTest, QueuedGangNeverRuns) {
  Options given = options();
  if (on_cpu()) given.workers = 4;
  Setup all(given);
  auto count_in_gang = all.runtime.define("count_in_gang", kCountInGang);
  const u32 most = all.runtime.info().workers;
  const Ticket held = all.occupy(false);
  std::vector<Ticket> gangs;
  for (u32 i = 0; i < 6; ++i) gangs.push_back(all.runtime.submit(count_in_gang, all.cells, i, gang(most)));
  let_fetch();  // the first gang is being assembled
  for (const u32 i : {1U, 2U, 5U}) EXPECT_TRUE(all.runtime.cancel(gangs[i]));
  let_fetch();
  all.latch.release();
  all.runtime.wait_all();
  const std::vector<u32> cells = all.counts();
  for (u32 i = 0; i < 6; ++i) {
    const bool cancelled = i == 1 || i == 2 || i == 5;
    EXPECT_EQ(gangs[i].status(), cancelled ? status::cancelled : status::ok) << i;
    EXPECT_EQ(cells[i], cancelled ? 0 : most) << i;
  }
  // The queue of gangs is intact.
  EXPECT_EQ(held.status(), status::ok);
  EXPECT_EQ(all.runtime.submit(count_in_gang, all.cells, 7U, gang(most)).status(), status::ok);
}

TEST_P(CancelCallTest, ALaunchThatWaitsNeverRuns) {
  Setup all(with_all_parts());
  Graph graph;
  Node first = graph.add(all.hold, all.latch.words());
  Node second = graph.add(all.count, all.cells, 0U);
  Node third = graph.add(all.count, all.cells, 1U);
  second.after(first);
  third.after(first);
  GraphExec exec = all.runtime.instantiate(graph);
  Graph other;
  other.add(all.count, all.cells, 3U);
  GraphExec behind = all.runtime.instantiate(other);

  const Ticket runs = all.runtime.launch(exec);
  all.latch.await();
  const Ticket queued = all.runtime.launch(exec);
  exec.set(second, 1, 2U);
  const Ticket changed = all.runtime.launch(exec);
  const Ticket next = all.runtime.launch(exec);
  const Ticket waits = all.runtime.launch(behind, after(runs));
  const Ticket linked = all.runtime.submit(all.count, all.cells, 4U, after(queued));
  let_fetch();
  for (const Ticket& ticket : {runs, queued, changed, waits}) EXPECT_TRUE(all.runtime.cancel(ticket));
  let_fetch();
  EXPECT_FALSE(queued.done());
  all.latch.release();
  EXPECT_EQ(runs.status(), status::ok) << "it had begun";
  for (const Ticket& ticket : {queued, changed, waits}) {
    expect_cancelled(ticket);
    DWELL_EXPECT_ERROR(ticket.wait(), errc::cancelled, HasSubstr("of a graph"));
  }
  DWELL_EXPECT_ERROR(linked.wait(), errc::cancelled, HasSubstr("which was cancelled by `cancel`"));
  EXPECT_EQ(next.status(), status::ok);
  EXPECT_EQ(all.runtime.launch(behind).status(), status::ok) << "an exec goes on working";
  const std::vector<u32> cells = all.counts();
  EXPECT_THAT(std::vector<u32>(cells.begin(), cells.begin() + 5), testing::ElementsAre(1, 2, 1, 1, 0))
      << "what a launch changes in its exec stays changed";
}

TEST_P(CancelCallTest, ALaunchInTheQueueNeverRuns) {
  Setup all(few());
  std::vector<GraphExec> execs;
  for (u32 i = 0; i < 10; ++i) {
    Graph graph;
    graph.add(all.count, all.cells, i).after(graph.add(all.count, all.cells, i));
    execs.push_back(all.runtime.instantiate(graph));
  }
  all.occupy(true);
  std::vector<Ticket> tickets;
  for (const GraphExec& exec : execs) tickets.push_back(all.runtime.launch(exec));
  let_fetch();
  for (u32 i = 0; i < 10; i += 2) EXPECT_TRUE(all.runtime.cancel(tickets[i]));
  let_fetch();
  all.latch.release();
  all.runtime.wait_all();
  for (u32 i = 0; i < 10; ++i) EXPECT_EQ(tickets[i].status(), i % 2 == 0 ? status::cancelled : status::ok) << i;
  for (const GraphExec& exec : execs) EXPECT_EQ(all.runtime.launch(exec).status(), status::ok);
  const std::vector<u32> cells = all.counts();
  for (u32 i = 0; i < 10; ++i) EXPECT_EQ(cells[i], i % 2 == 0 ? 2U : 4U) << i;
}

TEST_P(CancelCallTest, ADrainEndsInItsPlace) {
  Setup all(with_all_parts());
  const Ticket held = all.occupy(false);
  const Ticket drained = all.runtime.submit(all.count, all.cells, 0U, drain);
  const Ticket behind = all.runtime.submit(all.count, all.cells, 1U);
  EXPECT_TRUE(all.runtime.cancel(drained));
  let_fetch();
  EXPECT_FALSE(drained.done());
  EXPECT_FALSE(behind.done()) << "it stands behind the drain";
  all.latch.release();
  expect_cancelled(drained);
  EXPECT_EQ(behind.status(), status::ok);
  EXPECT_EQ(held.status(), status::ok);
  EXPECT_EQ(all.counts()[0], 0U);
}

TEST_P(CancelCallTest, WorksWithAFullRing) {
  Options given = few();
  given.ring_slots = 128;
  Setup all(given);
  const Ticket held = all.occupy(true);
  std::vector<Ticket> tickets;
  for (u32 i = 0;; ++i) {
    const auto ticket =
        i % 3 == 0 ? all.runtime.try_submit(all.count, all.cells, i, after(held)) : all.runtime.try_submit(all.count, all.cells, i);
    if (!ticket) break;
    tickets.push_back(*ticket);
  }
  ASSERT_GT(tickets.size(), 100U);
  for (std::size_t i = tickets.size(); i > 0; --i) EXPECT_TRUE(all.runtime.cancel(tickets[i - 1]));
  let_fetch();
  all.latch.release();
  for (const Ticket& ticket : tickets) expect_cancelled(ticket);
  const std::vector<u32> cells = all.counts();
  for (std::size_t i = 0; i < tickets.size(); ++i) ASSERT_EQ(cells[i], 0U) << i;
}

TEST_P(CancelCallTest, AParkedRuntimeCancelsToo) {
  Setup all(with_all_parts());
  all.runtime.submit(all.count, all.cells, 0U).wait();
  all.runtime.park();
  std::vector<Ticket> tickets;
  for (u32 i = 0; i < 900; ++i) tickets.push_back(all.runtime.submit(all.count, all.cells, i));
  for (const Ticket& ticket : tickets) EXPECT_TRUE(all.runtime.cancel(ticket));
  all.runtime.resume();
  for (const Ticket& ticket : tickets) ASSERT_EQ(ticket.status(), status::cancelled);
  const std::vector<u32> cells = all.counts();
  EXPECT_EQ(cells[0], 1U);
  for (u32 i = 1; i < 900; ++i) ASSERT_EQ(cells[i], 0U) << i;
}

TEST_P(CancelCallTest, OnlyTasksOfThisRuntimeThatAreNotCompleteAreCancelled) {
  Setup all(with_all_parts());
  const Ticket held = all.occupy(false);
  const Ticket waits = all.runtime.submit(all.count, all.cells, 0U, after(held));
  EXPECT_TRUE(all.runtime.cancel(waits));
  EXPECT_TRUE(all.runtime.cancel(waits)) << "the second time too";
  let_fetch();
  all.latch.release();
  expect_cancelled(waits);
  EXPECT_FALSE(all.runtime.cancel(waits));
  EXPECT_FALSE(all.runtime.cancel(Ticket()));
  const Ticket done = all.runtime.submit(all.count, all.cells, 1U);
  done.wait();
  EXPECT_FALSE(all.runtime.cancel(done));
  EXPECT_EQ(done.status(), status::ok);
  for (u32 i = 0; i < 3000; ++i) all.runtime.submit(all.count, all.cells, 2U);
  EXPECT_FALSE(all.runtime.cancel(done)) << "its place in the ring is another's";
  all.runtime.wait_all();
  EXPECT_EQ(all.counts()[2], 3000U);
  const std::vector<Ticket> captured = [&] {
    std::vector<Ticket> tickets;
    static_cast<void>(all.runtime.capture([&] { tickets.push_back(all.runtime.submit(all.count, all.cells, 0U)); }));
    return tickets;
  }();
  DWELL_EXPECT_ERROR(all.runtime.cancel(captured[0]), errc::invalid_argument, HasSubstr("captured"));
  Runtime other(options());
  DWELL_EXPECT_ERROR(other.cancel(done), errc::invalid_argument,
                     HasSubstr("ticket " + std::to_string(done.position()) + ", given to `cancel`, belongs to another runtime"));
  all.runtime.close();
  DWELL_EXPECT_ERROR(other.cancel(done), errc::stale_handle, HasSubstr("ticket " + std::to_string(done.position())));
  DWELL_EXPECT_ERROR(all.runtime.cancel(done), errc::closed, HasSubstr("closed"));
  expect_cancelled(waits);
}

TEST_P(CancelCallTest, EachOfManyTasksRunsOnceOrNever) {
  const u32 tasks = kSanitized ? 1500 : 10'000;
  for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32U) - 4096}) {
    Options given = with_all_parts();
    given.ring_slots = 16384;
    given.lease = 300us;
    if (on_cpu()) given.workers = 3;
    Runtime runtime = detail::open_at(first, given);
    auto count = runtime.define<Count>("count", kCount);
    auto other = runtime.define<Mark>("mark", mark_with(1));
    auto hold = runtime.define<Hold>("hold", kHold);
    auto cells = filled<u32>(runtime, tasks, 0);
    Latch latch(runtime);
    const Ticket held = runtime.submit(hold, latch.words());
    latch.await();
    Random random(static_cast<u32>(first) + 7);
    std::vector<Ticket> tickets;
    for (u32 i = 0; i < tasks; ++i) {
      switch (random() % 8) {
        case 0: tickets.push_back(runtime.submit(count, cells, i, after(held))); break;
        case 1: tickets.push_back(runtime.submit(count, cells, i, groups(3))); break;
        case 2: tickets.push_back(runtime.submit(count, cells, i, hard_link)); break;
        case 3:
          tickets.push_back(runtime.submit(count, cells, i, after_any_result(tickets.empty() ? held : tickets[random() % i], held)));
          break;
        default: tickets.push_back(runtime.submit(count, cells, i)); break;
      }
    }
    std::vector<u32> order(tasks);
    for (u32 i = 0; i < tasks; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    std::atomic<bool> over{false};
    std::jthread disturber([&] {
      for (u32 i = 0; !over; ++i) {
        runtime.park();
        runtime.resume();
        if (i % 8 == 0) other.redefine(mark_with(i % 3 + 1));
      }
    });
    std::jthread releaser([&] {
      std::this_thread::sleep_for(2ms);
      latch.release();
    });
    u32 asked = 0;
    for (const u32 i : order) asked += runtime.cancel(tickets[i]) ? 1 : 0;
    runtime.wait_all();
    over = true;
    disturber.join();
    releaser.join();
    const std::vector<u32> counts = read(cells);
    u32 cancelled = 0;
    for (u32 i = 0; i < tasks; ++i) {
      const int status = tickets[i].status();
      if (status == status::cancelled) {
        ++cancelled;
        ASSERT_EQ(counts[i], 0U) << "a cancelled task ran: " << i;
      } else {
        ASSERT_EQ(status, status::ok) << i;
        ASSERT_TRUE(counts[i] == 1 || counts[i] == 3) << i;
      }
    }
    EXPECT_GT(cancelled, 0U);
    EXPECT_GE(asked, cancelled);
    // No leftover request cancels later tasks.
    for (u32 i = 0; i < 2 * given.ring_slots; ++i) runtime.submit(count, cells, 0U);
    runtime.wait_all();
    EXPECT_EQ(read(cells)[0] - counts[0], 2 * given.ring_slots);
  }
}

}  // namespace
}  // namespace dwell::test
