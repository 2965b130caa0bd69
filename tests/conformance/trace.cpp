// Timelines: each task once, no overlap on a worker, in the order of dependence.
#include <algorithm>
#include <set>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

using Kind = TraceEvent::Kind;

constexpr const char* kWorks = R"(
DWELL_OPERATOR(works)(dwell::Group, dwell::u64 ns) {
  const dwell::u64 begun = dwell::device::now_ns();
  while (dwell::device::now_ns() - begun < ns) {}
}
)";

bool is_call(const TraceEvent& event) { return event.kind <= Kind::group; }
std::vector<TraceEvent> of_kind(const Trace& trace, Kind kind) {
  std::vector<TraceEvent> all;
  for (const TraceEvent& event : trace.events)
    if (event.kind == kind) all.push_back(event);
  return all;
}
std::string name_of(const Trace& trace, const TraceEvent& event) {
  return event.name == TraceEvent::kNoName ? std::string() : trace.names.at(event.name);
}

// Expects that calls on a worker do not overlap, within the steps of the device's clock of less than 2 us.
void expect_sound(const Trace& trace) {
  std::map<std::uint32_t, std::vector<TraceEvent>> calls;
  for (const TraceEvent& event : trace.events) {
    EXPECT_GE(event.took_ns, 0);
    if (is_call(event)) calls[event.worker].push_back(event);
  }
  for (auto& [worker, events] : calls) {
    std::ranges::sort(events, {}, &TraceEvent::begin_ns);
    for (std::size_t i = 1; i < events.size(); ++i)
      ASSERT_GE(events[i].begin_ns + 2000, events[i - 1].begin_ns + events[i - 1].took_ns) << "on worker " << worker;
  }
}

class TraceTest : public DeviceTest {
 protected:
  // Returns the trace of `work`.
  Trace trace(Runtime& runtime, const std::function<void()>& work) {
    class Writer : public TraceWriter {
     public:
      void write(const Trace& piece) override {
        all.events.insert(all.events.end(), piece.events.begin(), piece.events.end());
        all.arrows.insert(all.arrows.end(), piece.arrows.begin(), piece.arrows.end());
        ASSERT_GE(piece.names.size(), all.names.size());
        all.names = piece.names;
        all.dropped += piece.dropped;
        all.clock_error_ns = std::max(all.clock_error_ns, piece.clock_error_ns);
        all.device = piece.device;
      }
      void finish() override { ++finished; }
      Trace all;
      int finished = 0;
    };
    const auto writer = std::make_shared<Writer>();
    runtime.start_trace(writer);
    work();
    runtime.stop_trace();
    EXPECT_EQ(writer->finished, 1);
    return writer->all;
  }
};
DWELL_ON_EVERY_DEVICE(TraceTest);

