// Log lines of operators, and their way to the host.
#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include <dwell/detail/open_at.hpp>
#include <dwell/graph.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

using testing::ElementsAre;

class LogTest : public DeviceTest {
 protected:
  // Options that collect log lines here.
  Options logging(level from = level::trace) {
    Options options = this->options();
    options.log.from = from;
    options.log.sink = [lines = lines_](const LogRecord& record) {
      const std::lock_guard lock(lines->mutex);
      lines->all.push_back(record);
    };
    return options;
  }
  // Returns all lines so far. A park delivers those of all complete tasks.
  std::vector<LogRecord> lines(Runtime& runtime) {
    runtime.park();
    static_cast<void>(runtime.logs());
    runtime.resume();
    return lines();
  }
  std::vector<LogRecord> lines() const {
    const std::lock_guard lock(lines_->mutex);
    return lines_->all;
  }
  std::vector<std::string> texts(Runtime& runtime) {
    std::vector<std::string> texts;
    for (const LogRecord& record : lines(runtime)) texts.push_back(record.text);
    return texts;
  }

  struct Lines {
    std::mutex mutex;
    std::vector<LogRecord> all;
  };
  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};
DWELL_ON_EVERY_DEVICE(LogTest);

// An operator that logs its number.
std::string say_source(const std::string& severity = "info", const std::string& what = "says") {
  return "DWELL_OPERATOR(say)(dwell::Group g, dwell::u32 number) {\n"
         "  if (g.rank() == 0) dwell::log(g, dwell::level::" +
         severity + ", \"" + what + " {}\", number);\n}\n";
}
using Say = void(u32);

TEST_P(LogTest, LineHasItsOriginAndTime) {
  Runtime runtime(logging());
  auto say = runtime.define<Say>("say", say_source("warning"));
  const auto before = Clock::now();
  const Ticket ticket = runtime.submit(say, 7U);
  ticket.wait();
  const auto all = lines(runtime);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].severity, level::warning);
  EXPECT_EQ(all[0].text, "says 7");
  EXPECT_EQ(all[0].op, "say (version 1)");
  EXPECT_TRUE(all[0].has_position);
  EXPECT_EQ(all[0].position, ticket.position());
  EXPECT_LT(all[0].worker, runtime.info().workers);
  if (on_cpu()) {
    EXPECT_GE(all[0].at, before);
    EXPECT_LE(all[0].at, Clock::now());
  }
  EXPECT_THAT(to_string(all[0]), HasSubstr(" warning say (version 1) worker " + std::to_string(all[0].worker) + " ticket " +
                                           std::to_string(ticket.position()) + ": says 7"));
}

TEST_P(LogTest, ArgumentsOfAllTypes) {
  Runtime runtime(logging());
  auto op = runtime.define<void(i32, std::uint64_t, float, double)>("op", R"(
    DWELL_OPERATOR(op)(dwell::Group g, dwell::i32 i, dwell::u64 u, float f, double d) {
      if (g.rank() != 0) return;
      dwell::log(g, dwell::level::info, "nothing");
      dwell::log(g, dwell::level::info, "{} {:#x} {:.3f} {:+e}", i, u, f, d);
      dwell::log(g, dwell::level::info, "{:>6}|{:*^6}|{:<6}|{:06}", i, i, i, i);
      dwell::log(g, dwell::level::info, "{} {:d} {} {:x} {{}}", i < 0, i < 0, 'a', 'a');
      dwell::log(g, dwell::level::info, "{} {} {}", static_cast<dwell::i8>(-3), static_cast<dwell::u16>(65535), -5000000000ll);
      dwell::log(g, dwell::level::info, "{} {}", dwell::half(0.5f), dwell::bfloat16(0.25f));
      dwell::log(g, dwell::level::info, "{:p}", reinterpret_cast<const void*>(u));
      dwell::log(g, dwell::level::info, "{} {} {} {} {} {} {} {}", u, u, u, u, u, u, u, u);
    })");
  runtime.submit(op, -42, std::uint64_t{0x123456789AULL}, 1.0F / 3, 1e100).wait();
  const std::string u = std::to_string(0x123456789AULL);
  std::string eight = u;
  for (int i = 0; i < 7; ++i) eight += " " + u;
  EXPECT_THAT(texts(runtime), ElementsAre("nothing", "-42 0x123456789a 0.333 +1.000000e+100", "   -42|*-42**|-42   |-00042",
                                          "true 1 a 61 {}", "-3 65535 -5000000000", "0.5 0.25", "0x123456789a", eight));
}

