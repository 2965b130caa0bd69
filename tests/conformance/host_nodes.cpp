// Host nodes of task graphs: order and visibility, failures, bodies, changes of leases and images, and close.
#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

class HostNodeTest : public GraphSuite {
 protected:
  Options rolling() const {
    Options options = this->options();
    options.lease = on_cpu() ? 2ms : 500us;
    return options;
  }
  std::string mark_with(u32 value) const {
    return "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u32> cells) {\n"
           "  if (g.rank() == 0) cells[0] += " +
           std::to_string(value) + ";\n}\n";
  }
};

TEST_P(HostNodeTest, CallbackIsOrderedWithItsNeighbours) {
  open();
  auto host = runtime->allocate<u32>(2, Memory::host);
  auto device = filled<u32>(*runtime, 2, 0);
  std::vector<u32> seen;
  Graph graph;
  const Node first = graph.add("first", add, host, 0U, 5U);
  const Node second = graph.add("second", add, device, 0U, 7U);
  Node between = graph.add_host("between", [&] {
    seen.push_back(host.host()[0]);
    seen.push_back(read(device)[0]);
    host.host()[1] = host.host()[0] * 10;
    device.write(std::vector<u32>{100}, 1);
  });
  between.after(first, second);
  const Node third = graph.add("third", add, host, 1U, 1U).after(between);
  graph.add("fourth", add, device, 1U, 1U).after(third);
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 round = 1; round <= 50; ++round) {
    runtime->launch(exec).wait();
    ASSERT_THAT(seen, testing::ElementsAre(5 * round, 7 * round));
    ASSERT_EQ(host.host()[1], 50 * round + 1);
    ASSERT_EQ(read(device)[1], 101U);
    seen.clear();
  }
}

TEST_P(HostNodeTest, HostNodesMayBeFirstLastOrAll) {
  open();
  std::string order;
  Graph graph;
  Node last = graph.add_host("a", [&] { order += 'a'; });
  for (const char c : {'b', 'c'}) last = graph.add_host(std::string(1, c), [&order, c] { order += c; }).after(last);
  const GraphExec exec = runtime->instantiate(graph);
  for (int i = 0; i < 100; ++i) runtime->launch(exec);
  runtime->wait_all();
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "abc";
  EXPECT_EQ(order, expected);
}

TEST_P(HostNodeTest, CallbacksRunOnOneThreadOfTheRuntime) {
  open();
  std::vector<std::thread::id> threads;
  Graph graph;
  for (int i = 0; i < 20; ++i) graph.add_host("node", [&] { threads.push_back(std::this_thread::get_id()); });
  runtime->launch(runtime->instantiate(graph)).wait();
  ASSERT_EQ(threads.size(), 20U);
  EXPECT_NE(threads[0], std::this_thread::get_id());
  EXPECT_THAT(threads, testing::Each(threads[0]));
}

TEST_P(HostNodeTest, AThousandReadyAtOnce) {
  open();
  constexpr u32 kCount = 1000;
  auto cells = filled<u32>(*runtime, kCount, 0);
  std::vector<u32> calls(kCount, 0);
  Graph graph;
  const Node first = graph.add(nothing);
  Node last = graph.add(nothing);
  for (u32 i = 0; i < kCount; ++i) {
    const Node called = graph.add_host("called", [&calls, i] { ++calls[i]; }).after(first);
    last.after(graph.add(add, cells, i, 1U).after(called));
  }
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 round = 1; round <= 5; ++round) {
    runtime->launch(exec).wait();
    ASSERT_THAT(calls, testing::Each(round));
    ASSERT_THAT(read(cells), testing::Each(round));
  }
}

TEST_P(HostNodeTest, AChainOfAThousand) {
  open();
  auto cells = filled<u32>(*runtime, 1, 0);
  std::vector<u32> order;
  Graph graph;
  Node last;
  for (u32 i = 0; i < 1000; ++i) {
    Node node = graph.add_host("called", [&order, i] { order.push_back(i); });
    if (i != 0) node.after(last);
    last = graph.add(append, cells, i).after(node);
  }
  runtime->launch(runtime->instantiate(graph)).wait();
  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(read(cells)[0], appended(1000));
}