TEST_P(TraceTest, ShowsEachTaskOnce) {
  Runtime runtime(options());
  const auto works = runtime.define<void(u64)>("works", kWorks);
  runtime.submit(works, 1000ULL).wait();  // before the trace: not shown
  std::set<std::uint64_t> submitted;
  const auto begun = Clock::now();
  // A ring holds 512 events, two for each task: none is dropped, even if the host reads late.
  constexpr u32 kTasks = 200;
  const Trace seen = trace(runtime, [&] {
    for (u32 i = 0; i < kTasks; ++i)
      submitted.insert((i % 2 == 0 ? runtime.submit(works, 10'000ULL) : *runtime.try_submit(works, 10'000ULL)).position());
    runtime.wait_all();
  });
  const auto ended = Clock::now();
  EXPECT_EQ(seen.dropped, 0U);
  EXPECT_EQ(seen.device, GetParam());
  std::set<std::uint64_t> ran;
  for (const TraceEvent& event : of_kind(seen, Kind::task)) {
    EXPECT_TRUE(ran.insert(event.id).second) << "position " << event.id << " twice";
    EXPECT_EQ(name_of(seen, event), "works (version 1)");
    EXPECT_GE(event.took_ns, 9'000);
    // On the host's clock.
    const auto at = Clock::time_point(std::chrono::nanoseconds(event.begin_ns));
    EXPECT_GE(at + 50us, begun);
    EXPECT_LE(at, ended + 50us);
  }
  EXPECT_EQ(ran, submitted);
  expect_sound(seen);
  std::uint64_t counted = 0;
  for (const TraceEvent& event : of_kind(seen, Kind::submit)) counted += event.count;
  EXPECT_EQ(counted, kTasks);
  EXPECT_LE(seen.clock_error_ns, 5000.0);
  if (!on_cpu()) std::printf("clock error %.0f ns\n", seen.clock_error_ns);
}

TEST_P(TraceTest, TasksFollowTheirPredecessors) {
  Runtime runtime(options());
  const auto works = runtime.define<void(u64)>("works", kWorks);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> order;  // pairs of ordered tasks
  const Trace seen = trace(runtime, [&] {
    Ticket before = runtime.submit(works, 5000ULL);
    for (int i = 0; i < 60; ++i) {
      Ticket next = i % 2 == 0 ? runtime.submit(works, 5000ULL, after(before)) : runtime.submit(works, 5000ULL, link);
      order.emplace_back(before.position(), next.position());
      before = next;
    }
    runtime.wait_all();
  });
  std::map<std::uint64_t, TraceEvent> by_position;
  for (const TraceEvent& event : of_kind(seen, Kind::task)) by_position[event.id] = event;
  ASSERT_EQ(by_position.size(), 61U);
  for (const auto& [first, second] : order)
    EXPECT_GE(by_position[second].begin_ns + 2000, by_position[first].begin_ns + by_position[first].took_ns);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> arrows;
  for (const TraceArrow& arrow : seen.arrows) arrows.emplace_back(arrow.from, arrow.to);
  EXPECT_THAT(arrows, testing::UnorderedElementsAreArray(order));
  expect_sound(seen);
}

TEST_P(TraceTest, ShowsNodesGroupsSpawnedTasksAndTheHost) {
  Runtime runtime(options());
  const auto works = runtime.define<void(u64)>("works", kWorks);
  const auto parent = runtime.define<void()>("parent", R"(
DWELL_USES(works, dwell::u64)
DWELL_OPERATOR(parent)(dwell::Group g) { for (int i = 0; i < 5; ++i) g.spawn(uses::works, dwell::u64{1000}); }
)");
  Graph graph("twenty");
  Node before = graph.add(works, 1000ULL);
  for (int i = 0; i < 19; ++i) before = graph.add(works, 1000ULL).after(before);
  const GraphExec exec = runtime.instantiate(graph);
  const Trace seen = trace(runtime, [&] {
    runtime.mark("here it begins");
    runtime.launch(exec).wait();
    runtime.submit(parent).wait();
    runtime.submit(works, 1000ULL, groups(6)).wait();
    runtime.park();
    runtime.resume();
    runtime.define("other", "DWELL_OPERATOR(other)(dwell::Group) {}\n");
  });
  EXPECT_EQ(seen.dropped, 0U);
  EXPECT_EQ(of_kind(seen, Kind::node).size(), 20U);
  EXPECT_EQ(of_kind(seen, Kind::spawned).size(), 5U);
  EXPECT_EQ(of_kind(seen, Kind::group).size(), 6U);
  ASSERT_EQ(of_kind(seen, Kind::launch).size(), 1U);
  EXPECT_EQ(name_of(seen, of_kind(seen, Kind::launch)[0]), "launch twenty");
  ASSERT_EQ(of_kind(seen, Kind::begin).size(), 1U);
  EXPECT_EQ(name_of(seen, of_kind(seen, Kind::begin)[0]), "begin twenty");
  // The ends of the launch, the task that spawned others, and the wide task; each after all its calls.
  const std::vector<TraceEvent> complete = of_kind(seen, Kind::complete);
  ASSERT_EQ(complete.size(), 3U);
  EXPECT_EQ(complete[0].id, of_kind(seen, Kind::launch)[0].id);
  EXPECT_EQ(name_of(seen, complete[0]), "complete twenty");
  EXPECT_EQ(complete[1].id, complete[0].id + 1);
  EXPECT_EQ(name_of(seen, complete[1]), "");
  EXPECT_EQ(complete[2].id, of_kind(seen, Kind::group)[0].id);
  EXPECT_EQ(complete[0].count, 0U);
  EXPECT_EQ(complete[1].count, 0U);
  EXPECT_EQ(complete[2].count, 6U);
  const auto end_of = [&](Kind kind) {
    std::int64_t last = 0;
    for (const TraceEvent& event : of_kind(seen, kind)) last = std::max(last, event.begin_ns + event.took_ns);
    return last;
  };
  EXPECT_GE(complete[0].begin_ns + 2000, end_of(Kind::node));
  EXPECT_GE(complete[1].begin_ns + 2000, end_of(Kind::spawned));
  EXPECT_GE(complete[2].begin_ns + 2000, end_of(Kind::group));
  EXPECT_GE(of_kind(seen, Kind::wait).size(), 3U);
  EXPECT_EQ(of_kind(seen, Kind::park).size(), 1U);
  EXPECT_GE(of_kind(seen, Kind::lease).size(), 1U);
  for (const Kind kind : {Kind::define, Kind::compile}) {
    ASSERT_EQ(of_kind(seen, kind).size(), 1U);
    EXPECT_EQ(name_of(seen, of_kind(seen, kind)[0]), "other");
    EXPECT_FALSE(of_kind(seen, kind)[0].failed);
  }
  EXPECT_LE(of_kind(seen, Kind::define)[0].begin_ns, of_kind(seen, Kind::compile)[0].begin_ns);
  EXPECT_GE(of_kind(seen, Kind::hand_over).size(), 1U);
  ASSERT_EQ(of_kind(seen, Kind::mark).size(), 1U);
  EXPECT_EQ(name_of(seen, of_kind(seen, Kind::mark)[0]), "here it begins");
  expect_sound(seen);
}

TEST_P(TraceTest, MarksDefinitionsThatFail) {
  Runtime runtime(options());
  const Trace seen = trace(runtime, [&] {
    const std::string source = "DWELL_OPERATOR(broken)(dwell::Group) { what }\n";
    EXPECT_THROW(runtime.define("broken", source), Error);
    EXPECT_THROW(runtime.define_async("broken", source).get(), Error);
    runtime.define_async("whole", "DWELL_OPERATOR(whole)(dwell::Group) {}\n").get();
  });
  const std::vector<TraceEvent> defined = of_kind(seen, Kind::define);
  ASSERT_EQ(defined.size(), 3U);
  for (const TraceEvent& one : defined) EXPECT_EQ(one.failed, name_of(seen, one) == "broken");
  const std::vector<TraceEvent> compiled = of_kind(seen, Kind::compile);
  ASSERT_EQ(compiled.size(), 3U);
  for (const TraceEvent& one : compiled) EXPECT_EQ(one.failed, name_of(seen, one) == "broken");
  expect_sound(seen);
}

TEST_P(TraceTest, MarksTasksThatHaveFailed) {
  Runtime runtime(options());
  const auto works = runtime.define<void(u64)>("works", kWorks);
  const auto fails = runtime.define<void()>("fails", "DWELL_OPERATOR(fails)(dwell::Group g) { g.fail(7); }\n");
  const Trace seen = trace(runtime, [&] {
    for (int i = 0; i < 20; ++i) {
      runtime.submit(works, 1000ULL).wait();
      EXPECT_EQ(runtime.submit(fails).status(), 7);
      runtime.submit(works, 1000ULL, groups(2)).wait();
    }
  });
  int failed = 0;
  for (const TraceEvent& event : seen.events) {
    if (!is_call(event)) continue;
    EXPECT_EQ(event.failed, name_of(seen, event).starts_with("fails")) << name_of(seen, event);
    failed += event.failed ? 1 : 0;
  }
  EXPECT_EQ(failed, 20);
  expect_sound(seen);
}

TEST_P(TraceTest, ShowsTheSourcesOfTasks) {
  Options given = options();
  if (on_cpu()) given.workers = 4;
  Runtime runtime(given);
  const auto works = runtime.define<void(u64)>("works", kWorks);
  // Two workers run nodes of each stage, so one of them has taken its own.
  const auto meet = runtime.define<Meet>("meet", kMeet);
  constexpr u32 kStages = 20;
  const auto there = filled<u32>(runtime, kStages, 0);
  Graph graph;
  Node last = graph.add(works, 1000ULL);
  for (u32 i = 0; i < kStages; ++i) {
    Node join = graph.add(works, 1000ULL);
    for (int k = 0; k < 4; ++k) join.after(graph.add(meet, there, i).after(last));
    last = join;
  }
  const GraphExec exec = runtime.instantiate(graph);
  Metrics done;
  const Trace seen = trace(runtime, [&] {
    const Metrics before = runtime.metrics();
    for (int i = 0; i < 50; ++i) runtime.submit(works, 1000ULL);
    runtime.submit(works, 1000ULL, groups(6));
    runtime.launch(exec).wait();
    runtime.wait_all();
    done = difference(runtime.metrics(), before);
  });
  EXPECT_EQ(seen.dropped, 0U);
  std::map<std::uint32_t, std::uint64_t> fetched;  // by worker
  std::set<std::uint64_t> slots;
  for (const TraceEvent& event : of_kind(seen, Kind::fetch)) {
    fetched[event.worker] += event.count;
    for (std::uint64_t i = 0; i < event.count; ++i) EXPECT_TRUE(slots.insert(event.id + i).second) << event.id + i << " twice";
  }
  for (std::uint32_t i = 0; i < done.workers.size(); ++i) EXPECT_GE(fetched[i], done.workers[i].fetched) << "worker " << i;
  for (const Kind kind : {Kind::task, Kind::group})
    for (const TraceEvent& event : of_kind(seen, kind)) EXPECT_TRUE(slots.contains(event.id)) << event.id;
  // A node runs on the worker that fetched it.
  std::map<std::uint64_t, TraceEvent> nodes;
  for (const TraceEvent& event : of_kind(seen, Kind::node)) nodes[event.id] = event;
  const std::vector<TraceEvent> taken = of_kind(seen, Kind::take);
  EXPECT_GE(taken.size(), 1U);
  std::uint64_t ran = 0;
  for (const TraceEvent& event : taken) {
    const auto node = nodes.find(event.id);
    if (node == nodes.end()) continue;  // a share of the launch
    EXPECT_EQ(node->second.worker, event.worker);
    EXPECT_GE(node->second.begin_ns + 2000, event.begin_ns);
    ++ran;
  }
  EXPECT_GE(ran, 1U);
}

TEST_P(TraceTest, ShowsHowLongGroupsWaitAtBarriers) {
  Options given = options();
  if (on_cpu()) given.workers = 4;
  Runtime runtime(given);
  const auto steps = runtime.define<void(u32)>("steps", R"(
DWELL_OPERATOR(steps)(dwell::Group g, dwell::u32 count) {
  const dwell::Gang gang = g.gang();
  for (dwell::u32 i = 0; i < count; ++i) {
    const dwell::u64 begun = dwell::device::now_ns();
    while (dwell::device::now_ns() - begun < (gang.rank() == i % gang.size() ? 20000 : 0)) {}
    gang.sync();
  }
  gang.sync(3, gang.size());
  gang.sync_neighbours((gang.rank() + 1) % gang.size());
}
)");
  constexpr std::uint32_t kSteps = 8;
  const u32 groups = std::min(runtime.info().workers, 3U);
  ASSERT_GT(groups, 1U);
  std::uint64_t position = 0;
  const Trace seen = trace(runtime, [&] {
    const Ticket ticket = runtime.submit(steps, kSteps, gang(groups));
    ticket.wait();
    position = ticket.position();
  });
  EXPECT_EQ(seen.dropped, 0U);
  std::map<std::uint32_t, std::vector<TraceEvent>> barriers;  // by worker
  std::map<std::uint32_t, TraceEvent> calls;
  for (const TraceEvent& event : of_kind(seen, Kind::barrier)) barriers[event.worker].push_back(event);
  for (const TraceEvent& event : of_kind(seen, Kind::group)) calls[event.worker] = event;
  ASSERT_EQ(barriers.size(), groups);
  for (const auto& [worker, all] : barriers) {
    ASSERT_EQ(all.size(), kSteps + 2);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(name_of(seen, all[i]), i < kSteps ? "sync" : i == kSteps ? "sync, barrier 3" : "sync_neighbours");
      EXPECT_EQ(all[i].id, position);
      EXPECT_GE(all[i].begin_ns + 2000, calls[worker].begin_ns);
      EXPECT_LE(all[i].begin_ns + all[i].took_ns, calls[worker].begin_ns + calls[worker].took_ns + 2000);
    }
  }
  std::int64_t longest = 0;
  for (std::uint32_t i = 0; i < kSteps; ++i) {
    std::int64_t last_come = 0;
    std::int64_t first_gone = std::numeric_limits<std::int64_t>::max();
    for (const auto& [worker, all] : barriers) {
      last_come = std::max(last_come, all[i].begin_ns);
      first_gone = std::min(first_gone, all[i].begin_ns + all[i].took_ns);
      longest = std::max(longest, all[i].took_ns);
    }
    EXPECT_LE(last_come, first_gone + 2000) << "step " << i;
  }
  // Over all steps: if the slow thread is preempted itself, both may arrive together.
  EXPECT_GE(longest, 10'000) << "one of them comes late";
}

// The arrows between nodes as "NODE CALL -> NODE CALL", for example "a: works (version 1) 0 -> b: works (version 1) 0"; "launch 0 -> a:
// works (version 1) 0" from the begin of a launch.
std::vector<std::string> node_arrows(const Trace& trace) {
  std::vector<TraceEvent> nodes = of_kind(trace, Kind::node);
  std::ranges::copy(of_kind(trace, Kind::begin), std::back_inserter(nodes));
  std::ranges::sort(nodes, {}, &TraceEvent::begin_ns);
  std::map<std::uint64_t, std::pair<std::string, TraceEvent>> by_number;
  std::map<std::string, int> calls;
  for (const TraceEvent& node : nodes) {
    const std::string name = node.kind == Kind::begin ? "launch" : name_of(trace, node);
    by_number[node.number] = {name + ' ' + std::to_string(calls[name]++), node};
  }
  EXPECT_EQ(by_number.size(), nodes.size());
  std::vector<std::string> arrows;
  for (const TraceArrow& arrow : trace.arrows) {
    if (!arrow.of_nodes) continue;
    const auto& [name, from] = std::prev(by_number.upper_bound(arrow.from))->second;
    EXPECT_LT(arrow.from, from.number + from.arrows);
    const auto& [behind, to] = by_number.at(arrow.to);
    EXPECT_GE(to.begin_ns, from.begin_ns + (from.kind == Kind::begin ? 0 : from.took_ns));
    arrows.push_back(name + " -> " + behind);
  }
  return arrows;
}

TEST_P(TraceTest, NodesFollowTheirPredecessors) {
  Runtime runtime(options());
  const auto works = runtime.define<void(u64)>("works", kWorks);
  Graph pair;
  pair.add("left", works, 2000ULL);
  pair.add("right", works, 1000ULL);
  Graph graph;
  const Node first = graph.add("first", works, 1000ULL);
  const Node middle = graph.add("middle", pair).after(first);  // between two control nodes
  const Node host = graph.add_host("host", [] {}).after(middle);
  graph.add(works, 1000ULL).after(host, first);
  const GraphExec exec = runtime.instantiate(graph);
  constexpr int kLaunches = 30;
  const Trace seen = trace(runtime, [&] {
    for (int i = 0; i < kLaunches; ++i) runtime.launch(exec);
    runtime.wait_all();
  });
  ASSERT_EQ(seen.dropped, 0U);
  std::vector<std::string> expected;
  for (int i = 0; i < kLaunches; ++i) {
    const std::string call = " " + std::to_string(i);
    const std::string begin = "first: works (version 1)" + call;
    const std::string left = "middle/left: works (version 1)" + call;
    const std::string right = "middle/right: works (version 1)" + call;
    const std::string last = "works (version 1)" + call;
    expected.push_back("launch" + call + " -> " + begin);
    for (const std::string& one : {left, right}) {
      expected.push_back(begin + " -> " + one);
      expected.push_back(one + " -> " + last);
    }
    expected.push_back(begin + " -> " + last);
  }
  EXPECT_THAT(node_arrows(seen), testing::UnorderedElementsAreArray(expected));
  // A launch by the host is joined to its begin by its position.
  std::map<std::uint64_t, TraceEvent> begins;
  for (const TraceEvent& begin : of_kind(seen, Kind::begin)) EXPECT_TRUE(begins.emplace(begin.id, begin).second);
  ASSERT_EQ(begins.size(), kLaunches);
  for (const TraceEvent& launch : of_kind(seen, Kind::launch)) {
    ASSERT_TRUE(begins.contains(launch.id));
    EXPECT_GE(begins[launch.id].begin_ns + 5000, launch.begin_ns) << "as far as the clocks may be apart";
  }
}

TEST_P(TraceTest, NodesOfALoopFollowThoseOfTheSameRound) {
  Runtime runtime(options());
  const auto works = runtime.define<void(u64)>("works", kWorks);
  const auto count = runtime.define<void(Span<u32>)>("count", R"(
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<dwell::u32> left) { if (g.rank() == 0) left[0] = (left[0] + 3) % 4; }
)");
  Buffer<u32> left = runtime.allocate<u32>(1);
  left.write(std::vector<u32>{3});
  Graph body;
  const Node counted = body.add("count", count, left);
  body.add("work", works, 1000ULL).after(counted);
  Graph graph;
  const Node first = graph.add("first", works, 1000ULL);
  const Node loop = graph.add_while("loop", left, body).after(first);
  graph.add("last", count, left).after(loop);  // from 0 to 3
  const GraphExec exec = runtime.instantiate(graph);
  const Trace seen = trace(runtime, [&] {
    for (int i = 0; i < 5; ++i) runtime.launch(exec);
    runtime.wait_all();
  });
  ASSERT_EQ(seen.dropped, 0U);
  std::vector<std::string> expected;
  for (int launch = 0; launch < 5; ++launch) {
    const std::string call = " " + std::to_string(launch);
    expected.push_back("launch" + call + " -> first: works (version 1)" + call);
  }
  for (int round = 0; round < 15; ++round) {
    const std::string call = " " + std::to_string(round);
    expected.push_back("loop/count: count (version 1)" + call + " -> loop/work: works (version 1)" + call);
  }
  EXPECT_THAT(node_arrows(seen), testing::UnorderedElementsAreArray(expected));
}