TEST_P(LogTest, OnlyLinesAboveTheThresholdAreWritten) {
  Runtime runtime(logging(level::warning));
  auto op = runtime.define<void(u32)>("op", R"(
    DWELL_OPERATOR(op)(dwell::Group g, dwell::u32 round) {
      if (g.rank() != 0) return;
      dwell::log(g, dwell::level::trace, "trace {}", round);
      dwell::log(g, dwell::level::debug, "debug {}", round);
      dwell::log(g, dwell::level::info, "info {}", round);
      dwell::log(g, dwell::level::warning, "warning {}", round);
      dwell::log(g, dwell::level::error, "error {}", round);
      if (g.logs(dwell::level::info)) dwell::log(g, dwell::level::error, "info is logged");
    })");
  runtime.submit(op, 1U).wait();
  EXPECT_THAT(texts(runtime), ElementsAre("warning 1", "error 1"));
  runtime.set_log_level(level::info);
  runtime.submit(op, 2U).wait();
  EXPECT_THAT(texts(runtime), ElementsAre("warning 1", "error 1", "info 2", "warning 2", "error 2", "info is logged"));
  runtime.set_log_level(level::off);
  runtime.submit(op, 3U).wait();
  EXPECT_EQ(texts(runtime).size(), 6U);
  EXPECT_EQ(runtime.metrics().log_lines, 6U);
}

TEST_P(LogTest, EachThreadThatCallsLogsALine) {
  Runtime runtime(logging());
  auto op = runtime.define<void()>("op", R"(
    DWELL_OPERATOR(op)(dwell::Group g) { dwell::log(g, dwell::level::info, "{} of {}", g.rank(), g.size()); })");
  runtime.submit(op).wait();
  auto all = texts(runtime);
  const std::size_t threads = on_cpu() ? 1 : 128;
  ASSERT_EQ(all.size(), threads);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < threads; ++i) expected.push_back(std::to_string(i) + " of " + std::to_string(threads));
  EXPECT_THAT(all, testing::UnorderedElementsAreArray(expected));
}

TEST_P(LogTest, WideTasksNodesAndTasksOfOperators) {
  Runtime runtime(logging());
  auto say = runtime.define<Say>("say", say_source());
  auto wide = runtime.define<void()>("wide", R"(
    DWELL_OPERATOR(wide)(dwell::Group g) {
      if (g.rank() == 0) dwell::log(g, dwell::level::info, "group {}", g.index());
    })");
  auto parent = runtime.define<void()>("parent", R"(
    DWELL_USES(say, dwell::u32)
    DWELL_OPERATOR(parent)(dwell::Group g) {
      if (g.rank() == 0) dwell::log(g, dwell::level::info, "spawns one");
      g.spawn(uses::say, 5u);
    })");
  const auto of = [&](std::uint64_t first) {
    return std::vector(lines_->all.begin() + static_cast<std::ptrdiff_t>(first), lines_->all.end());
  };

  const Ticket ticket = runtime.submit(wide, groups(4));
  ticket.wait();
  ASSERT_EQ(lines(runtime).size(), 4U);
  for (const LogRecord& record : of(0)) {
    EXPECT_EQ(record.position, ticket.position());
    EXPECT_EQ(record.op, "wide (version 1)");
  }

  Graph graph;
  graph.name("numbers");
  auto last = graph.add(say, 0U);
  for (u32 i = 1; i < 40; ++i) {
    auto node = graph.add(say, i);
    node.after(last);
    last = node;
  }
  const Ticket launched = runtime.launch(runtime.instantiate(graph));
  launched.wait();
  ASSERT_EQ(lines(runtime).size(), 44U);
  u32 number = 0;
  for (const LogRecord& record : of(4)) {
    EXPECT_TRUE(record.has_position);
    EXPECT_EQ(record.position, launched.position());
    EXPECT_THAT(to_string(record), HasSubstr(" of graph 'numbers' worker " + std::to_string(record.worker) + " ticket " +
                                             std::to_string(launched.position()) + ": says "));
    EXPECT_EQ(record.node, "#" + std::to_string(number));
    EXPECT_EQ(record.graph, "numbers");
    EXPECT_EQ(record.text, "says " + std::to_string(number++)) << "nodes of a chain log in their order";
  }

  const Ticket made = runtime.submit(parent);
  made.wait();
  ASSERT_EQ(lines(runtime).size(), 46U);
  const auto both = of(44);
  EXPECT_EQ(both[0].text, "spawns one");
  EXPECT_TRUE(both[0].has_position);
  EXPECT_EQ(both[0].position, made.position());
  EXPECT_EQ(both[1].text, "says 5");
  EXPECT_FALSE(both[1].has_position);
}

