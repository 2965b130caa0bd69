// Checks the order of everything at once: links, tasks after any others, drains, failures and cancelled successors, tasks cancelled by the
// host, wide and long tasks, gangs, priorities, tiny leases, parks, swaps, a small ring.
#include <algorithm>

#include <dwell/detail/open_at.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class ChaosTest : public DeviceTest {
 protected:
  std::chrono::seconds limit() const override { return 400s; }
  static bool brief() { return environment("DWELL_STRESS") == "short"; }

  // Runs stamping tasks from four threads under `options`, and checks their order along the tickets.
  static void run(Options options, u32 each, u32 seed, std::uint64_t first_position = 0) {
    constexpr u32 kProducers = 4;
    constexpr u32 kMostGroups = 6;
    struct Long {
      u32 word[50];
    };
    const bool has_priorities = options.priorities.has_value();
    Runtime runtime = detail::open_at(first_position, std::move(options));
    // Both take stamps, and fail with a code other than 0.
    auto stamp = runtime.define("stamp", R"(
      DWELL_OPERATOR(stamp)(dwell::Group g, dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> began, dwell::Span<dwell::u32> ended,
                            dwell::u32 at, dwell::i32 code, dwell::u32 ns, dwell::u32 in_gang) {
        using namespace dwell::device;
        if (g.rank() == 0) began[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
        if (in_gang != 0) g.gang().sync();
        if (g.rank() != 0) return;
        const dwell::u64 start = now_ns();
        while (now_ns() - start < ns) {}
        if (code != 0) g.fail(code);
        ended[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
      })");
    auto multi_slot = runtime.define("multi_slot", R"(
      struct Long { dwell::u32 word[50]; };
      DWELL_OPERATOR(multi_slot)(dwell::Group g, dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> began,
                                 dwell::Span<dwell::u32> ended, dwell::u32 at, dwell::i32 code, Long payload) {
        using namespace dwell::device;
        if (g.rank() != 0) return;
        began[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
        for (dwell::u32 i = 0; i < 50; ++i) if (payload.word[i] != at + i) g.fail(1000);
        if (code != 0) g.fail(code);
        ended[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
      })");
    auto other = runtime.define<Mark>("mark", mark_with(1));
    const u32 tasks = kProducers * each;
    const u32 workers = runtime.info().workers;
    auto clock = filled<u32>(runtime, 1, 1);  // 0 is the end of a cancelled task
    auto began = filled<u32>(runtime, std::size_t{tasks} * kMostGroups, ~0U);
    auto ended = filled<u32>(runtime, std::size_t{tasks} * kMostGroups, ~0U);

    struct After {
      u32 thread;
      u32 index;
      bool any_result;
    };
    struct Task {
      std::uint64_t position;
      u32 thread;
      u32 at;
      u32 groups;
      bool together;  // a gang
      i32 code;
      bool links;
      bool hard;
      bool drains;
      Ticket ticket;
      std::vector<After> after;
      // The outcome.
      bool failed;
      u32 end;  // 0 if it was cancelled
    };
    std::vector<std::vector<Task>> all(kProducers);
    std::vector<std::atomic<bool>> asked(tasks);  // to be cancelled by the host
    std::atomic<u32> submitted[kProducers] = {};
    std::atomic<bool> over{false};
    std::vector<std::jthread> producers;
    for (u32 me = 0; me < kProducers; ++me)
      producers.emplace_back([&, me] {
        Random random(seed * 16 + me);
        std::vector<Task>& mine = all[me];
        mine.reserve(each);
        for (u32 i = 0; i < each; ++i) {
          Task task{0,     me, (me * each + i) * kMostGroups, 1, false, 0, random() % 4 == 0, random() % 3 == 0, random() % 97 == 0, {}, {},
                    false, 0};
          if (random() % 5 == 0) task.groups = 2 + random() % (kMostGroups - 1);
          if (random() % 8 == 0) task.code = static_cast<i32>(1 + random() % 100);
          const u32 ns = random() % 400 == 0 ? 2'000'000 : random() % 20 == 0 ? random() % 100'000 : 0;
          const bool is_long = random() % 9 == 0;
          task.together = !is_long && task.groups > 1 && task.groups <= workers && random() % 2 == 0;
          Arguments arguments;
          arguments.add(clock).add(began).add(ended).add(task.at).add(task.code);
          if (task.together)
            arguments.add(gang(task.groups));
          else
            arguments.add(groups(task.groups));
          if (is_long) {
            Long words{};
            for (u32 k = 0; k < 50; ++k) words.word[k] = task.at + k;
            arguments.add(words);
          } else {
            arguments.add(ns).add(task.together ? 1U : 0U);
          }
          if (task.links) arguments.add(link);
          if (task.links && task.hard) arguments.add(hard_link);
          if (task.drains) arguments.add(drain);
          if (has_priorities && random() % 2 == 0) arguments.add(priority(random() % 8));
          if (random() % 3 == 0) {
            // Tasks of any thread, mostly recent ones.
            const u32 most = random() % 7 == 0 ? 16 : 3;
            std::vector<Ticket> tickets[2];
            for (u32 k = 1 + random() % most; k > 0; --k) {
              const u32 thread = random() % kProducers;
              const u32 count = submitted[thread].load(std::memory_order_acquire);
              if (count == 0) continue;
              const u32 index = count - 1 - random() % std::min(count, random() % 6 == 0 ? 5000U : 30U);
              const bool any_result = random() % 3 != 0;
              task.after.push_back({thread, index, any_result});
              tickets[any_result ? 1 : 0].push_back(all[thread][index].ticket);
            }
            arguments.add(after(tickets[0])).add(after_any_result(tickets[1]));
          }
          task.ticket = runtime.submit(is_long ? multi_slot : stamp, arguments);
          task.position = task.ticket.position();
          mine.push_back(task);
          submitted[me].store(i + 1, std::memory_order_release);
          if (random() % 12 == 0) {
            const u32 thread = random() % kProducers;
            const u32 count = submitted[thread].load(std::memory_order_acquire);
            const u32 index = count == 0 ? 0 : count - 1 - random() % std::min(count, 40U);
            if (count != 0) {
              asked[thread * each + index] = true;
              runtime.cancel(all[thread][index].ticket);
            }
          }
          if (random() % 500 == 0) static_cast<void>(task.ticket.status());
          if (random() % 300 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
        }
      });
    std::vector<std::jthread> disturbers;
    for (u32 me = 0; me < 2; ++me)
      disturbers.emplace_back([&, me] {
        Random random(seed + 1000 + me);
        while (!over) {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
          runtime.park();
          runtime.resume();
        }
      });
    disturbers.emplace_back([&] {
      for (u32 i = 0; !over; ++i) {
        other.redefine(mark_with(i % 3 + 1));
        std::this_thread::sleep_for(20ms);
      }
    });
    producers.clear();
    runtime.wait_all();
    over = true;
    disturbers.clear();

    const std::vector<u32> starts = read(began);
    const std::vector<u32> ends = read(ended);
    std::vector<Task*> order;
    for (auto& mine : all)
      for (Task& task : mine) order.push_back(&task);
    std::sort(order.begin(), order.end(), [](const Task* a, const Task* b) { return a->position < b->position; });
    struct Before {
      bool any;
      bool failed;
      u32 end;
    };
    Before before[kProducers] = {};  // the last task of each thread that ran, and whether its last one failed
    u32 last_end = 0;                // of all tasks so far
    u32 drain_end = 0;               // of the last drain
    u32 stamps = 0;
    u32 cancelled = 0;
    u32 by_host = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      Task& task = *order[i];
      Before& mine = before[task.thread];
      bool cancels = task.links && !task.hard && mine.failed;
      for (const After& one : task.after) cancels = cancels || (!one.any_result && all[one.thread][one.index].failed);
      // A task that has begun is not cancelled.
      if (!cancels && asked[task.at / kMostGroups] && task.ticket.status() == status::cancelled) {
        cancels = true;
        ++by_host;
      }
      if (cancels) {
        // It has waited for all tasks that it names, but for no others.
        if (!task.links) mine = {};
        mine.failed = task.failed = true;
        ++cancelled;
        ASSERT_EQ(task.ticket.status(), status::cancelled) << "ticket " << task.position;
        for (u32 group = 0; group < kMostGroups; ++group) ASSERT_EQ(starts[task.at + group], ~0U) << "a cancelled task ran";
        if (task.drains) drain_end = last_end;
        continue;
      }
      ASSERT_EQ(task.ticket.status(), task.code) << "ticket " << task.position;
      u32 start = ~0U;
      u32 last_start = 0;
      u32 first_end = ~0U;
      u32 end = 0;
      for (u32 group = 0; group < kMostGroups; ++group) {
        if (group >= task.groups) {
          ASSERT_EQ(starts[task.at + group], ~0U) << "ticket " << task.position << " ran a group too many";
          continue;
        }
        ASSERT_NE(ends[task.at + group], ~0U) << "group " << group << " of ticket " << task.position << " never ran";
        start = std::min(start, starts[task.at + group]);
        end = std::max(end, ends[task.at + group]);
        last_start = std::max(last_start, starts[task.at + group]);
        first_end = std::min(first_end, ends[task.at + group]);
        stamps += 2;
      }
      if (task.together) {
        ASSERT_LT(last_start, first_end) << "ticket " << task.position << ", a gang, did not run all at once";
      }
      if (i != 0) {
        ASSERT_GE(start, drain_end) << "ticket " << task.position << " began before the drain before it had ended";
        if (task.drains) {
          ASSERT_GT(start, last_end) << "ticket " << task.position << ", a drain, began before one before it had ended";
        }
        for (const After& one : task.after) {
          ASSERT_GT(start, all[one.thread][one.index].end)
              << "ticket " << task.position << " began before ticket " << all[one.thread][one.index].position << " had ended";
        }
        if (task.links && mine.any) {
          ASSERT_GT(start, mine.end) << "ticket " << task.position << " began before the one that it is linked to had ended";
        }
      }
      mine = {true, task.code != 0, end};
      task.failed = task.code != 0;
      task.end = end;
      last_end = std::max(last_end, end);
      if (task.drains) drain_end = end;
    }
    EXPECT_EQ(read(clock)[0], 1 + stamps) << "something ran twice";
    EXPECT_GT(cancelled, tasks / 200);
    EXPECT_GT(by_host, tasks / 1000);
    EXPECT_EQ(runtime.metrics().submitted, tasks);
  }
};
DWELL_ON_EVERY_DEVICE(ChaosTest);

TEST_P(ChaosTest, OrderHoldsUnderTinyLeases) {
  Options options = this->options();
  options.ring_slots = 128;
  options.lease = 100us;
  options.idle = 50us;
  if (on_cpu()) options.workers = 3;
  run(options, brief() ? 1'500 : 150'000, 1);
}

TEST_P(ChaosTest, OrderHoldsWithManyWorkers) {
  Options options = this->options();
  options.ring_slots = 128;
  options.lease = 2ms;
  if (on_cpu()) options.workers = 8;
  run(options, brief() ? 1'500 : 150'000, 2, (1ULL << 32U) - 4096);
}

TEST_P(ChaosTest, OrderHoldsWithOneWorker) {
  Options options = this->options();
  options.ring_slots = 256;
  options.lease = 300us;
  options.workers = 1;
  run(options, brief() ? 1'000 : 60'000, 3);
}

TEST_P(ChaosTest, OrderHoldsWithPriorities) {
  Options options = this->options();
  options.ring_slots = 128;
  options.lease = 500us;
  options.priorities = Priorities{{QueueOrder::lifo, QueueOrder::fifo, QueueOrder::lifo, QueueOrder::lifo}};
  if (on_cpu()) options.workers = 3;
  run(options, brief() ? 1'500 : 100'000, 4);
}

TEST_P(ChaosTest, SharesOvertakeAPreemptedWorker) {
  // More workers than processors, and only shares: a worker that is preempted between claiming and reading a place of the ready queue is
  // overtaken by a whole lap.
  Options options = this->options();
  options.ring_slots = 128;
  if (on_cpu()) options.workers = 12;
  Runtime runtime(options);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  const u32 tasks = brief() ? 20'000 : 2'000'000;
  for (u32 i = 0; i < tasks; ++i) runtime.submit(add, cells, 0U, 1U, groups(16));
  runtime.wait_all();
  EXPECT_EQ(read(cells)[0], tasks * 16);
}

TEST_P(ChaosTest, RuntimesEndDuringTheirTasks) {
  const int turns = brief() ? 10 : 300;
  Random random(5);
  for (int turn = 0; turn < turns; ++turn) {
    Options options = this->options();
    options.ring_slots = 128;
    options.lease = 200us;
    std::vector<Ticket> tickets;
    Buffer<u32> cells;
    std::vector<u32> counts(400);
    {
      Runtime runtime(options);
      auto add = runtime.define<Add>("add", kAdd);
      auto spin = runtime.define<Spin>("spin", kSpin);
      cells = runtime.allocate<u32>(400, Memory::host);
      for (u32 i = 0; i < 400; ++i) {
        switch (random() % 5) {
          case 0: tickets.push_back(runtime.submit(add, cells, i, 1U, groups(3))); break;
          case 1: tickets.push_back(runtime.submit(add, cells, i, 1U, link)); break;
          case 2: tickets.push_back(runtime.submit(spin, u64{random() % 20'000})); break;
          case 3: tickets.push_back(runtime.submit(add, cells, i, 1U, drain)); break;
          default: tickets.push_back(runtime.submit(add, cells, i, 1U)); break;
        }
        if (random() % 100 == 0) {
          runtime.park();
          runtime.resume();
        }
      }
      runtime.close(turn % 3 == 0 ? Close::when_done : Close::now);
    }
    for (const Ticket& ticket : tickets) {
      ASSERT_TRUE(ticket.done());
      const int status = ticket.status();
      ASSERT_TRUE(status == status::ok || (turn % 3 != 0 && status == status::cancelled)) << status;
    }
  }
}

}  // namespace
}  // namespace dwell::test