TEST_P(TraceTest, ArrowsStayWithinTheirLaunch) {
  Runtime runtime(options());
  const auto stamps = runtime.define<void(Span<u64>)>("stamps", R"(
DWELL_OPERATOR(stamps)(dwell::Group g, dwell::Span<dwell::u64> times) {
  if (g.rank() == 0) times[++times[0]] = dwell::device::now_ns();
}
)");
  constexpr std::size_t kNodes = 4;
  constexpr std::size_t kLaunches = kSanitized ? 2'000 : 250'000;
  Buffer<u64> times = runtime.allocate<u64>(kNodes * kLaunches + 1);
  times.write(std::vector<u64>(kNodes * kLaunches + 1));
  Graph graph;
  Node before = graph.add(stamps, times);
  for (std::size_t i = 1; i < kNodes; ++i) before = graph.add(stamps, times).after(before);
  const GraphExec exec = runtime.instantiate(graph);
  std::uint64_t first = 0;  // position of the first launch
  const Trace seen = trace(runtime, [&] {
    first = runtime.launch(exec).position();
    for (std::size_t i = 1; i < kLaunches; ++i) runtime.launch(exec);
    runtime.wait_all();
  });
  std::map<std::uint64_t, TraceEvent> by_number;
  for (const TraceEvent& event : seen.events)
    if (event.kind == Kind::node || event.kind == Kind::begin) by_number[event.number] = event;
  std::vector<u64> begun(kNodes * kLaunches + 1);
  times.read(begun);
  begun.erase(begun.begin());
  // The number of an event's call, on the CPU, where workers use the host's clock.
  const auto call = [&](const TraceEvent& event) {
    return std::ranges::lower_bound(begun, static_cast<u64>(event.begin_ns)) - begun.begin();
  };
  std::size_t arrows = 0;
  std::size_t launches = 0;
  for (const TraceArrow& arrow : seen.arrows) {
    if (!arrow.of_nodes) continue;
    ++arrows;
    const TraceEvent& from = std::prev(by_number.upper_bound(arrow.from))->second;
    const TraceEvent& to = by_number.at(arrow.to);
    if (from.kind == Kind::begin) {
      ++launches;
      if (on_cpu()) {
        ASSERT_EQ(call(to) % kNodes, 0U) << "the first node";
        ASSERT_EQ(call(to) / kNodes, from.id - first) << "of this launch";
      }
      continue;
    }
    ASSERT_EQ(to.id, from.id + 1) << "they lie behind each other";
    if (on_cpu()) {
      ASSERT_EQ(call(to), call(from) + 1);
    }
  }
  EXPECT_GT(arrows, launches);
  EXPECT_GT(launches, 0U);
}