// A graph whose nodes log a number: a chain, nodes side by side behind it, a node of several groups, and one behind all.
class LoggingGraph {
 public:
  LoggingGraph(Runtime& runtime, const Operator<Say>& say) {
    graph_.name("numbers");
    for (int i = 0; i < 6; ++i) add(say, i == 0 ? std::vector<Node>() : std::vector{nodes_.back()});
    const Node end_of_chain = nodes_.back();
    std::vector<Node> side_by_side;
    for (int i = 0; i < 5; ++i) side_by_side.push_back(add(say, {end_of_chain}));
    nodes_.push_back(graph_.add(say, groups(kGroups), 0U));
    nodes_.back().after(end_of_chain);
    side_by_side.push_back(nodes_.back());
    add(say, side_by_side);
    exec_ = runtime.instantiate(graph_);
  }
  std::size_t lines() const { return nodes_.size() + kGroups - 1; }
  const GraphExec& exec() const { return exec_; }
  Ticket launch(Runtime& runtime, u32 number) {
    for (const Node& node : nodes_) exec_.set(node, 0, number);
    return runtime.launch(exec_);
  }

 private:
  static constexpr u32 kGroups = 3;

  Node add(const Operator<Say>& say, const std::vector<Node>& before) {
    Node node = graph_.add(say, 0U);
    for (const Node& one : before) node.after(one);
    nodes_.push_back(node);
    return node;
  }

  Graph graph_;
  std::vector<Node> nodes_;
  GraphExec exec_;
};

TEST_P(LogTest, NodesNameTheTicketOfTheirLaunch) {
  constexpr u32 kLaunches = kSanitized ? 20 : 100;
  Options with = logging();
  with.log.ring_lines = 4096;
  // All bits of a position are in use, and its lower half overflows on the way.
  for (const std::uint64_t first : {0x1'A5C3'0FC0ULL, 0x2'FFFF'FFC0ULL}) {
    lines_->all.clear();
    Runtime runtime = detail::open_at(first, with);
    auto say = runtime.define<Say>("say", say_source());
    LoggingGraph one(runtime, say);
    LoggingGraph other(runtime, say);
    std::vector<std::uint64_t> launched;
    for (u32 i = 0; i < kLaunches; ++i) launched.push_back((i % 3 == 0 ? other : one).launch(runtime, i).position());
    runtime.wait_all();
    std::vector<std::size_t> counts(kLaunches);
    for (const LogRecord& record : lines(runtime)) {
      const auto number = static_cast<u32>(std::stoul(record.text.substr(5)));
      ASSERT_LT(number, kLaunches);
      ++counts[number];
      ASSERT_TRUE(record.has_position) << record.text;
      ASSERT_EQ(record.position, launched[number]) << record.text << " in node " << record.node;
      EXPECT_EQ(record.graph, "numbers");
    }
    EXPECT_EQ(counts, std::vector<std::size_t>(kLaunches, one.lines()));
  }
}

