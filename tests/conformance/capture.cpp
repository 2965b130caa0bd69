// Runtime::capture: the order of captured tasks, and what is refused.
#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

class CaptureTest : public GraphSuite {};

TEST_P(CaptureTest, TasksAreOrderedByTheMemoryThatTheyName) {
  open();
  const auto put = runtime->define<void(Span<u32>, u32)>("put", R"(
    DWELL_OPERATOR(put)(dwell::Group g, dwell::Span<dwell::u32> to, dwell::u32 value) {
      if (g.rank() == 0) for (dwell::u32 i = 0; i < to.size(); ++i) to[i] = to[i] * 31 + value;
    })");
  const auto fold = runtime->define<void(Span<const u32>, Span<u32>)>("fold", R"(
    DWELL_OPERATOR(fold)(dwell::Group g, dwell::Span<const dwell::u32> from, dwell::Span<dwell::u32> to) {
      if (g.rank() == 0) for (dwell::u32 i = 0; i < from.size(); ++i) to[0] = to[0] * 17 + from[i];
    })");
  auto memory = filled<u32>(*runtime, 64, 0);
  auto results = filled<u32>(*runtime, 16, 0);
  std::vector<u32> expected(64, 0);
  std::vector<u32> expected_results(16, 0);
  Random random(3);
  struct Step {
    bool reads;
    u32 first, count, value;
  };
  std::vector<Step> steps;
  for (u32 i = 0; i < 400; ++i) {
    const u32 first = random() % 60;
    steps.push_back({random() % 2 == 0, first, 1 + random() % std::min(64 - first, 9U), random() % 16});
  }
  const Graph graph = runtime->capture([&] {
    for (const Step& step : steps) {
      const auto part = memory.slice(step.first, step.count);
      if (step.reads)
        runtime->submit(fold, part, results.slice(step.value, 1));
      else
        runtime->submit(put, part, step.value);
    }
  });
  EXPECT_EQ(graph.size(), steps.size());
  EXPECT_THAT(read(memory), testing::Each(0U)) << "nothing runs while it is captured";
  const GraphExec exec = runtime->instantiate(graph);
  for (int round = 0; round < 5; ++round) {
    runtime->launch(exec).wait();
    for (const Step& step : steps) {
      for (u32 i = step.first; i < step.first + step.count; ++i) {
        if (step.reads)
          expected_results[step.value] = expected_results[step.value] * 17 + expected[i];
        else
          expected[i] = expected[i] * 31 + step.value;
      }
    }
    ASSERT_EQ(read(memory), expected) << round;
    ASSERT_EQ(read(results), expected_results) << round;
  }
}

TEST_P(CaptureTest, ReadersOfOneMemoryAreNotOrdered) {
  open();
  const auto read_only = runtime->define<void(Span<const u32>, Span<u32>)>(
      "read_only", "DWELL_OPERATOR(read_only)(dwell::Group, dwell::Span<const dwell::u32>, dwell::Span<dwell::u32>) {}\n");
  const auto from = filled<u32>(*runtime, 4, 0);
  const auto to = filled<u32>(*runtime, 4, 0);
  const Graph graph = runtime->capture([&] {
    for (u32 i = 0; i < 4; ++i) runtime->submit(read_only, from, to.slice(i, 1));
    runtime->submit(append, from, 1U);
  });
  const std::string dot = graph.dot();
  for (const char* edge : {"n0 -> n4", "n1 -> n4", "n2 -> n4", "n3 -> n4"}) EXPECT_THAT(dot, HasSubstr(edge));
  EXPECT_EQ(std::ranges::count(dot, '>'), 4);
}

TEST_P(CaptureTest, TasksKeepLinksDrainsAndAfter) {
  open();
  const auto edges_of = [&](const std::function<void()>& tasks) {
    const std::string dot = runtime->capture(tasks).dot();
    std::string edges;
    for (std::size_t at = dot.find(" -> "); at != std::string::npos; at = dot.find(" -> ", at + 1)) {
      const std::size_t begin = dot.rfind('n', at);
      edges += dot.substr(begin, dot.find(';', at) - begin) + " ";
    }
    return edges;
  };
  EXPECT_EQ(edges_of([&] {
              runtime->submit(nothing);
              runtime->submit(nothing);
            }),
            "");
  EXPECT_EQ(edges_of([&] {
              runtime->submit(nothing, link);
              runtime->submit(nothing, link);
            }),
            "n0 -> n1 ");
  EXPECT_EQ(edges_of([&] {
              const Ticket first = runtime->submit(nothing);
              const Ticket second = runtime->submit(nothing);
              runtime->submit(nothing, after(first, second), groups(3));
            }),
            "n0 -> n2 n1 -> n2 ");
  EXPECT_EQ(edges_of([&] {
              runtime->submit_many(nothing, 3, [](std::size_t, auto put) { put(); });
              runtime->submit(nothing, drain);
              runtime->submit(nothing);
              runtime->try_submit(nothing);
            }),
            "n0 -> n3 n1 -> n3 n2 -> n3 n3 -> n4 n3 -> n5 ");
}

TEST_P(CaptureTest, HardLinksGraphsAndForeignTicketsAreRefused) {
  open();
  const Ticket outside = runtime->submit(nothing);
  const GraphExec exec = runtime->instantiate(Graph());
  Ticket inside;
  runtime->capture([&] {
    inside = runtime->submit(nothing);
    expect_error(errc::unsupported, HasSubstr("hard_link"), [&] { runtime->submit(nothing, hard_link); });
    expect_error(errc::unsupported, HasSubstr("after_any_result"), [&] { runtime->submit(nothing, after_any_result(inside)); });
    expect_error(errc::invalid_argument, HasSubstr("was not captured"), [&] { runtime->submit(nothing, after(outside)); });
    expect_error(errc::unsupported, HasSubstr("launch of a graph"), [&] { runtime->launch(exec); });
    expect_error(errc::invalid_argument, HasSubstr("inside of"), [&] { runtime->capture([] {}); });
    expect_error(errc::invalid_argument, HasSubstr("captured"), [&] { inside.wait(); });
  });
  expect_error(errc::invalid_argument, HasSubstr("captured"), [&] { inside.wait(); });
  expect_error(errc::invalid_argument, HasSubstr("captured"), [&] { runtime->submit(nothing, after(inside)); });
  struct Stop {};
  EXPECT_THROW(runtime->capture([] { throw Stop(); }), Stop);
  runtime->submit(nothing).wait();
}

TEST_P(CaptureTest, OtherThreadsAndRuntimesAreLeftOut) {
  open();
  Runtime other(options());
  const auto theirs = other.define<Add>("add", kAdd);
  const auto their_cells = filled<u32>(other, 1, 0);
  const auto cells = filled<u32>(*runtime, 1, 0);
  const Graph graph = runtime->capture([&] {
    runtime->submit(add, cells, 0U, 1U);
    other.submit(theirs, their_cells, 0U, 1U).wait();
    std::thread([&] { runtime->submit(add, cells, 0U, 10U).wait(); }).join();
    runtime->submit(add, cells, 0U, 100U);
  });
  EXPECT_EQ(graph.size(), 2U);
  EXPECT_EQ(read(their_cells)[0], 1U);
  EXPECT_EQ(read(cells)[0], 10U);
  runtime->launch(runtime->instantiate(graph)).wait();
  EXPECT_EQ(read(cells)[0], 111U);
}

DWELL_ON_EVERY_DEVICE(CaptureTest);

}  // namespace
}  // namespace dwell::test
