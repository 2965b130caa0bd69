// Compactions of a heap whose mix of sizes changes, and what they cost the work that goes on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Item {
  u64 number;
};
DWELL_MOVABLE(Item);
struct Table {
  Field<Array<Item>> items;
};
DWELL_OBJECT(Table, items);

// Items of several sizes, which begin as the smallest does. A mix has one size: of ten changes each replaces seven eighths of all items.
constexpr const char* kItems = R"(
struct Item { dwell::u64 number; };
DWELL_MOVABLE(Item);
template <dwell::u32 words>
struct Of { dwell::u64 number; dwell::u64 rest[words]; };
using Item2 = Of<2>; using Item6 = Of<6>; using Item13 = Of<13>; using Item29 = Of<29>; using Item61 = Of<61>; using Item125 = Of<125>;
DWELL_MOVABLE(Item2); DWELL_MOVABLE(Item6); DWELL_MOVABLE(Item13); DWELL_MOVABLE(Item29); DWELL_MOVABLE(Item61); DWELL_MOVABLE(Item125);
struct Table { dwell::Field<dwell::Array<Item>> items; };
DWELL_OBJECT(Table, items);

inline dwell::Array<Item>& items_of(dwell::Group g, dwell::Root<Table> root) { return *g.at(g.at(g.at(root)->ref.get())->items.get(g)); }
inline dwell::u64 sign_of(dwell::u32 i) { return i * 0x9E3779B97F4A7C15ULL; }

DWELL_OPERATOR(begin)(dwell::Group g, dwell::Root<Table> root, dwell::u32 count) {
  if (g.rank() != 0) return;
  const auto table = g.make<Table>(dwell::Ref<dwell::Array<Item>>{});
  g.at(table)->items.publish(g, g.make_array<Item>(count));
  g.at(root)->ref.publish(g, table);
}
template <class T>
DWELL_DEVICE_FUNCTION void put(dwell::Group g, dwell::Array<Item>& items, dwell::u32 i) {
  items[i].publish(g, g.make<T>(sign_of(i)).template as<Item>());
}
DWELL_OPERATOR(change)(dwell::Group g, dwell::Root<Table> root, dwell::u32 count, dwell::u32 mix) {
  dwell::Array<Item>& items = items_of(g, root);
  for (dwell::u32 i : g.range(count)) {
    if (mix != 0 && (i * 0x85EBCA6Bu ^ mix * 0xC2B2AE35u) % 8 == 0) continue;
    switch (mix % 6) {
      case 0: put<Item2>(g, items, i); break;
      case 1: put<Item61>(g, items, i); break;
      case 2: put<Item6>(g, items, i); break;
      case 3: put<Item125>(g, items, i); break;
      case 4: put<Item13>(g, items, i); break;
      default: put<Item29>(g, items, i); break;
    }
  }
}
// Looks at items from a place on, and counts wrong ones. Cells: how long the task took.
DWELL_OPERATOR(look)(dwell::Group g, dwell::Root<Table> root, dwell::u32 from, dwell::u32 count, dwell::u32 cell, dwell::Span<dwell::u32> took,
                     dwell::Span<dwell::u32> wrong) {
  const dwell::u64 begin = dwell::device::now_ns();
  dwell::Array<Item>& items = items_of(g, root);
  dwell::u32 mistakes = 0;
  for (dwell::u32 i : g.range(count))
    if (g.at(items[from + i].acquire(g))->number != sign_of(from + i)) ++mistakes;
  if (mistakes != 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&wrong[0], mistakes);
  g.sync();
  if (g.rank() == 0) took[cell] = dwell::u32(dwell::device::now_ns() - begin);
}
)";
constexpr const char* kNothing = "DWELL_OPERATOR(nothing)(dwell::Group) {}\n";

class CompactBenchmark {
 public:
  CompactBenchmark(const Context& context, Report& report)
      : context_(context),
        report_(report),
        count_(context.pick<u32>(context.cuda ? 4'000'000 : 100'000, 5'000)),
        runtime_(options()),
        heap_(runtime_.heap()),
        root_(heap_.root<Table>("table")) {
    change_ = runtime_.define("change", kItems);
    look_ = runtime_.define("look", kItems);
    nothing_ = runtime_.define<void()>("nothing", kNothing);
    wrong_ = runtime_.allocate<u32>(1);
    const std::vector<u32> none(1);
    wrong_.write(std::span<const u32>(none));
    runtime_.submit(runtime_.define("begin", kItems), Arguments().add(root_).add(count_)).wait();
  }