TEST_P(LogTest, NodesOfGraphsThatOperatorsLaunchHaveNoTicket) {
  constexpr u32 kRounds = 20;
  constexpr u32 kEach = 2;  // launches by an operator in each
  Options with = logging();
  with.log.ring_lines = 4096;
  Runtime runtime(with);
  auto say = runtime.define<Say>("say", say_source());
  auto launch_twice = runtime.define<void(Exec)>("launch_twice", R"(
    DWELL_OPERATOR(launch_twice)(dwell::Group g, dwell::Exec exec) { g.launch_after(g.launch(exec), exec); })");
  LoggingGraph graph(runtime, say);
  std::vector<std::uint64_t> launched;
  for (u32 i = 0; i < kRounds; ++i) {
    launched.push_back(graph.launch(runtime, i).position());
    runtime.submit(launch_twice, graph.exec());
  }
  runtime.wait_all();
  std::vector<std::size_t> counts(kRounds);
  std::size_t others = 0;
  for (const LogRecord& record : lines(runtime)) {
    EXPECT_THAT(record.node, testing::StartsWith("#"));
    EXPECT_EQ(record.graph, "numbers");
    const auto number = static_cast<u32>(std::stoul(record.text.substr(5)));
    ASSERT_LT(number, kRounds);
    if (record.has_position) {
      ++counts[number];
      EXPECT_EQ(record.position, launched[number]);
    } else {
      ++others;
      EXPECT_THAT(to_string(record), testing::Not(HasSubstr("ticket")));
    }
  }
  EXPECT_EQ(counts, std::vector<std::size_t>(kRounds, graph.lines()));
  EXPECT_EQ(others, kRounds * kEach * graph.lines());
}

TEST_P(LogTest, LinesArriveWhileTheLoopRuns) {
  Runtime runtime(logging());
  auto say = runtime.define<Say>("say", say_source());
  auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  runtime.submit(hold, latch.words());
  latch.await();
  runtime.submit(say, 1U);
  EXPECT_TRUE(eventually([&] { return lines().size() == 1; })) << "nobody has waited, parked or closed";
  latch.release();
  runtime.wait_all();
}

TEST_P(LogTest, LinesHaveTheirVersion) {
  Runtime runtime(logging());
  auto say = runtime.define<Say>("say", say_source("info", "version 1 says"));
  std::vector<std::string> expected;
  u32 number = 0;
  for (u32 version = 1; version <= 4; ++version) {
    if (version > 1) say.redefine(say_source("info", "version " + std::to_string(version) + " says"));
    for (int i = 0; i < 50; ++i) {
      runtime.submit(say, number);
      expected.push_back("version " + std::to_string(version) + " says " + std::to_string(number++));
    }
    if (version % 2 == 0) {
      runtime.park();
      runtime.resume();
    }
  }
  runtime.wait_all();
  const auto all = lines(runtime);
  std::vector<std::string> found;
  for (const LogRecord& record : all) {
    found.push_back(record.text);
    EXPECT_EQ(record.op, "say (version " + record.text.substr(8, 1) + ")") << record.text;
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
}

// A callback that blocks from its first line until it is released.
class Hurdle {
 public:
  void take() {
    entered_ = true;
    while (held_.load()) std::this_thread::sleep_for(1ms);
  }
  bool entered() const { return entered_.load(); }
  void release() { held_ = false; }

 private:
  std::atomic<bool> entered_{false};
  std::atomic<bool> held_{true};
};

TEST_P(LogTest, PendingLinesKeepTheirVersionAndFormat) {
  Options with = logging();
  Hurdle hurdle;
  with.log.sink = [&, keep = with.log.sink](const LogRecord& record) {
    hurdle.take();
    keep(record);
  };
  Runtime runtime(with);
  auto say = runtime.define<Say>("say", say_source("info", "version 1 says"));
  runtime.submit(say, 0U).wait();
  ASSERT_TRUE(eventually([&] { return hurdle.entered(); }));
  std::vector<std::string> expected{"version 1 says 0"};
  u32 number = 1;
  for (u32 version = 2; version <= 6; ++version) {
    // Each version takes the opcode of an earlier one, whose image goes.
    say.redefine(say_source("info", "version " + std::to_string(version) + " says"));
    for (int i = 0; i < 10; ++i) {
      runtime.submit(say, number);
      expected.push_back("version " + std::to_string(version) + " says " + std::to_string(number++));
    }
    runtime.wait_all();
    runtime.park();
    runtime.resume();
  }
  hurdle.release();
  std::vector<std::string> found;
  for (const LogRecord& record : lines(runtime)) {
    found.push_back(record.text);
    EXPECT_EQ(record.op, "say (version " + record.text.substr(8, 1) + ")") << record.text;
  }
  // Workers run concurrently.
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
}

// Logs `lines` lines of one severity.
constexpr const char* kStorm = R"(
DWELL_OPERATOR(storm)(dwell::Group g, dwell::u32 lines) {
  if (g.rank() != 0) return;
  for (dwell::u32 i = 0; i < lines; ++i) {
    dwell::log(g, dwell::level::info, "{} {} {} {}", i, i + 1, i + 2, i + 3);
    if (i % 4 == 0) dwell::log(g, dwell::level::warning, "{} {} {} {} {}", i, 1.5, 2.5, 3.5, 4.5);
    if (i % 8 == 0) dwell::log(g, dwell::level::error, "{}", i);
  }
})";

