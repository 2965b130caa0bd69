#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <dwell/trace.hpp>

#include "tests/unit/sample_trace.hpp"

namespace dwell {
namespace {

using nlohmann::json;
using test::kTraceStart;
using EventKind = TraceEvent::Kind;

json written(const std::vector<Trace>& pieces) {
  std::ostringstream out;
  const auto writer = chrome_writer(out);
  for (const Trace& piece : pieces) writer->write(piece);
  writer->finish();
  return json::parse(out.str());
}

// The events with these fields.
std::vector<json> find(const json& trace, const json& fields) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    json patched = event;
    patched.update(fields, true);
    if (patched == event) found.push_back(event);
  }
  return found;
}
json only(const json& trace, const json& fields) {
  const std::vector<json> found = find(trace, fields);
  EXPECT_EQ(found.size(), 1U) << fields;
  return found.empty() ? json() : found[0];
}
// Nanoseconds since kTraceStart.
std::int64_t ns_of(const json& microseconds) { return std::llround(microseconds.get<double>() * 1000) - kTraceStart; }

TEST(ChromeTrace, EmptyTraceIsValid) {
  const json trace = written({});
  EXPECT_TRUE(trace["traceEvents"].empty());
  EXPECT_EQ(trace["otherData"]["dropped"], 0);
}

TEST(ChromeTrace, InvalidUtf8InNamesIsReplaced) {
  std::vector<Trace> pieces = test::sample_trace();
  for (Trace& piece : pieces)
    piece.names[0] =
        "gr\xF6\xDF"
        "e";
  EXPECT_EQ(find(written(pieces), {{"ph", "X"},
                                   {"name",
                                    "gr\xEF\xBF\xBD\xEF\xBF\xBD"
                                    "e"}})
                .size(),
            1U);
}

TEST(ChromeTrace, ThreadsAndWorkersHaveNames) {
  const json trace = written(test::sample_trace());
  EXPECT_EQ(only(trace, {{"ph", "M"}, {"name", "process_name"}})["args"]["name"], "dwell cuda:0 runtime 1");
  std::map<std::string, json> threads;
  for (const json& name : find(trace, {{"ph", "M"}, {"name", "thread_name"}})) threads[name["args"]["name"]] = name["tid"];
  EXPECT_THAT(threads, testing::ElementsAre(testing::Key("thread 77"), testing::Key("thread 78"), testing::Key("worker 0"),
                                            testing::Key("worker 3")));
  EXPECT_EQ(threads["thread 77"], 77);
  EXPECT_EQ(only(trace, {{"ph", "X"}, {"cat", "lease"}, {"args", {{"id", 40}}}})["tid"], threads["worker 3"]);
}

TEST(ChromeTrace, SlicesHaveTheirTimesToTheNanosecond) {
  const json trace = written(test::sample_trace());
  const json task = only(trace, {{"ph", "X"}, {"cat", "task"}, {"args", {{"id", 7}}}});
  EXPECT_EQ(task["name"], "add (version 2)");
  EXPECT_EQ(ns_of(task["ts"]), 300);
  EXPECT_EQ(task["dur"], 0.5);
  EXPECT_FALSE(task.contains("cname"));
  EXPECT_EQ(only(trace, {{"ph", "X"}, {"cat", "task"}, {"args", {{"id", 9}}}})["dur"], 0.01);
  EXPECT_EQ(task["args"], json({{"id", 7}}));
  const json fetch = only(trace, {{"cat", "fetch"}});
  EXPECT_EQ(fetch["name"], "fetch");
  EXPECT_EQ(ns_of(fetch["ts"]), 100);
  EXPECT_EQ(fetch["args"], json({{"id", 7}, {"count", 2}}));
}

TEST(ChromeTrace, FailedSlicesAreRed) {
  const json task = only(written(test::sample_trace()), {{"ph", "X"}, {"cat", "task"}, {"args", {{"id", 8}}}});
  EXPECT_EQ(task["name"], "say \"\xC2\xB5s\"\n");
  EXPECT_EQ(task["cname"], "terrible");
  EXPECT_EQ(task["args"]["failed"], true);
}

TEST(ChromeTrace, ZeroDurationIsAnInstant) {
  const json trace = written(test::sample_trace());
  EXPECT_EQ(find(trace, {{"ph", "i"}, {"s", "t"}, {"cat", "mark"}, {"tid", 78}}).size(), 2U);
  EXPECT_EQ(only(trace, {{"ph", "i"}, {"cat", "node"}})["args"]["id"], 2);
}