TEST_P(HostNodeTest, SubGraphsAndBodiesRunThemOnceEachTime) {
  open();
  auto state = runtime->allocate<u32>(2, Memory::host);
  u32 rounds = 0;
  u32 inner = 0;
  Graph once;
  once.add_host("inner", [&] { ++inner; });
  Graph body;
  const Node added = body.add("added", add, state, 1U, 1U);
  body.add_host("round",
                [&] {
                  ++rounds;
                  EXPECT_EQ(state.host()[1], rounds);
                  --state.host()[0];
                })
      .after(added);
  Graph graph;
  const SubGraph loop = graph.add_while("loop", state.slice(0, 1), body);
  graph.add("one", once).after(graph.add("other", once).after(loop));
  const GraphExec exec = runtime->instantiate(graph);
  state.host()[0] = 200;
  state.host()[1] = 0;
  runtime->launch(exec).wait();
  EXPECT_EQ(rounds, 200U);
  EXPECT_EQ(inner, 2U);
  runtime->launch(exec).wait();
  EXPECT_EQ(rounds, 200U);
  EXPECT_EQ(inner, 4U);
}

TEST_P(HostNodeTest, ExceptionOfACallbackFailsItsNode) {
  open();
  auto cells = filled<u32>(*runtime, 3, 0);
  int throws = 1;
  bool behind = false;
  Graph graph;
  const Node before = graph.add(add, cells, 0U, 1U);
  const Node bad = graph
                       .add_host("bad",
                                 [&] {
                                   if (throws == 1) throw std::runtime_error("the disk is full");
                                   if (throws == 2) throw 17;
                                 })
                       .after(before);
  const Node cancelled = graph.add("cancelled", add, cells, 1U, 1U).after(bad);
  graph.add_host("behind", [&] { behind = true; }).after(cancelled);
  graph.add("apart", add, cells, 2U, 1U).after(before);
  const GraphExec exec = runtime->instantiate(graph);
  const Ticket failed = runtime->launch(exec);
  const Ticket linked = runtime->submit(add, cells, 0U, 100U, link);
  expect_error(errc::task_failed, AllOf(HasSubstr("node 'bad' (callback)"), HasSubstr("the disk is full")), [&] { failed.wait(); });
  EXPECT_EQ(failed.status(), status::threw);
  expect_error(errc::cancelled, HasSubstr("its callback threw"), [&] { linked.wait(); });
  EXPECT_FALSE(behind);
  EXPECT_THAT(read(cells), testing::ElementsAre(1U, 0U, 1U));
  throws = 2;
  expect_error(errc::task_failed, HasSubstr("node 'bad' (callback) failed: its callback threw"), [&] { runtime->launch(exec).wait(); });
  throws = 0;
  runtime->launch(exec).wait();
  EXPECT_TRUE(behind);
  expect_error(errc::task_failed, HasSubstr("the disk is full"), [&] { failed.wait(); });
}

TEST_P(HostNodeTest, ErrorOfTheLaunchHasTheException) {
  open();
  struct Own {
    int value;
  };
  int value = 17;
  Graph graph;
  graph.add_host("bad", [&] { throw Own{value}; });
  const GraphExec exec = runtime->instantiate(graph);
  // The value of the exception behind the error that `call` throws.
  const auto thrown_by = [](auto&& call) -> std::optional<int> {
    try {
      call();
    } catch (const Error& error) {
      if (error.cause() == nullptr) return std::nullopt;
      try {
        std::rethrow_exception(error.cause());
      } catch (const Own& own) {
        return own.value;
      }
    }
    return std::nullopt;
  };
  const Ticket first = runtime->launch(exec);
  EXPECT_EQ(thrown_by([&] { first.wait(); }), 17);
  value = 18;
  const Ticket second = runtime->launch(exec);
  EXPECT_EQ(thrown_by([&] { second.wait(); }), 18);
  EXPECT_EQ(thrown_by([&] { first.wait(); }), 17) << "each launch has its own";
  runtime->close();
  EXPECT_EQ(thrown_by([&] { second.wait(); }), 18);
}

TEST_P(HostNodeTest, CancelledCallbackIsNotCalled) {
  open();
  int calls = 0;
  Graph graph;
  const Node bad = graph.add("bad", fail, 3);
  graph.add_host("behind", [&] { ++calls; }).after(bad);
  const GraphExec exec = runtime->instantiate(graph);
  for (int i = 0; i < 3; ++i) expect_error(errc::task_failed, HasSubstr("node 'bad'"), [&] { runtime->launch(exec).wait(); });
  EXPECT_EQ(calls, 0);
}

TEST_P(HostNodeTest, LaunchesOfSeveralExecs) {
  open();
  constexpr u32 kExecs = 8;
  constexpr u32 kLaunches = 50;
  auto cells = filled<u32>(*runtime, kExecs, 0);
  std::vector<u32> calls(kExecs, 0);
  std::vector<GraphExec> execs;
  for (u32 i = 0; i < kExecs; ++i) {
    Graph graph;
    const Node first = graph.add(add, cells, i, 1U);
    const Node called = graph.add_host("called", [&calls, i] { ++calls[i]; }).after(first);
    graph.add(add, cells, i, 1U).after(called);
    execs.push_back(runtime->instantiate(graph));
  }
  for (u32 i = 0; i < kLaunches; ++i)
    for (const GraphExec& exec : execs) runtime->launch(exec);
  runtime->wait_all();
  EXPECT_THAT(calls, testing::Each(kLaunches));
  EXPECT_THAT(read(cells), testing::Each(2 * kLaunches));
}