TEST_P(LogTest, AllLinesOfAStormAreCounted) {
  Options with = logging();
  with.log.ring_lines = 64;
  with.lease = on_cpu() ? 2ms : 500us;
  const u32 tasks = kSanitized ? 20 : 200;
  constexpr u32 kLines = 400;
  std::array<std::uint64_t, 5> logged = {};
  logged[2] = std::uint64_t{tasks} * kLines;
  logged[3] = std::uint64_t{tasks} * kLines / 4;
  logged[4] = std::uint64_t{tasks} * kLines / 8;
  Runtime runtime(with);
  auto storm = runtime.define<void(u32)>("storm", kStorm);
  for (u32 i = 0; i < tasks; ++i) runtime.submit(storm, kLines);
  runtime.wait_all();
  std::array<std::uint64_t, 5> received = {};
  for (const LogRecord& record : lines(runtime)) ++received[static_cast<std::size_t>(record.severity)];
  const Metrics metrics = runtime.metrics();
  std::array<std::uint64_t, 5> by_worker = {};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(received[i] + metrics.log_dropped[i], logged[i]) << text_of(static_cast<level>(i));
    for (const WorkerMetrics& worker : metrics.workers) by_worker[i] += worker.log_dropped[i];
  }
  EXPECT_EQ(by_worker, metrics.log_dropped);
  EXPECT_GT(metrics.log_dropped[2], 0U) << "the storm was meant to be too strong";
}

TEST_P(LogTest, SlowSinkBlocksNothingAndErrorsAreDroppedLast) {
  Options with = options();
  with.workers = 1;
  with.log.ring_lines = 64;
  Hurdle hurdle;
  std::atomic<u32> errors{0};
  with.log.sink = [&](const LogRecord& record) {
    hurdle.take();
    errors += record.severity == level::error ? 1 : 0;
  };
  Runtime runtime(with);
  auto storm = runtime.define<void(u32)>("storm", R"(
    DWELL_OPERATOR(storm)(dwell::Group g, dwell::u32 lines) {
      if (g.rank() != 0) return;
      for (dwell::u32 i = 0; i < lines; ++i) dwell::log(g, dwell::level::info, "{}", i);
      for (int i = 0; i < 8; ++i) dwell::log(g, dwell::level::error, "{}", i);
    })");
  auto say = runtime.define<Say>("say", say_source());
  runtime.submit(say, 0U).wait();
  // The sink blocks on its first line.
  ASSERT_TRUE(eventually([&] {
    runtime.submit(storm, 1000U).wait();
    return runtime.metrics().log_dropped[2] > 0;
  }));
  const Metrics metrics = runtime.metrics();
  EXPECT_EQ(metrics.log_dropped[4], 0U) << "there was room left for them";
  hurdle.release();
  runtime.close();
  EXPECT_GE(errors.load(), 8U);
}

