// Flight recorder files of failed runtimes.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "live/flight.hpp"
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class FlightRecorderTest : public DeviceTest {
 protected:
  Options brief() {
    Options brief = options();
    brief.task_timeout = 200ms;
    return brief;
  }
  // Fails the runtime with a task that exceeds its timeout. Returns the flight.
  live::Flight failed(Runtime& runtime) {
    const auto spins = runtime.define<void(u64)>("spins", R"(
DWELL_OPERATOR(spins)(dwell::Group, dwell::u64 ns) {
  const dwell::u64 begun = dwell::device::now_ns();
  while (dwell::device::now_ns() - begun < ns) {}
}
)");
    position = runtime.submit(spins, 1'500'000'000ULL).position();
    const Error error = error_of([&] { runtime.wait_all(); });
    EXPECT_EQ(error.kind(), errc::task_timeout) << error.what();
    live::Flight flight = left_by(error);
    std::this_thread::sleep_for(1500ms);  // the task ends
    return flight;
  }
  // Reads the file that an error names, and removes it.
  static live::Flight left_by(const Error& error) {
    const std::string& text = error.message();
    const std::string before = "dwell post-mortem ";
    EXPECT_THAT(text, HasSubstr(before));
    const std::filesystem::path path = text.substr(text.find(before) + before.size());
    live::Flight flight = live::read_flight(path);
    std::filesystem::remove(path);
    return flight;
  }
  // The arguments of all nodes of an operator.
  static std::vector<std::string> of_nodes(const live::Flight& flight, const std::string& name) {
    std::vector<std::string> all;
    for (const auto& tasks : flight.workers)
      for (const live::Flight::Task& task : tasks)
        if (task.node && (task.name == name || task.name.ends_with(": " + name))) all.push_back(task.arguments);
    return all;
  }

  std::uint64_t position = 0;
};
DWELL_ON_EVERY_DEVICE(FlightRecorderTest);

constexpr const char* kWithArguments = R"(
DWELL_OPERATOR(with_arguments)(dwell::Group, float, dwell::u32) {}
)";

TEST_P(FlightRecorderTest, ErrorNamesAFileWithTheLastTasks) {
  Runtime runtime(brief());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  for (int i = 0; i < 10; ++i) runtime.submit(nothing).wait();
  const live::Flight flight = failed(runtime);
  std::string arguments = "no such task";
  for (const auto& tasks : flight.workers)
    for (const live::Flight::Task& task : tasks)
      if (task.name == "spins (version 1)" && task.position == position) arguments = task.arguments;
  EXPECT_EQ(arguments, "(1500000000)") << to_string(flight);
  EXPECT_THAT(flight.failure, testing::StartsWith("a task has run for more than "));
  EXPECT_THAT(flight.failure, HasSubstr("spins"));
}

TEST_P(FlightRecorderTest, HasArgumentsOfNodes) {
  Runtime runtime(brief());
  const auto with_arguments = runtime.define<void(float, u32)>("with_arguments", kWithArguments);
  Graph graph;
  graph.add(with_arguments, 0.0F, 0U);  // the worker that begins runs this node, without a record
  graph.add("second", with_arguments, 2.5F, 7U);
  const Node changed = graph.add(with_arguments, 0.5F, 8U);
  GraphExec exec = runtime.instantiate(graph);
  runtime.launch(exec).wait();
  exec.set(changed, 1, 9U);
  runtime.launch(exec).wait();
  {
    const auto released = runtime.define<void(u32)>("released", "DWELL_OPERATOR(released)(dwell::Group, dwell::u32) {}\n");
    Graph released_graph;
    released_graph.add(released, 3U);
    released_graph.add(released, 4U);
    runtime.launch(runtime.instantiate(released_graph)).wait();
  }
  static_cast<void>(runtime.metrics());  // collects ended launches
  runtime.launch(exec).wait();           // and releases that exec
  const live::Flight flight = failed(runtime);
  const std::string text = to_string(flight);
  const std::vector<std::string> arguments = of_nodes(flight, "with_arguments (version 1)");
  EXPECT_EQ(arguments.size(), 6U) << text;
  EXPECT_EQ(std::ranges::count(arguments, "(2.5, 7)"), 3) << text;
  EXPECT_EQ(std::ranges::count(arguments, "(0.5, 9) as set last"), 3) << text;
  EXPECT_THAT(text, HasSubstr("  #1: released (version 1) (4), node at "));
  EXPECT_THAT(text, HasSubstr("  second: with_arguments (version 1) (2.5, 7), node at "));
  EXPECT_THAT(text, HasSubstr("  #2: with_arguments (version 1) (0.5, 9) as set last, node at "));
}

TEST_P(FlightRecorderTest, ALaunchThatHangsHasTheNameOfItsGraph) {
  Runtime runtime(brief());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  runtime.submit(nothing).wait();
  const auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  Graph graph("step");
  graph.add(hold, latch.words());
  const std::uint64_t launch = runtime.launch(runtime.instantiate(graph)).position();
  const Error error = error_of([&] { runtime.wait_all(); });
  EXPECT_EQ(error.kind(), errc::task_timeout) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("; it was running graph 'step', ticket " + std::to_string(launch) + ", on worker "));
  const live::Flight flight = left_by(error);
  const std::string text = to_string(flight);
  EXPECT_THAT(text, HasSubstr("  graph 'step', ticket " + std::to_string(launch) + ", lease ")) << text;
  EXPECT_THAT(text, HasSubstr("  nothing (version 1) (), ticket ")) << text;
  latch.release();
}

TEST_P(FlightRecorderTest, ReusedMemoryIsNotTakenForADestroyedGraph) {
  Runtime runtime(brief());
  const auto with_arguments = runtime.define<void(float, u32)>("with_arguments", kWithArguments);
  std::optional<GraphExec> exec;
  constexpr u32 kExecs = 12;
  for (u32 i = 0; i < kExecs; ++i) {
    exec.reset();
    static_cast<void>(runtime.metrics());  // collects ended launches, so that the next exec gets the memory
    Graph graph;
    graph.add(with_arguments, 0.0F, 0U);
    graph.add(with_arguments, 1.0F, i);
    exec = runtime.instantiate(graph);
    runtime.launch(*exec).wait();
  }
  const live::Flight flight = failed(runtime);
  const std::vector<std::string> arguments = of_nodes(flight, "with_arguments (version 1)");
  // Another worker may run the first node.
  EXPECT_GE(arguments.size(), kExecs);
  EXPECT_LE(arguments.size(), 2 * kExecs);
  std::set<std::uint64_t> places;
  for (const auto& tasks : flight.workers)
    for (const live::Flight::Task& task : tasks)
      if (task.node) places.insert(task.offset);
  std::set<std::string> told;
  for (const std::string& text : arguments)
    EXPECT_TRUE(text.empty() || told.insert(text).second) << "two nodes with " << text << '\n' << to_string(flight);
  if (places.size() >= kExecs) GTEST_SKIP() << "no memory was used again this time";
}

}  // namespace
}  // namespace dwell::test
