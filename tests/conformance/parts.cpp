// Parts of the loop that are loaded at their first use, while tasks run.
#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class PartsTest : public DeviceTest {
 protected:
  // Only definitions and first uses make images.
  Options fixed(Parts parts) const {
    Options given = options();
    given.tier = Tier::relocatable;
    given.parts = parts;
    return given;
  }
  static std::uint64_t images(Runtime& runtime) { return runtime.metrics().hand_overs_relocatable; }
};

DWELL_ON_EVERY_DEVICE(PartsTest);

// A first use of each part; each adds 1 to the first cell.
struct FirstUses {
  explicit FirstUses(Runtime& of) : runtime(of), add(of.define<Add>("add", kAdd)), cells(filled<u32>(of, 8, 0)) {}

  void link_to_one() {
    runtime.submit(add, cells, 1U, 1U);
    runtime.submit(add, cells, 0U, 1U, link).wait();
  }
  void come_after_one() { runtime.submit(add, cells, 0U, 1U, after(runtime.submit(add, cells, 1U, 1U))).wait(); }
  void be_a_gang() {
    const auto meet = runtime.define<Add>("meet", R"(
      DWELL_OPERATOR(meet)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
        const dwell::Gang gang = g.gang();
        gang.sync();
        if (gang.rank() == 0 && g.rank() == 0) cells[at] += value;
      })");
    runtime.submit(meet, cells, 0U, 1U, gang(std::min(runtime.info().workers, 2U))).wait();
  }
  void be_a_graph() {
    Graph graph("one");
    graph.add(add, cells, 0U, 1U);
    runtime.launch(runtime.instantiate(graph)).wait();
  }
  void cancel_one() {
    const auto hold = runtime.define<Hold>("hold", kHold);
    const Buffer<u32> ran = filled<u32>(runtime, 1, 0);
    // Retries, because the device handles a cancel only while the blocking task runs; a task that ends early may be faster.
    u32 tries = 1;
    for (; tries <= 1000; ++tries) {
      Latch latch(runtime);
      const Ticket held = runtime.submit(hold, latch.words(), groups(runtime.info().workers));
      latch.await();
      const Ticket waits = runtime.submit(add, ran, 0U, 1U);
      EXPECT_TRUE(runtime.cancel(waits)) << "while a task keeps all workers";
      latch.release();
      held.wait();
      if (waits.status() == status::cancelled) break;
    }
    EXPECT_EQ(read(ran)[0], tries - 1) << "the last one was cancelled";
    runtime.submit(add, cells, 0U, 1U).wait();
  }
  void be_timed() {
    runtime.set_metrics(Metering::times);
    runtime.submit(add, cells, 0U, 1U).wait();
    runtime.set_metrics(Metering::counts);
  }
  void be_made_by_another() {
    const auto spawn_add = runtime.define<Add>("spawn_add", R"(
      DWELL_USES(add, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
      DWELL_OPERATOR(spawn_add)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
        g.spawn(uses::add, cells, at, value);
      })");
    runtime.submit(spawn_add, cells, 0U, 1U).wait();
  }

  Runtime& runtime;
  Operator<Add> add;
  Buffer<u32> cells;
};

TEST_P(PartsTest, FirstUsesUnderLoadLoseNoTask) {
  for (const auto& [what, use] : std::initializer_list<std::pair<const char*, void (FirstUses::*)()>>{
           {"a link", &FirstUses::link_to_one},
           {"after", &FirstUses::come_after_one},
           {"a gang", &FirstUses::be_a_gang},
           {"a graph", &FirstUses::be_a_graph},
           {"times", &FirstUses::be_timed},
           {"a task that an operator has made", &FirstUses::be_made_by_another}}) {
    SCOPED_TRACE(what);
    Runtime runtime(fixed(Parts::used));
    FirstUses first(runtime);
    std::atomic<bool> over{false};
    std::atomic<u32> sent{0};
    std::jthread others([&] {
      while (!over) {
        runtime.submit(first.add, first.cells, 2U, 1U);
        ++sent;
      }
    });
    EXPECT_TRUE(eventually([&] { return sent > 5000; }));
    (first.*use)();
    const u32 then = sent;
    EXPECT_TRUE(eventually([&] { return sent > then + 5000; }));
    over = true;
    others.join();
    runtime.wait_all();
    const std::vector<u32> cells = read(first.cells);
    EXPECT_EQ(cells[0], 1U);
    EXPECT_EQ(cells[2], sent);
  }
}

TEST_P(PartsTest, OnlyTheFirstUseMakesAnImage) {
  for (const Parts parts : {Parts::used, Parts::all}) {
    SCOPED_TRACE(parts == Parts::all ? "all" : "used");
    Runtime runtime(fixed(parts));
    FirstUses first(runtime);
    runtime.submit(first.add, first.cells, 0U, 1U, groups(2)).wait();
    std::uint64_t before = images(runtime);
    first.link_to_one();
    EXPECT_EQ(images(runtime), before + (on_cpu() || parts == Parts::all ? 0 : 1));
    before = images(runtime);
    first.come_after_one();
    first.be_a_graph();
    first.be_timed();
    EXPECT_EQ(images(runtime), before);
    first.be_a_gang();
    EXPECT_EQ(images(runtime), before + 1) << "with its operator";
    EXPECT_EQ(read(first.cells)[0], 7U) << "the first task had two groups";
  }
}

TEST_P(PartsTest, NamedPartsAreLoadedFromTheStart) {
  Runtime runtime(fixed({Part::links, Part::graphs}));
  FirstUses first(runtime);
  std::uint64_t before = images(runtime);
  first.link_to_one();
  first.come_after_one();
  first.be_a_graph();
  EXPECT_EQ(images(runtime), before);
  first.be_timed();
  EXPECT_EQ(images(runtime), before + (on_cpu() ? 0 : 1)) << "with all parts";
  before = images(runtime);
  first.be_made_by_another();
  first.link_to_one();
  EXPECT_EQ(images(runtime), before + 1) << "with its operator";
  EXPECT_EQ(read(first.cells)[0], 6U);
}

// A task to be cancelled usually waits for busy workers, which would delay the loading of an image.
TEST_P(PartsTest, AFirstCancelWaitsForNoTask) {
  Runtime runtime(fixed(Parts::used));
  FirstUses first(runtime);
  first.cancel_one();
  EXPECT_EQ(read(first.cells), (std::vector<u32>{1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_P(PartsTest, DefinitionsAndFirstUsesDoNotWaitForALongLease) {
  Options given = fixed(Parts::used);
  given.lease = given.idle = 1h;
  Runtime runtime(given);
  FirstUses first(runtime);
  runtime.submit(first.add, first.cells, 0U, 1U).wait();
  runtime.submit(runtime.define<void()>("nothing", kNothing)).wait();
  first.link_to_one();
  first.be_a_graph();
  EXPECT_EQ(read(first.cells)[0], 3U);
}

}  // namespace
}  // namespace dwell::test