TEST_P(TraceTest, DroppedEventsAreCounted) {
  Runtime runtime(options());
  const auto nothing = runtime.define<void()>("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}\n");
  constexpr std::uint64_t kTasks = kSanitized ? 20'000 : 1'000'000;
  const Trace seen = trace(runtime, [&] {
    runtime.submit_many(nothing, kTasks, [](std::size_t, auto put) { put(); });
    runtime.wait_all();
  });
  const std::uint64_t shown = of_kind(seen, Kind::task).size();
  // Counts events of all kinds: a task is fetched at most once, and taken at most once.
  const std::uint64_t leases = of_kind(seen, Kind::lease).size();
  EXPECT_LE(shown, kTasks);
  EXPECT_GE(shown + seen.dropped, kTasks);
  EXPECT_LE(shown + seen.dropped, 3 * kTasks + 2 * leases + 10'000);
  expect_sound(seen);
}

TEST_P(TraceTest, OneTraceAtATime) {
  Runtime runtime(options());
  const auto works = runtime.define<void(u64)>("works", kWorks);
  for (int round = 0; round < 3; ++round) {
    const Trace seen = trace(runtime, [&] {
      expect_error(errc::invalid_argument, HasSubstr("already"), [&] { static_cast<void>(runtime.trace(1ms)); });
      for (int i = 0; i < 10; ++i) runtime.submit(works, 1000ULL);
      runtime.wait_all();
    });
    EXPECT_EQ(of_kind(seen, Kind::task).size(), 10U) << "round " << round;
  }
  std::atomic<bool> over{false};
  std::thread submitter([&] {
    while (!over.load()) runtime.submit(works, 1000ULL).wait();
  });
  const Trace kept = runtime.trace(100ms);
  over.store(true);
  submitter.join();
  EXPECT_GT(of_kind(kept, Kind::task).size(), 0U);
  runtime.stop_trace();  // no effect
  expect_error(errc::invalid_argument, HasSubstr("negative"), [&] { static_cast<void>(runtime.trace(-1ns)); });
  expect_error(errc::invalid_argument, HasSubstr("null"), [&] { runtime.start_trace(nullptr); });
}

TEST_P(TraceTest, EndsWithTheRuntime) {
  auto runtime = std::make_unique<Runtime>(options());
  const auto works = runtime->define<void(u64)>("works", kWorks);
  class Writer : public TraceWriter {
   public:
    void write(const Trace&) override { EXPECT_FALSE(finished); }
    void finish() override { finished = true; }
    bool finished = false;
  };
  const auto writer = std::make_shared<Writer>();
  runtime->start_trace(writer);
  for (int i = 0; i < 10; ++i) runtime->submit(works, 1000ULL);
  runtime.reset();
  EXPECT_TRUE(writer->finished);
}

}  // namespace
}  // namespace dwell::test
