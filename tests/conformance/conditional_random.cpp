// Random graphs of conditional nodes, compared with a simulation on the host.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tests/conformance/conditional_suite.hpp"

namespace dwell::test {
namespace {

class ConditionalRandomTest : public ConditionalSuite {};

// Records its begin and end in `log`, whose first word is a counter, and changes a variable in between: adds `add` modulo `modulus`, or
// sets it to `add` if `modulus` is 0.
constexpr const char* kActSource = R"(
DWELL_OPERATOR(act)(dwell::Group g, dwell::Span<dwell::u32> log, dwell::u32 id, dwell::Span<dwell::u32> variables, dwell::u32 at,
                    dwell::u32 add, dwell::u32 modulus) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    log[1 + fetch_add<Order::acq_rel>(&log[0], 1u)] = 2 * id;
    variables[at] = modulus == 0 ? add : (variables[at] + add) % modulus;
    log[1 + fetch_add<Order::acq_rel>(&log[0], 1u)] = 2 * id + 1;
  }
  g.sync();
})";
using Act = void(Span<u32>, u32, Span<u32>, u32, u32, u32);

// A random graph of tasks, sub-graphs and conditional nodes, and a simulation of it on the host. Each conditional node has its own
// variable, which tasks before it change.
class Program {
 public:
  Program(Runtime& runtime, const Operator<Act>& act, u32 seed) : act_(act), random_(seed) {
    log_ = filled<u32>(runtime, kLog, 0);
    variables_ = filled<u32>(runtime, kVariables, 0);
    root_ = make(4, graph);
    values_.assign(kVariables, 0);
  }

  // Simulates a complete launch, and compares it with the log.
  void check() {
    const auto log = read(log_);
    const std::vector<u32> events(log.begin() + 1, log.begin() + 1 + std::min<u32>(log[0], kLog - 1));
    std::size_t at = 0;
    run(root_, events, at);
    EXPECT_EQ(at, events.size()) << "more tasks have run than should";
    EXPECT_EQ(read(variables_), values_);
    log_.write(std::vector<u32>{0});
  }

  Graph graph;

 private:
  static constexpr u32 kLog = 1U << 16U, kVariables = 1024;
  enum class Kind { task, sub, run_if, loop, choose };
  struct Block;
  struct Item {
    Kind kind = Kind::task;
    u32 id = 0;                // of a task
    u32 at = 0;                // variable
    u32 add = 0, modulus = 0;  // of a task
    std::vector<Block> bodies;
    std::vector<u32> before;  // indices of items
  };
  struct Block {
    std::vector<Item> items;
  };

  Item task(u32 at, u32 add, u32 modulus) {
    Item item;
    item.id = tasks_++;
    item.at = at;
    item.add = add;
    item.modulus = modulus;
    return item;
  }
  Node node_of(const Item& item, Graph& to) { return to.add(act_, log_, item.id, variables_, item.at, item.add, item.modulus); }

  // Adds items to `to`. The last one changes `counter` if given: a loop's variable.
  Block make(u32 depth, Graph& to, u32 counter = ~0U) {
    Block block;
    std::vector<Node> nodes;
    const u32 count = random_() % 5 + (random_() % 8 == 0 ? 40 : 0);
    const auto add = [&](Item item, Node node) {
      const auto me = static_cast<u32>(nodes.size());
      for (u32 j = 0; j < me; ++j)
        if (random_() % 3 == 0) item.before.push_back(j);
      if (item.kind > Kind::sub && !nodes.empty()) item.before.push_back(me - 1);  // the task that sets its variable
      std::set<u32> once(item.before.begin(), item.before.end());
      for (const u32 j : once) node.after(nodes[j]);
      nodes.push_back(node);
      block.items.push_back(std::move(item));
    };
    for (u32 i = 0; i < count && tasks_ < 300; ++i) {
      if (depth == 0 || random_() % 3 == 0 || variables_used_ + 1 >= kVariables) {
        Item item = task(++variables_used_, 0, 1);
        const Node node = node_of(item, to);
        add(std::move(item), node);
        continue;
      }
      Item item;
      item.kind = static_cast<Kind>(1 + random_() % 4);
      item.at = ++variables_used_;
      const DeviceValue value = variables_.slice(item.at, 1);
      if (item.kind != Kind::sub) {
        // Sets the variable to the number of rounds for a loop, else to the next of a few values.
        const u32 modulus = 1 + random_() % 4;
        Item setter = item.kind == Kind::loop ? task(item.at, random_() % 4, 0) : task(item.at, 1, modulus);
        const Node node = node_of(setter, to);
        add(std::move(setter), node);
      }
      std::vector<Graph> graphs(item.kind == Kind::choose ? random_() % 4 : item.kind == Kind::run_if ? 1 + random_() % 2 : 1);
      for (Graph& body : graphs) item.bodies.push_back(make(depth - 1, body, item.kind == Kind::loop ? item.at : ~0U));
      std::vector<const Graph*> bodies;
      for (const Graph& body : graphs) bodies.push_back(&body);
      Node node;
      switch (item.kind) {
        case Kind::sub: node = to.add(graphs[0]); break;
        case Kind::run_if:
          node = graphs.size() == 1 ? to.add_if("if", value, graphs[0]) : to.add_if("if", value, graphs[0], graphs[1]);
          break;
        case Kind::loop: node = to.add_while("while", value, graphs[0]); break;
        default: node = to.add_switch("switch", value, bodies); break;
      }
      add(std::move(item), node);
    }
    if (counter != ~0U) {
      Item item = task(counter, 3, 4);  // decrements modulo 4
      const Node node = node_of(item, to);
      add(std::move(item), node);
    }
    return block;
  }

