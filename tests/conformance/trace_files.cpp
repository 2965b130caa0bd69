// Timelines read back from files: both formats show each call once, in order, with both ends of each arrow.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "jit/base/temporary_directory.hpp"
#include "tests/conformance/suite.hpp"
#include "tests/unit/perfetto_view.hpp"

namespace dwell::test {
namespace {

constexpr const char* kBusy = R"(
DWELL_OPERATOR(busy)(dwell::Group, dwell::u64 ns) {
  const dwell::u64 begun = dwell::device::now_ns();
  while (dwell::device::now_ns() - begun < ns) {}
}
)";

// Passes each piece to both writers.
class Both : public TraceWriter {
 public:
  Both(std::unique_ptr<TraceWriter> first, std::unique_ptr<TraceWriter> second) : first_(std::move(first)), second_(std::move(second)) {}
  void write(const Trace& piece) override {
    first_->write(piece);
    second_->write(piece);
  }
  void finish() override {
    first_->finish();
    second_->finish();
  }

 private:
  std::unique_ptr<TraceWriter> first_, second_;
};

// A timed event, as shown by a file.
struct Shown {
  std::string track, name, category;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t id = 0;

  // "task 7", "first: busy (version 1)".
  std::string text() const { return category == "node" ? name : category + " " + std::to_string(id); }
};
struct File {
  std::vector<Shown> events;
  std::vector<std::pair<Shown, Shown>> arrows;
  std::uint64_t loose_ends = 0;  // of arrows without a second end
  double dropped = 0;
};

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The end of an arrow joins the event that begins at its time. The start joins the event that ends then or, for a submission, begins then.
// The format only requires an event that is open at the time.
File of_chrome(const std::filesystem::path& path) {
  using nlohmann::json;
  File file;
  const json root = json::parse(content(path));
  file.dropped = root["otherData"]["dropped"].get<double>();
  const auto ns_of = [](const json& microseconds) { return std::llround(microseconds.get<double>() * 1000); };
  std::map<std::uint64_t, std::string> tracks;
  std::map<std::uint64_t, std::vector<Shown>> by_thread;
  for (const json& event : root["traceEvents"]) {
    const auto thread = event["tid"].get<std::uint64_t>();
    if (event["ph"] == "M" && event["name"] == "thread_name") tracks[thread] = event["args"]["name"];
    if (event["ph"] != "X" && event["ph"] != "i") continue;
    EXPECT_TRUE(tracks.contains(thread)) << "named before its first event";
    Shown shown{tracks[thread], event["name"], event["cat"], ns_of(event["ts"]), ns_of(event["ts"]), 0};
    if (event.contains("dur")) shown.end += ns_of(event["dur"]);
    if (event["args"].contains("id")) shown.id = event["args"]["id"];
    file.events.push_back(shown);
    by_thread[thread].push_back(shown);
  }
  // By kind of arrow: the categories of events at its start and its end.
  const std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> joins = {{"submit", {{"submit"}, {"task"}}},
                                                                                                {"after", {{"task"}, {"task"}}},
                                                                                                {"launch", {{"launch"}, {"begin"}}},
                                                                                                {"complete", {{"begin"}, {"complete"}}},
                                                                                                {"edge", {{"node", "begin"}, {"node"}}}};
  std::map<std::pair<std::string, std::uint64_t>, std::pair<std::vector<Shown>, std::vector<Shown>>> ends;
  for (const json& event : root["traceEvents"]) {
    const bool begins = event["ph"] == "s";
    if (!begins && event["ph"] != "f") continue;
    const std::string kind = event["cat"];
    const std::int64_t at = ns_of(event["ts"]);
    const std::set<std::string>& categories = begins ? joins.at(kind).first : joins.at(kind).second;
    std::vector<Shown> joined;
    for (const Shown& shown : by_thread[event["tid"].get<std::uint64_t>()]) {
      const bool behind = begins && (kind == "after" || kind == "edge");
      if (categories.contains(shown.category) && at == (behind ? shown.end - 1 : shown.begin)) joined.push_back(shown);
    }
    EXPECT_EQ(joined.size(), 1U) << event;
    auto& [from, to] = ends[{kind, event["id"].get<std::uint64_t>()}];
    (begins ? from : to).insert((begins ? from : to).end(), joined.begin(), joined.end());
  }
  for (const auto& [arrow, both] : ends) {
    if (both.first.size() == 1 && both.second.size() == 1)
      file.arrows.emplace_back(both.first[0], both.second[0]);
    else
      ++file.loose_ends;
  }
  return file;
}

File of_perfetto(const std::filesystem::path& path) {
  File file;
  const perfetto::View view = perfetto::view_of(content(path), 0);
  EXPECT_EQ(view.open, 0U);
  std::map<std::uint64_t, std::pair<std::vector<Shown>, std::vector<Shown>>> ends;
  for (const perfetto::TrackSlice& slice : view.slices) {
    const auto id = slice.annotations.find("id");
    const Shown shown{slice.track, slice.name, slice.category, slice.begin, slice.end, id == slice.annotations.end() ? 0 : id->second};
    file.events.push_back(shown);
    for (const std::uint64_t flow : slice.flows) ends[flow].first.push_back(shown);
    for (const std::uint64_t flow : slice.ending_flows) ends[flow].second.push_back(shown);
  }
  for (const auto& [flow, both] : ends) {
    if (both.first.size() == 1 && both.second.size() == 1)
      file.arrows.emplace_back(both.first[0], both.second[0]);
    else
      ++file.loose_ends;
  }
  if (const auto dropped = view.counters.find("dropped events"); dropped != view.counters.end()) file.dropped = dropped->second.back();
  return file;
}

std::vector<Shown> of_category(const File& file, const std::string& category) {
  std::vector<Shown> all;
  std::ranges::copy_if(file.events, std::back_inserter(all), [&](const Shown& event) { return event.category == category; });
  return all;
}

class TraceFilesTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(TraceFilesTest);

TEST_P(TraceFilesTest, BothFormatsShowCallsInOrder) {
  constexpr std::int64_t kClocks = 5000;  // the largest difference between clocks of workers and host
  constexpr u32 kTasks = 30;
  constexpr u32 kLaunches = 3;
  constexpr u32 kMade = 5;
  const jit::TemporaryDirectory folder;
  const std::filesystem::path json = folder.path() / "work.json";
  const std::filesystem::path pftrace = folder.path() / "work.pftrace";
  Runtime runtime(options());
  const auto busy = runtime.define<void(u64)>("busy", kBusy);
  const auto hold = runtime.define<Hold>("hold", kHold);
  const auto spawn_busy = runtime.define<void(u32)>("spawn_busy", R"(
DWELL_USES(busy, dwell::u64)
DWELL_OPERATOR(spawn_busy)(dwell::Group g, dwell::u32 count) {
  for (dwell::u32 i = 0; i < count; ++i) g.spawn(uses::busy, dwell::u64{2000});
}
)");
  Graph graph;
  const Node first = graph.add("first", busy, 2000ULL);
  const Node left = graph.add("left", busy, 3000ULL).after(first);
  const Node right = graph.add("right", busy, 2000ULL).after(first);
  graph.add("last", busy, 2000ULL).after(left, right);
  const GraphExec exec = runtime.instantiate(graph);
  Latch latch(runtime);

  std::map<std::uint64_t, std::string> tasks;  // by position
  std::vector<std::string> expected;           // arrows
  runtime.start_trace(std::make_unique<Both>(trace_file(json), trace_file(pftrace)));
  const auto submitted = [&](const Ticket& ticket, const std::string& name) {
    tasks[ticket.position()] = name + " (version 1)";
    const std::string at = std::to_string(ticket.position());
    expected.push_back("submit " + at + " -> task " + at);
    return ticket;
  };
  // Held until all are submitted: an arrow is omitted if its first task has already been written when the second is submitted.
  Ticket before = submitted(runtime.submit(hold, latch.words()), "hold");
  for (u32 i = 1; i < kTasks; ++i) {
    const Ticket next = i % 2 == 0 ? runtime.submit(busy, 2000ULL, link) : runtime.submit(busy, 2000ULL, after(before));
    submitted(next, "busy");
    expected.push_back("task " + std::to_string(before.position()) + " -> task " + std::to_string(next.position()));
    before = next;
  }
  latch.release();
  before.wait();
  for (u32 i = 0; i < kLaunches; ++i) {
    const Ticket ticket = runtime.launch(exec);
    const std::string at = std::to_string(ticket.position());
    expected.push_back("launch " + at + " -> begin " + at);
    expected.push_back("begin " + at + " -> complete " + at);
    expected.push_back("begin " + at + " -> first: busy (version 1)");
    for (const char* const edge : {"first left", "first right", "left last", "right last"}) {
      const std::string both = edge;
      const std::size_t space = both.find(' ');
      expected.push_back(both.substr(0, space) + ": busy (version 1) -> " + both.substr(space + 1) + ": busy (version 1)");
    }
    ticket.wait();
  }
  submitted(runtime.submit(spawn_busy, kMade), "spawn_busy").wait();
  runtime.wait_all();
  runtime.stop_trace();

  for (const bool chrome : {true, false}) {
    SCOPED_TRACE(chrome ? json : pftrace);
    const File file = chrome ? of_chrome(json) : of_perfetto(pftrace);
    EXPECT_EQ(file.dropped, 0) << "a ring holds more events than these";
    std::map<std::uint64_t, std::string> ran;
    for (const Shown& task : of_category(file, "task")) EXPECT_TRUE(ran.emplace(task.id, task.name).second) << "twice: " << task.text();
    EXPECT_EQ(ran, tasks);
    std::map<std::string, u32> nodes;
    for (const Shown& node : of_category(file, "node")) ++nodes[node.name];
    EXPECT_EQ(nodes, (std::map<std::string, u32>{{"first: busy (version 1)", kLaunches},
                                                 {"left: busy (version 1)", kLaunches},
                                                 {"right: busy (version 1)", kLaunches},
                                                 {"last: busy (version 1)", kLaunches}}));
    const std::vector<Shown> made = of_category(file, "spawned");
    EXPECT_EQ(made.size(), kMade);
    for (const Shown& task : made) EXPECT_EQ(task.name, "busy (version 1)");

    // Calls on a worker do not overlap, within the steps of the device's clock of less than 2 us.
    std::map<std::string, std::vector<Shown>> calls;
    for (const Shown& event : file.events) {
      EXPECT_GE(event.end, event.begin) << event.text();
      if (event.category == "task" || event.category == "node" || event.category == "spawned") calls[event.track].push_back(event);
    }
    for (auto& [track, events] : calls) {
      EXPECT_TRUE(track.starts_with("worker ")) << track;
      std::ranges::sort(events, {}, &Shown::begin);
      for (std::size_t i = 1; i < events.size(); ++i)
        EXPECT_GE(events[i].begin + 2000, events[i - 1].end) << track << ": " << events[i - 1].text() << ", " << events[i].text();
    }

    EXPECT_EQ(file.loose_ends, 0U);
    std::vector<std::string> arrows;
    for (const auto& [from, to] : file.arrows) {
      arrows.push_back(from.text() + " -> " + to.text());
      const bool is_call = from.category == "task" || from.category == "node";
      EXPECT_GE(to.begin + kClocks, is_call ? from.end : from.begin) << arrows.back();
    }
    EXPECT_THAT(arrows, testing::UnorderedElementsAreArray(expected));
  }
}

TEST_P(TraceFilesTest, FullDiskEndsOnlyTheTrace) {
  const std::filesystem::path full = "/dev/full";
  if (!std::filesystem::exists(full)) GTEST_SKIP() << "no " << full;
  Runtime runtime(options());
  const auto busy = runtime.define<void(u64)>("busy", kBusy);
  runtime.start_trace(trace_file(full));
  for (int i = 0; i < 100; ++i) runtime.submit(busy, 1000ULL);
  runtime.wait_all();
  expect_error(errc::io_failed, AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")), [&] { runtime.stop_trace(); });
  runtime.submit(busy, 1000ULL).wait();
  // A new trace may follow.
  const jit::TemporaryDirectory folder;
  runtime.start_trace(trace_file(folder.path() / "work.json"));
  runtime.submit(busy, 1000ULL).wait();
  runtime.stop_trace();
  EXPECT_EQ(of_category(of_chrome(folder.path() / "work.json"), "task").size(), 1U);
}

}  // namespace
}  // namespace dwell::test