TEST(ChromeTrace, SubmissionsFlowToTheirTasks) {
  const json trace = written(test::sample_trace());
  for (const int position : {7, 8, 9}) {
    const json start = only(trace, {{"ph", "s"}, {"id", position}});
    const json finish = only(trace, {{"ph", "f"}, {"id", position}});
    EXPECT_EQ(start["tid"], 77);
    EXPECT_EQ(finish["bp"], "e");
    EXPECT_EQ(finish["ts"], only(trace, {{"ph", "X"}, {"cat", "task"}, {"args", {{"id", position}}}})["ts"]);
    EXPECT_EQ(start["name"], finish["name"]) << "ends of an arrow have one name and one category";
    EXPECT_EQ(start["cat"], finish["cat"]);
  }
  EXPECT_EQ(find(trace, {{"ph", "s"}}).size(), 3U);
}

TEST(ChromeTrace, TasksFlowToTheirWaiters) {
  std::vector<Trace> pieces = test::sample_trace();
  pieces[0].arrows = {{7, 8}, {8, 9}, {6, 7}};
  const json trace = written(pieces);
  const json start = only(trace, {{"ph", "s"}, {"cat", "after"}, {"id", 1}});
  const json finish = only(trace, {{"ph", "f"}, {"cat", "after"}, {"id", 1}});
  EXPECT_EQ(finish["ts"], only(trace, {{"ph", "X"}, {"cat", "task"}, {"args", {{"id", 8}}}})["ts"]);
  const json before = only(trace, {{"ph", "X"}, {"cat", "task"}, {"args", {{"id", 7}}}});
  EXPECT_GE(start["ts"], before["ts"]);
  EXPECT_LT(start["ts"], before["ts"].get<double>() + before["dur"].get<double>()) << "inside of the slice";
  EXPECT_EQ(find(trace, {{"ph", "s"}, {"cat", "after"}}).size(), 2U) << "nobody knows task 6";
  EXPECT_EQ(find(trace, {{"ph", "f"}, {"cat", "after"}}).size(), 2U);
}

TEST(ChromeTrace, NodesFlowToTheirSuccessors) {
  const json trace = written(test::node_trace());
  EXPECT_EQ(find(trace, {{"ph", "f"}, {"cat", "edge"}}).size(), 3U);
  for (const int number : {1, 2, 3}) {
    const json start = only(trace, {{"ph", "s"}, {"cat", "edge"}, {"id", number}});
    const json finish = only(trace, {{"ph", "f"}, {"cat", "edge"}, {"id", number}});
    EXPECT_EQ(ns_of(start["ts"]), number == 3 ? 249 : 99) << "inside of the slice";
    EXPECT_EQ(ns_of(finish["ts"]), number == 2 ? 150 : 300);
    EXPECT_EQ(start["name"], finish["name"]);
  }
}

TEST(ChromeTrace, ALaunchFlowsToItsFirstNodesAndItsEnd) {
  const json trace = written(test::launch_trace());
  EXPECT_EQ(ns_of(only(trace, {{"ph", "s"}, {"cat", "launch"}, {"id", 9}})["ts"]), 0);
  EXPECT_EQ(ns_of(only(trace, {{"ph", "f"}, {"cat", "launch"}, {"id", 9}})["ts"]), 100);
  EXPECT_EQ(ns_of(only(trace, {{"ph", "s"}, {"cat", "complete"}, {"id", 9}})["ts"]), 100);
  EXPECT_EQ(ns_of(only(trace, {{"ph", "f"}, {"cat", "complete"}, {"id", 9}})["ts"]), 260);
  EXPECT_EQ(ns_of(only(trace, {{"ph", "X"}, {"cat", "complete"}, {"name", "complete"}, {"args", {{"id", 9}}}})["ts"]), 260);
  EXPECT_EQ(ns_of(only(trace, {{"ph", "s"}, {"cat", "edge"}, {"id", 1}})["ts"]), 119) << "inside of the slice";
  EXPECT_EQ(ns_of(only(trace, {{"ph", "f"}, {"cat", "edge"}, {"id", 1}})["ts"]), 150);
}

TEST(ChromeTrace, ASubmissionFlowsToTheEndOfATaskOfSeveralGroups) {
  const json trace = written(test::launch_trace());
  EXPECT_EQ(ns_of(only(trace, {{"ph", "s"}, {"cat", "submit"}, {"id", 10}})["ts"]), 300);
  EXPECT_EQ(ns_of(only(trace, {{"ph", "f"}, {"cat", "submit"}, {"id", 10}})["ts"]), 440);
  EXPECT_EQ(find(trace, {{"ph", "f"}, {"cat", "complete"}}).size(), 1U) << "of the launch alone";
}

TEST(ChromeTrace, ReportsDroppedEventsAndClockError) {
  std::vector<Trace> pieces = test::sample_trace();
  pieces[0].dropped = 2;
  EXPECT_EQ(written(pieces)["otherData"], json({{"device", "cuda:0"}, {"runtime", 1}, {"dropped", 7}, {"clock_error_ns", 41.5}}));
}

}  // namespace
}  // namespace dwell