  void run() {
    change(0);
    heap_.compact();  // compiles
    double least = 1;
    std::vector<double> gib_each_ms;
    for (u32 mix = 1; mix <= 10; ++mix) {
      change(mix);
      heap_.collect();
      const double before = share();
      const HeapCompaction done = heap_.compact();
      const double after = share();
      least = std::min(least, after);
      const double ms = static_cast<double>(done.moving.count()) / 1e6;
      if (done.moved_bytes > (std::size_t{1} << 20U)) gib_each_ms.push_back(static_cast<double>(done.moved_bytes) / (1U << 30U) / ms);
      report_.note("change " + std::to_string(mix) + ": live " + percent(before) + " of the heap's pages before, " + percent(after) +
                   " after; moved " + std::to_string(done.moved_bytes >> 20U) + " MiB in " + std::to_string(static_cast<u64>(ms * 1000)) +
                   " us");
    }
    report_.check("live bytes above 80 % of the heap's pages after each of ten changes", least >= 0.8);
    report_.add(Goal{"live bytes after a change and a compaction, least", "of the pages in use", least, 0.85, 0.8, true});
    if (context_.cuda && !gib_each_ms.empty()) report_.add(Goal{"objects moved", "GiB a ms", spread_of(gib_each_ms).p50, 1, 0.4, true});
    work_beside();
    std::vector<u32> wrong(1);
    wrong_.read(std::span(wrong));
    report_.check_none("items that are not what was stored", wrong[0]);
    report_.check_none("contradictions in the heap's tables", heap_.verify().mistakes);
  }

 private:
  struct Times {
    std::vector<double> looks;
    std::vector<double> lone;
  };

  Options options() const {
    Options options = context_.options();
    options.heap.grow = context_.cuda ? std::size_t{4} << 30U : 0;
    return options;
  }
  static std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }
  double share() {
    const HeapStatistics now = heap_.statistics();
    const double large = static_cast<double>(std::size_t{count_} * 4);  // the table
    return (static_cast<double>(now.live_bytes()) + large) / static_cast<double>(now.used);
  }
  void change(u32 mix) {
    runtime_.submit(change_, Arguments().add(root_).add(count_).add(mix).add(groups(runtime_.info().workers * 2))).wait();
  }

  void work_beside() {
    const Times alone = work();
    u32 compactions = 0;
    u64 moved = 0;
    std::jthread compacting([&](const std::stop_token& stop) {
      // Each change leaves something to move.
      for (u32 mix = 11; !stop.stop_requested(); ++mix) {
        change(mix);
        moved += heap_.compact().moved;
        ++compactions;
      }
    });
    const Times beside = work();
    compacting.request_stop();
    compacting.join();
    report_.check("objects moved beside the work", moved != 0);
    report_.note("compactions beside the work: " + std::to_string(compactions) + ", objects moved: " + std::to_string(moved));
    const auto add = [&](const std::string& work, const std::vector<double>& rest, const std::vector<double>& during) {
      report_.add({work, "no compaction", true, "ns", spread_of(rest)});
      report_.add({work, "beside changes and compactions", true, "ns", spread_of(during)});
    };
    add("a task that looks at objects, in the device's time", alone.looks, beside.looks);
    add("a task alone and a wait", alone.lone, beside.lone);
  }

  Times work() {
    const u32 tasks = context_.pick<u32>(context_.cuda ? 20'000 : 4'000, 20);
    constexpr u32 kItemsOfTask = 512;
    Times times;
    Buffer<u32> took = runtime_.allocate<u32>(tasks);
    for (u32 i = 0; i < tasks; ++i)
      runtime_.submit(look_, Arguments().add(root_).add(i * 977U % (count_ - kItemsOfTask)).add(kItemsOfTask).add(i).add(took).add(wrong_));
    runtime_.wait_all();
    std::vector<u32> durations(tasks);
    took.read(std::span(durations));
    for (const u32 one : durations) times.looks.push_back(one);
    for (u32 i = 0; i < context_.pick<u32>(5'000, 20); ++i) {
      const Clock::time_point start = Clock::now();
      runtime_.submit(nothing_).wait();
      times.lone.push_back(nanoseconds_since(start));
    }
    return times;
  }

  const Context& context_;
  Report& report_;
  const u32 count_;
  Runtime runtime_;
  Heap heap_;
  Root<Table> root_;
  Operator<> change_;
  Operator<> look_;
  Operator<void()> nothing_;
  Buffer<u32> wrong_;
};

void run(const Context& context, Report& report) { CompactBenchmark(context, report).run(); }

const Registration kRegistration{{43, "compact", "compactions of a heap whose mix of sizes changes, and work beside them", 60, run}};

}  // namespace

}  // namespace dwell::bench