TEST_P(HostNodeTest, ACallbackMaySubmitAndWait) {
  open();
  auto cells = filled<u32>(*runtime, 2, 0);
  Graph inner;
  u32 nested = 0;
  inner.add_host("nested", [&] {
    runtime->submit(add, cells, 1U, 1U).wait();
    ++nested;
  });
  const GraphExec inner_exec = runtime->instantiate(inner);
  u32 seen = 0;
  Graph graph;
  graph.add_host("outer", [&] {
    for (int i = 0; i < 500; ++i) runtime->submit(add, cells, 0U, 1U);
    runtime->launch(inner_exec).wait();  // its callback runs on another thread
    cells.read({&seen, 1}, 1);           // only this cell: tasks that add to the other one may still run
  });
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 1; i <= 10; ++i) {
    runtime->launch(exec).wait();
    ASSERT_EQ(nested, i);
    ASSERT_EQ(seen, i);
  }
  runtime->wait_all();
  EXPECT_EQ(read(cells)[0], 5000U);
}

TEST_P(HostNodeTest, CallbackThatFillsTheRingBehindItsLaunchFails) {
  open();
  u32 count = 0;
  Graph graph;
  graph.add_host("fills", [&] {
    for (;; ++count) runtime->submit(nothing);
  });
  const GraphExec exec = runtime->instantiate(graph);
  for (int i = 0; i < 2; ++i) {
    expect_error(errc::task_failed, AllOf(HasSubstr("node 'fills'"), HasSubstr("1024 places")), [&] { runtime->launch(exec).wait(); });
    EXPECT_THAT(count, AllOf(testing::Ge(900U), testing::Le(1024U)));
    count = 0;
  }
  runtime->wait_all();
}

TEST_P(HostNodeTest, CallbackThatWouldWaitForItselfFails) {
  open();
  Ticket own;
  std::promise<void> launched;
  std::shared_future<void> placed = launched.get_future().share();
  int what = 0;
  Graph graph;
  graph.add_host("waits", [&] {
    placed.wait();
    if (what == 0) own.wait();
    if (what == 1) runtime->wait_all();
    if (what == 2) runtime->close();
  });
  const GraphExec exec = runtime->instantiate(graph);
  own = runtime->launch(exec);
  launched.set_value();
  expect_error(errc::task_failed, AllOf(HasSubstr("node 'waits'"), HasSubstr("waits for its own launch")), [&] { own.wait(); });
  what = 1;
  expect_error(errc::task_failed, HasSubstr("waits for its own launch"), [&] { runtime->launch(exec).wait(); });
  what = 2;
  expect_error(errc::task_failed, HasSubstr("call it outside"), [&] { runtime->launch(exec).wait(); });
}