  // The ids of all tasks in a block.
  static void collect(const Block& block, std::set<u32>& ids) {
    for (const Item& item : block.items) {
      if (item.kind == Kind::task) ids.insert(item.id);
      for (const Block& body : item.bodies) collect(body, ids);
    }
  }

  // Simulates a block whose events begin at `at`; events of its items may interleave.
  void run(const Block& block, const std::vector<u32>& events, std::size_t& at) {
    const std::size_t begin = at;
    std::vector<std::pair<std::size_t, std::size_t>> range;  // by item: the index of its first event, and one past its last
    for (const Item& item : block.items) {
      std::set<u32> ids;
      if (item.kind == Kind::task) ids.insert(item.id);
      for (const Block& body : item.bodies) collect(body, ids);
      std::vector<u32> mine;
      std::vector<std::size_t> places;
      for (std::size_t i = begin; i < events.size(); ++i) {
        if (ids.count(events[i] / 2) == 0) continue;
        mine.push_back(events[i]);
        places.push_back(i);
      }
      std::size_t used = 0;
      run(item, mine, used);
      if (testing::Test::HasFailure()) return;
      range.emplace_back(used == 0 ? ~std::size_t{0} : places[0], used == 0 ? 0 : places[used - 1] + 1);
      for (const u32 before : item.before)
        ASSERT_LE(range[before].second, range.back().first) << "an item does not wait for what it should";
      at += used;
    }
    // All events of a round precede those of the next one, without gaps.
    for (const auto& [first, behind] : range) ASSERT_LE(behind, at == begin ? behind : at) << "rounds overlap";
  }
  void run(const Item& item, const std::vector<u32>& events, std::size_t& at) {
    const auto body = [&](std::size_t i) {
      if (i < item.bodies.size()) run(item.bodies[i], events, at);
    };
    switch (item.kind) {
      case Kind::task:
        ASSERT_LE(at + 2, events.size()) << "task " << item.id << " has not run";
        ASSERT_EQ(events[at], 2 * item.id);
        ASSERT_EQ(events[at + 1], 2 * item.id + 1);
        at += 2;
        values_[item.at] = item.modulus == 0 ? item.add : (values_[item.at] + item.add) % item.modulus;
        break;
      case Kind::sub: body(0); break;
      case Kind::run_if: body(values_[item.at] != 0 ? 0 : 1); break;
      case Kind::loop:
        while (values_[item.at] != 0 && !testing::Test::HasFailure()) body(0);
        break;
      case Kind::choose: body(values_[item.at]); break;
    }
  }

  Operator<Act> act_;
  Random random_;
  Buffer<u32> log_, variables_;
  Block root_;
  std::vector<u32> values_;
  u32 tasks_ = 0;
  u32 variables_used_ = 0;
};

TEST_P(ConditionalRandomTest, RandomGraphsMatchTheSimulation) {
  open();
  const auto act = runtime->define<Act>("act", kActSource);
  for (u32 seed = 0; seed < 60; ++seed) {
    Program program(*runtime, act, seed);
    const GraphExec exec = runtime->instantiate(program.graph);
    for (u32 i = 0; i < 4; ++i) {
      runtime->launch(exec).wait();
      program.check();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", launch " << i << "\n" << program.graph.dot();
    }
  }
}

TEST_P(ConditionalRandomTest, RandomGraphsAcrossLeasesAndParks) {
  open(rolling());
  const auto act = runtime->define<Act>("act", kActSource);
  for (u32 seed = 100; seed < 115; ++seed) {
    Program program(*runtime, act, seed);
    const GraphExec exec = runtime->instantiate(program.graph);
    for (u32 i = 0; i < 3; ++i) {
      const Ticket ticket = runtime->launch(exec);
      runtime->park();
      runtime->resume();
      ticket.wait();
      program.check();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", launch " << i;
    }
  }
}

DWELL_ON_EVERY_DEVICE(ConditionalRandomTest);

}  // namespace
}  // namespace dwell::test
