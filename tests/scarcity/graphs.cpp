// Graphs of all kinds of nodes without memory: a launch with a ticket does all its work, once.
#include <atomic>
#include <string>
#include <vector>

#include "tests/scarcity/harness.hpp"

namespace dwell::test {
namespace {

class ScarceGraphsTest : public ScarceMemoryTest {};

TEST_F(ScarceGraphsTest, Conditions) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          const u32 before = world.runs();
          Buffer<u32> values = world.runtime->allocate<u32>(4);
          const std::vector<u32> set{1, 0, 0U - 4, 1};
          values.write(set);
          Graph one("one");
          one.add("add", world.op, world.cells, 0U);
          Graph two("two");
          two.add("add", world.op, world.cells, 0U).after(two.add("first", world.op, world.cells, 0U));
          Graph graph("all");
          SubGraph taken = graph.add_if("taken", values.slice(0, 1), one, two);
          SubGraph passed = graph.add_if("passed", values.slice(1, 1), one, two);
          passed.after(taken);
          SubGraph chosen = graph.add_switch("chosen", values.slice(3, 1), {&one, &two});
          chosen.after(passed);
          Graph round("round");
          round.add("add", world.op, world.cells, 0U);
          round.add("up", world.op, values.slice(2, 1), 0U);  // adds 2: two rounds in the first launch
          SubGraph repeated = graph.add_while("repeated", values.slice(2, 1), round);
          repeated.after(chosen);
          graph.add("last", world.op, world.cells, 0U).after(repeated);
          u32 launched = 0;
          static_cast<void>(throws([&] {
            GraphExec exec = world.runtime->instantiate(graph);
            for (; launched < 3; ++launched) static_cast<void>(world.runtime->launch(exec));
            static_cast<void>(graph.dot());
            exec.update(graph);
            static_cast<void>(world.runtime->launch(exec));
            ++launched;
          }));
          ScarceMemory::relent();
          world.runtime->wait_all();
          EXPECT_EQ(world.runs() - before, launched * 6 + (launched == 0 ? 0 : 2));
        },
        many);
  }
}

// A call that throws has changed nothing and may be repeated.
TEST_F(ScarceGraphsTest, Building) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          const u32 before = world.runs();
          Graph inner;
          Graph graph;
          u32 called = 0;
          const auto attempt = [&](Graph& to, std::size_t nodes, const std::function<void()>& add) {
            const std::size_t size = to.size();
            if (throws(add)) {
              EXPECT_EQ(to.size(), size) << "a node is there of which nobody knows";
              ScarceMemory::relent();
              add();
            }
            EXPECT_EQ(to.size(), size + nodes);
          };
          std::vector<Node> nodes;
          nodes.reserve(16);
          const Arguments arguments = [&] {
            Arguments made;
            made.add(world.cells).add(0U);
            return made;
          }();
          // In order, because they count in the same cells.
          const auto follow = [&] { insist([&] { nodes.back().after(nodes[nodes.size() - 2]); }); };
          for (int i = 0; i < 3; ++i) {
            attempt(inner, 1,
                    [&] { nodes.push_back(inner.add("a name that does not fit into a string itself", world.op, world.cells, 0U)); });
            if (i != 0) follow();
            attempt(inner, 1, [&] { nodes.push_back(inner.add(world.op, arguments)); });
            follow();
          }
          attempt(graph, 6, [&] { nodes.push_back(graph.add("a graph within a graph, with a long name", inner)); });
          attempt(graph, 1,
                  [&] { nodes.push_back(graph.add_host("a host node with a long name, and a callback", [&called] { ++called; })); });
          follow();
          const std::size_t size = graph.size();
          const auto add_condition = [&] { nodes.push_back(graph.add_if("a condition with a long name of its own", world.cells, inner)); };
          if (throws(add_condition)) {
            EXPECT_EQ(graph.size(), size);
            ScarceMemory::relent();
            add_condition();
          }
          follow();
          ScarceMemory::relent();
          GraphExec exec = world.runtime->instantiate(graph);
          world.runtime->launch(exec).wait();
          EXPECT_EQ(called, 1U);
          EXPECT_EQ(world.runs() - before, 12U);
        },
        many);
  }
}

TEST_F(ScarceGraphsTest, CapturesOfAllKinds) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          const u32 before = world.runs();
          const Graph graph = world.runtime->capture([&] {
            const Ticket first = world.runtime->submit(world.op, world.cells, 0U);
            const Ticket second = world.runtime->submit(world.op, world.cells, 0U, link);
            Arguments arguments;
            arguments.add(world.cells).add(0U);
            world.runtime->submit(world.op, arguments);
            world.runtime->submit(world.op, world.cells, 0U, after(first, second));
          });
          GraphExec exec = world.runtime->instantiate(graph);
          u32 launched = 0;
          static_cast<void>(throws([&] {
            for (int i = 0; i < 3; ++i) {
              const Ticket ticket = world.runtime->launch(exec);
              ++launched;
              ticket.wait();
            }
          }));
          ScarceMemory::relent();
          world.runtime->wait_all();
          EXPECT_EQ(world.runs() - before, launched * 4);
        },
        many);
  }
}

// Each launch calls its callbacks once, whatever they throw.
TEST_F(ScarceGraphsTest, HostNodesThatThrow) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          std::atomic<u32> calls{0};
          Graph graph("with callbacks");
          const Node first = graph.add_host("first", [&] { ++calls; });
          Node second = graph.add_host("second", [&] {
            ++calls;
            throw std::runtime_error("a text that does not fit into the exception itself: it is told with the failure");
          });
          second.after(first);
          graph.add(world.op, world.cells, 0U).after(second);
          GraphExec exec = world.runtime->instantiate(graph);
          u32 launched = 0;
          std::vector<Ticket> tickets;
          tickets.reserve(3);
          static_cast<void>(throws([&] {
            for (; launched < 3; ++launched) tickets.push_back(world.runtime->launch(exec));
            for (const Ticket& ticket : tickets) ticket.wait();
          }));
          ScarceMemory::relent();
          for (const Ticket& ticket : tickets) EXPECT_NE(ticket.status(), status::ok);
          EXPECT_EQ(calls, 2 * launched);
        },
        many);
  }
}

}  // namespace
}  // namespace dwell::test