TEST_P(HostNodeTest, LongCallbackDoesNotBlockOthers) {
  open(rolling());
  auto cells = filled<u32>(*runtime, 1, 0);
  std::promise<void> go;
  Graph graph;
  graph.add_host("long", [&] { go.get_future().wait(); });
  const Ticket ticket = runtime->launch(runtime->instantiate(graph));  // the exec is dropped while its callback runs
  // Spans several leases; fewer tasks than the ring holds behind the launch.
  for (u32 i = 1; i <= 300; ++i) {
    runtime->submit(add, cells, 0U, 1U).wait();
    if (i % 10 == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_FALSE(ticket.done());
  EXPECT_EQ(read(cells)[0], 300U);
  go.set_value();
  ticket.wait();
}

TEST_P(HostNodeTest, WorkBesideRollsParksAndRedefines) {
  open(rolling());
  auto cells = filled<u32>(*runtime, 1, 0);
  auto mark = runtime->define<void(Span<u32>)>("mark", mark_with(1));
  u32 calls = 0;
  Graph graph;
  Node last = graph.add(mark, cells);
  for (int i = 0; i < 20; ++i) {
    const Node called = graph.add_host("called", [&] { ++calls; }).after(last);
    last = graph.add(mark, cells).after(called);
  }
  const GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  u32 launches = 0;
  for (u32 version = 1; version <= 6; ++version) {
    for (int i = 0; i < 5; ++i, ++launches) runtime->launch(exec);
    expected += 5 * 21 * version;
    if (version % 2 == 0) {
      runtime->park();
      std::this_thread::sleep_for(2ms);
      runtime->resume();
    }
    mark.redefine(mark_with(version + 1));
  }
  runtime->wait_all();
  EXPECT_EQ(calls, 20 * launches);
  EXPECT_EQ(read(cells)[0], expected);
}

TEST_P(HostNodeTest, AnswerToAParkedLoopIsSeenAfterTheResume) {
  open();
  std::promise<void> begun;
  std::promise<void> go;
  Graph graph;
  auto cells = filled<u32>(*runtime, 1, 0);
  const Node called = graph.add_host("called", [&] {
    begun.set_value();
    go.get_future().wait();
  });
  graph.add(add, cells, 0U, 1U).after(called);
  const Ticket ticket = runtime->launch(runtime->instantiate(graph));
  begun.get_future().wait();
  runtime->park();
  go.set_value();
  EXPECT_FALSE(ticket.wait_for(5ms));
  runtime->resume();
  ticket.wait();
  EXPECT_EQ(read(cells)[0], 1U);
}

TEST_P(HostNodeTest, CloseRunsThemOrCancelsThem) {
  for (const Close how : {Close::when_done, Close::now}) {
    open();
    std::promise<void> begun;
    std::atomic<bool> returned{false};
    std::atomic<int> later{0};
    Graph graph;
    const Node first = graph.add_host("first", [&] {
      begun.set_value();
      std::this_thread::sleep_for(20ms);
      returned = true;
    });
    graph.add_host("second", [&] { ++later; }).after(graph.add(nothing).after(first));
    const GraphExec exec = runtime->instantiate(graph);
    const Ticket ticket = runtime->launch(exec);
    begun.get_future().wait();
    runtime->close(how);
    EXPECT_TRUE(returned) << "close returns when callbacks have returned";
    EXPECT_EQ(later, how == Close::now ? 0 : 1);
    if (how == Close::now)
      expect_error(errc::interrupted, HasSubstr("at most 3 of its 3 nodes were not complete"), [&] { ticket.wait(); });
    else
      ticket.wait();
  }
}

TEST_P(HostNodeTest, CloseNowFreesACallbackThatWaits) {
  open();
  std::promise<void> begun;
  std::atomic<int> status{0};
  Graph never;
  std::promise<void> end;
  never.add_host("never", [&] { end.get_future().wait(); });
  Graph graph;
  graph.add_host("waits", [&] {
    const Ticket other = runtime->launch(runtime->instantiate(never));
    begun.set_value();
    status = other.status();
    end.set_value();
  });
  const Ticket ticket = runtime->launch(runtime->instantiate(graph));
  begun.get_future().wait();
  std::this_thread::sleep_for(5ms);
  runtime->close(Close::now);
  EXPECT_THAT(status.load(), testing::AnyOf(status::cancelled, status::interrupted)) << "its callback may run";
  expect_error(errc::interrupted, HasSubstr("closed"), [&] { ticket.wait(); });
}

TEST_P(HostNodeTest, TimeoutsDoNotCountACallback) {
  Options options = this->options();
  options.task_timeout = kSanitized ? 500ms : 50ms;
  open(options);
  Graph graph;
  graph.add_host("long", [&] { std::this_thread::sleep_for(4 * options.task_timeout); });
  ASSERT_NO_THROW(runtime->launch(runtime->instantiate(graph)).wait());
}

TEST_P(HostNodeTest, InvalidNodesAreRefused) {
  open();
  Graph graph;
  expect_error(errc::invalid_argument, HasSubstr("the callback of node 'empty' is empty"), [&] { graph.add_host("empty", {}); });
  EXPECT_EQ(graph.size(), 0U);
  Node first = graph.add_host("first", [] {});
  const Node second = graph.add_host("second", [] {}).after(first);
  GraphExec exec = runtime->instantiate(graph);
  expect_error(errc::invalid_argument, AllOf(HasSubstr("'first' (callback)"), HasSubstr("has no arguments")),
               [&] { exec.set(first, 0, 1U); });
  EXPECT_THAT(exec.dot(), HasSubstr("[shape=box, label=\"first\\ncallback\"]"));
  exec.update(graph);
  Graph other;
  const Node control = other.add("first", Graph());
  other.add_host("second", [] {}).after(control);
  expect_error(errc::invalid_argument, HasSubstr("'first' (callback) is a host node in one of them only"), [&] { exec.update(other); });
  first.after(second);
  expect_error(errc::invalid_argument, HasSubstr("cycle: 'first' (callback) -> 'second' (callback) -> "),
               [&] { runtime->instantiate(graph); });
}

DWELL_ON_EVERY_DEVICE(HostNodeTest);

}  // namespace
}  // namespace dwell::test