TEST_P(LogTest, KeptLinesAreReadLaterAndByMany) {
  Options with = logging();
  with.log.kept = 10;
  Runtime runtime(with);
  auto say = runtime.define<Say>("say", say_source());
  for (u32 i = 0; i < 25; ++i) runtime.submit(say, i).wait();
  static_cast<void>(lines(runtime));
  Logs logs = runtime.logs();
  Logs others = runtime.logs(1ms);
  std::vector<std::string> found;
  for (const LogRecord& record : logs) found.push_back(record.text);
  EXPECT_EQ(found.size(), 10U);
  EXPECT_EQ(found.front(), "says 15");
  EXPECT_EQ(found.back(), "says 24");
  EXPECT_EQ(logs.missed(), 15U);
  EXPECT_EQ(logs.next(), std::nullopt);
  EXPECT_EQ(std::ranges::distance(others), 10);

  // A reader that waits for new lines.
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    runtime.submit(say, 99U);
  });
  const auto next = logs.next(20s);
  later.join();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->text, "says 99");
  // A reader outlives the runtime, and no longer waits.
  runtime.close();
  EXPECT_EQ(logs.next(20s), std::nullopt);
}

TEST_P(LogTest, FilesAreRotated) {
  const std::string path = testing::TempDir() + "dwell_log_" + device_name({GetParam(), 0}) + "_" + std::to_string(getpid());
  {
    Options with = options();
    with.log.file = path;
    with.log.file_bytes = 2000;
    with.log.files = 3;
    Runtime runtime(with);
    auto say = runtime.define<Say>("say", say_source());
    for (u32 i = 0; i < 100; ++i) {
      runtime.submit(say, i).wait();
      if (i % 10 == 9) static_cast<void>(runtime.logs());
    }
  }
  std::string last;
  std::size_t lines = 0;
  for (const std::string& name : {path + ".2", path + ".1", path}) {
    std::ifstream file(name);
    EXPECT_TRUE(file) << name;
    for (std::string line; std::getline(file, line); ++lines) last = line;
    std::remove(name.c_str());
  }
  EXPECT_FALSE(std::ifstream(path + ".3")) << "more than three files";
  EXPECT_THAT(last, testing::EndsWith(": says 99"));
  EXPECT_LT(lines, 100U);
}

TEST_P(LogTest, LinesBeyondTheLimitOfASiteAreCounted) {
  Options with = logging();
  with.log.per_site_per_second = 5;
  Runtime runtime(with);
  auto say = runtime.define<Say>("say", say_source());
  auto storm = runtime.define<void(u32)>("storm", kStorm);
  for (u32 i = 0; i < 50; ++i) runtime.submit(say, i).wait();
  static_cast<void>(lines(runtime));
  const Metrics metrics = runtime.metrics();
  EXPECT_GE(metrics.log_limited, 40U);
  EXPECT_EQ(metrics.log_lines + metrics.log_limited, 50U);
  runtime.close();
  EXPECT_THAT(lines().back().text, HasSubstr(" more lines within a second were left out: \"says {}\""));
}

TEST_P(LogTest, AWrongFormatDoesNotCompile) {
  Runtime runtime(logging());
  const auto refuses = [&](const std::string& call, const std::string& why) {
    const std::string source = "DWELL_OPERATOR(wrong)(dwell::Group g, int i, float f) { dwell::log(g, dwell::level::info, " + call + "); }";
    DWELL_EXPECT_ERROR(runtime.define("wrong", source), errc::compile_failed, HasSubstr(why));
  };
  refuses(R"("{} {}", i)", "more_placeholders_than_arguments");
  refuses(R"("{:d}", f)", "this_type_does_not_fit_the_argument");
  if (!on_cpu()) return;  // the rest is the same for all compilers
  refuses(R"("{}", i, f)", "more_arguments_than_placeholders");
  refuses(R"("}", i)", "a_closing_brace_stands_alone_write_two");
  refuses(R"("{", i)", "a_placeholder_neither_ends_nor_begins_with_a_colon");
  refuses(R"("{0}", i)", "a_placeholder_neither_ends_nor_begins_with_a_colon");
  refuses(R"("{:q}", i)", "a_placeholder_has_an_unknown_type_or_no_end");
  refuses(R"("{:{<8}", i)", "a_brace_cannot_fill");
  refuses(R"("{:.f}", f)", "a_precision_has_no_digits");
  refuses(R"("{:12345}", i)", "a_width_or_precision_has_more_than_four_digits");
  refuses(R"("{:+}", i < 0)", "a_sign_or_number_sign_or_zero_needs_a_number");
  refuses(R"("{:.3}", i)", "a_precision_needs_a_float");
  refuses(R"("{}", "text")", "dwell::log takes integers, bool, char, floats and pointers");
  refuses(R"("{} {} {} {} {} {} {} {} {}", i, i, i, i, i, i, i, i, i)", "8 arguments at most");
}

TEST_P(LogTest, TheCallbackMayUseTheRuntimeButNotCloseIt) {
  Options with = options();
  Runtime* used = nullptr;
  std::mutex mutex;
  std::vector<errc> kinds;
  std::atomic<int> warnings{0};
  with.warn = [&](std::string_view) { ++warnings; };
  with.log.sink = [&](const LogRecord&) {
    {
      const std::lock_guard lock(mutex);
      kinds.push_back(error_of([&] { static_cast<void>(used->metrics()); }).kind());
      kinds.push_back(error_of([&] { static_cast<void>(used->logs()); }).kind());
      kinds.push_back(error_of([&] { used->close(); }).kind());
    }
    throw std::runtime_error("the sink's own");
  };
  Runtime runtime(with);
  used = &runtime;
  auto say = runtime.define<Say>("say", say_source());
  for (u32 i = 0; i < 2; ++i) {
    runtime.submit(say, i).wait();
    static_cast<void>(lines(runtime));
  }
  const std::lock_guard lock(mutex);
  EXPECT_THAT(kinds, ElementsAre(errc::ok, errc::ok, errc::invalid_argument, errc::ok, errc::ok, errc::invalid_argument));
  EXPECT_EQ(warnings.load(), 1) << "it is told once";
}

TEST_P(LogTest, OptionsAreChecked) {
  Options with = options();
  with.log.ring_lines = 100;
  DWELL_EXPECT_ERROR(Runtime{with}, errc::invalid_argument, HasSubstr("power of two"));
  with.log.ring_lines = 64;
  with.log.file = "/no/such/folder/log";
  DWELL_EXPECT_ERROR(Runtime{with}, errc::invalid_argument, HasSubstr("/no/such/folder/log"));
}

// Lines logged before the device was lost are delivered when the runtime ends.
TEST_P(LogTest, LinesSurviveATaskThatHangs) {
  if (!on_cpu()) GTEST_SKIP() << "a task that hangs keeps the device from other tests";
  Options with = logging();
  with.task_timeout = 50ms;
  Runtime runtime(with);
  auto op = runtime.define<Hold>("op", R"(
    DWELL_OPERATOR(op)(dwell::Group g, dwell::Span<dwell::u32> latch) {
      using namespace dwell::device;
      if (g.rank() != 0) return;
      dwell::log(g, dwell::level::error, "hangs now");
      while (load<Order::acquire, Scope::system>(&latch[1]) == 0) relax(127);
      store<Order::release, Scope::system>(&latch[0], 1u);  // read by the test, which may then free the latch
    })");
  std::vector<u32> words(2);
  auto latch = runtime.wrap(words.data(), words.size());
  DWELL_EXPECT_ERROR(runtime.submit(op, latch).wait(), errc::task_timeout, HasSubstr("op (version 1)"));
  EXPECT_TRUE(eventually([&] { return lines().size() == 1; }));
  EXPECT_EQ(lines().at(0).text, "hangs now");
  std::atomic_ref<u32>(words[1]).store(1);
  static_cast<void>(error_of([&] { runtime.close(); }));
  // The runtime does not wait for the abandoned worker, which reads the latch once more.
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<u32>(words[0]).load() == 1; }));
}

}  // namespace
}  // namespace dwell::test
