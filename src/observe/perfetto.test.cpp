#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <dwell/trace.hpp>

#include "observe/protobuf_writer.hpp"
#include "tests/unit/perfetto_view.hpp"
#include "tests/unit/sample_trace.hpp"

namespace dwell {
namespace {

using test::kTraceStart;
using test::perfetto::decoded;
using test::perfetto::Message;
using test::perfetto::track_name;
using test::perfetto::TrackSlice;
using test::perfetto::View;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
using EventKind = TraceEvent::Kind;

View view_of(const std::vector<Trace>& pieces) {
  std::ostringstream out;
  const auto writer = perfetto_writer(out);
  for (const Trace& piece : pieces) writer->write(piece);
  writer->finish();
  View view = test::perfetto::view_of(out.str(), kTraceStart);
  EXPECT_EQ(view.sequence, pieces.at(0).runtime + 1);
  return view;
}

TEST(ProtobufWriter, EncodesAsSpecified) {
  observe::ProtobufWriter writer;
  writer.varint(1, 150);
  writer.text(2, "testing");
  writer.message(3, [&] { writer.varint(1, 150); });
  EXPECT_EQ(writer.bytes(), std::string("\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01"));
}

TEST(ProtobufWriter, LongMessagesInsideMessagesKeepTheirLengths) {
  observe::ProtobufWriter writer;
  writer.message(1, [&] {
    writer.message(60, [&] { writer.text(2, std::string(100'000, 'x')); });
    writer.fixed64(47, ~0ULL);
    writer.number(44, -0.5);
    writer.varint(5, ~0ULL);
  });
  const Message outer = decoded(writer.bytes()).message(1);
  EXPECT_EQ(outer.message(60).text(2).size(), 100'000U);
  EXPECT_EQ(outer.number(47), ~0ULL);
  EXPECT_EQ(outer.real(44), -0.5);
  EXPECT_EQ(outer.number(5), ~0ULL);
}

TEST(Perfetto, WorkersAndThreadsAreTracksOfOneProcess) {
  const View view = view_of(test::sample_trace());
  std::map<std::string, Message> by_name;
  for (const auto& [uuid, descriptor] : view.descriptors) by_name[track_name(descriptor)] = descriptor;
  ASSERT_TRUE(by_name.contains("dwell cuda:0 runtime 1"));
  const Message& process = by_name["dwell cuda:0 runtime 1"];
  EXPECT_EQ(process.message(3).number(1), static_cast<std::uint64_t>(getpid()));
  for (const char* name : {"worker 0", "worker 3", "thread 77", "thread 78", "dropped events"}) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    EXPECT_EQ(by_name[name].number(5), process.number(1)) << name;
  }
  EXPECT_LT(by_name["worker 0"].number(12), by_name["worker 3"].number(12));
  EXPECT_EQ(by_name["worker 3"].number(12) + 1, by_name["worker 3, queues and launches"].number(12));
  EXPECT_EQ(by_name["thread 77"].message(4).number(1), static_cast<std::uint64_t>(getpid()));
  EXPECT_EQ(by_name["thread 77"].message(4).number(2), 77U);
}

TEST(Perfetto, LeasesHoldTheirTasks) {
  const View view = view_of(test::sample_trace());
  EXPECT_EQ(view.open, 0U);
  const TrackSlice& lease = view.slice("lease", 40);
  EXPECT_EQ(lease.track, "worker 3");
  EXPECT_EQ(lease.category, "lease");
  EXPECT_EQ(lease.depth, 0U);
  EXPECT_EQ(lease.begin, 99) << "before the fetch that begins at 100";
  EXPECT_EQ(lease.end, 1100);
  const TrackSlice& fetch = view.slice("fetch", 7);
  EXPECT_EQ(fetch.track, "worker 3, queues and launches");
  EXPECT_EQ(fetch.depth, 0U);
  EXPECT_EQ(fetch.end, 100);
  EXPECT_EQ(fetch.annotations.at("count"), 2U);
  const TrackSlice& seven = view.slice("add (version 2)", 7);
  EXPECT_EQ(seven.depth, 1U);
  EXPECT_EQ(seven.begin, 300);
  EXPECT_EQ(seven.end, 800);
  EXPECT_EQ(seven.category, "task");
  EXPECT_FALSE(seven.annotations.contains("failed"));
  const TrackSlice& eight = view.slice("say \"\xC2\xB5s\"\n", 8);
  EXPECT_EQ(eight.depth, 1U) << "it begins when the one before it ends";
  EXPECT_EQ(eight.begin, 800);
  EXPECT_EQ(eight.end, 1100);
  EXPECT_EQ(eight.annotations.at("failed"), 1U);
  EXPECT_EQ(view.slice("lease", 41).depth, 0U);
  const TrackSlice& nine = view.slice("say \"\xC2\xB5s\"\n", 9);
  EXPECT_EQ(nine.depth, 1U);
  EXPECT_EQ(nine.begin, 2100) << "not behind the barrier that it holds";
  const TrackSlice& barrier = view.slice("sync", 9);
  EXPECT_EQ(barrier.category, "barrier");
  EXPECT_EQ(barrier.begin, 2102);
  EXPECT_EQ(barrier.end, 2107);
}

TEST(Perfetto, SubmissionsFlowToTheirTasks) {
  const View view = view_of(test::sample_trace());
  const TrackSlice& submit = view.slice("submit", 7);
  EXPECT_EQ(submit.track, "thread 77");
  EXPECT_EQ(submit.annotations.at("count"), 2U);
  ASSERT_EQ(submit.flows.size(), 2U);
  EXPECT_THAT(view.slice("add (version 2)", 7).ending_flows, ElementsAre(submit.flows[0]));
  EXPECT_THAT(view.slice("say \"\xC2\xB5s\"\n", 8).ending_flows, ElementsAre(submit.flows[1]));
  EXPECT_EQ(view.slice("say \"\xC2\xB5s\"\n", 9).ending_flows, view.slice("submit", 9).flows);
  EXPECT_THAT(view.slice("fetch", 7).ending_flows, IsEmpty());
}

TEST(Perfetto, TasksFlowToTheirWaiters) {
  std::vector<Trace> pieces = test::sample_trace();
  pieces[0].arrows = {{7, 8}, {7, 9}, {8, 9}, {6, 7}};
  const View view = view_of(pieces);
  const TrackSlice& seven = view.slice("add (version 2)", 7);
  const TrackSlice& eight = view.slice("say \"\xC2\xB5s\"\n", 8);
  const TrackSlice& nine = view.slice("say \"\xC2\xB5s\"\n", 9);
  ASSERT_EQ(seven.flows.size(), 2U);
  ASSERT_EQ(eight.flows.size(), 1U);
  EXPECT_EQ(seven.ending_flows.size(), 1U) << "of its submission: nobody knows task 6";
  EXPECT_THAT(eight.ending_flows, UnorderedElementsAre(seven.flows[0], view.slice("submit", 7).flows[1]));
  EXPECT_THAT(nine.ending_flows, UnorderedElementsAre(seven.flows[1], eight.flows[0], view.slice("submit", 9).flows[0]));
}

TEST(Perfetto, NodesFlowToTheirSuccessors) {
  std::vector<Trace> pieces = test::node_trace();
  const View view = view_of(pieces);
  const TrackSlice& one = view.slice("node", 1);
  const TrackSlice& two = view.slice("node", 2);
  const TrackSlice& three = view.slice("node", 3);
  ASSERT_EQ(one.flows.size(), 2U);
  EXPECT_THAT(one.ending_flows, IsEmpty());
  ASSERT_EQ(two.flows.size(), 1U);
  EXPECT_THAT(two.ending_flows, ElementsAre(one.flows[1]));
  EXPECT_THAT(three.ending_flows, UnorderedElementsAre(one.flows[0], two.flows[0]));
  ASSERT_EQ(view.slice("task", 1).flows.size(), 1U);
  EXPECT_THAT(one.flows, Not(Contains(view.slice("task", 1).flows[0]))) << "its number is another one";
}

TEST(Perfetto, ALaunchFlowsToItsFirstNodesAndItsEnd) {
  const View view = view_of(test::launch_trace());
  const TrackSlice& launch = view.slice("launch", 9);
  const TrackSlice& begin = view.slice("begin", 9);
  EXPECT_EQ(begin.track, "worker 1, queues and launches");
  ASSERT_EQ(launch.flows.size(), 1U);
  ASSERT_EQ(begin.flows.size(), 3U);
  EXPECT_THAT(begin.ending_flows, ElementsAre(launch.flows[0]));
  EXPECT_THAT(view.slice("node", 1).ending_flows, ElementsAre(begin.flows[1]));
  const TrackSlice& complete = view.slice("complete", 9);
  EXPECT_EQ(complete.track, "worker 0, queues and launches");
  EXPECT_THAT(complete.ending_flows, ElementsAre(begin.flows[0]));
  EXPECT_NE(begin.flows[0], launch.flows[0]);
}

TEST(Perfetto, ASubmissionFlowsToTheEndOfATaskOfSeveralGroups) {
  const View view = view_of(test::launch_trace());
  EXPECT_THAT(view.slice("complete", 10).ending_flows, ElementsAre(view.slice("submit", 10).flows[0]));
  EXPECT_THAT(view.slice("group", 10).ending_flows, IsEmpty());
}

TEST(Perfetto, ALargeSubmissionHasFewFlows) {
  Trace trace = test::sample_trace()[0];
  trace.events = {test::host_event(EventKind::submit, 77, 0, 200, 0, 1'000'000)};
  EXPECT_EQ(view_of({trace}).slice("submit", 0).flows.size(), 64U);
}

TEST(Perfetto, ZeroDurationIsAnInstant) {
  const View view = view_of(test::sample_trace());
  const TrackSlice& node = view.slice("add (version 2)", 2);
  EXPECT_EQ(node.track, "worker 0");
  EXPECT_EQ(node.category, "node");
  EXPECT_EQ(node.end, node.begin);
  const auto mark = std::find_if(view.slices.begin(), view.slices.end(), [](const TrackSlice& slice) { return slice.category == "mark"; });
  ASSERT_NE(mark, view.slices.end());
  EXPECT_EQ(mark->name, "mark") << "without a name it is called as its kind";
  EXPECT_EQ(mark->track, "thread 78");
}

TEST(Perfetto, ReportsDroppedEventsAndClockError) {
  std::vector<Trace> pieces = test::sample_trace();
  pieces[0].dropped = 2;
  const View view = view_of(pieces);
  EXPECT_THAT(view.counters.at("dropped events"), ElementsAre(2, 7));
  EXPECT_THAT(view.counters.at("clock error, at most"), ElementsAre(41.5, 12));
}

TEST(Perfetto, APieceWithoutEventsHasNoTimeOfItsOwn) {
  std::vector<Trace> pieces = test::sample_trace();
  Trace empty = pieces[0];
  empty.events.clear();
  empty.dropped = 3;
  pieces.insert(pieces.begin(), empty);
  EXPECT_THAT(view_of(pieces).counters.at("dropped events"), ElementsAre(3, 8));
}

// Occurs when the alignment of the clocks is corrected between two readings.
TEST(Perfetto, SlightOverlapsAreRemoved) {
  Trace trace = test::sample_trace()[0];
  trace.events = {test::worker_event(EventKind::task, 1, 100, 50, 1), test::worker_event(EventKind::task, 1, 147, 50, 2),
                  test::worker_event(EventKind::task, 1, 196, 1, 3), test::worker_event(EventKind::lease, 1, 90, 100, 4)};
  const View view = view_of({trace});
  EXPECT_EQ(view.open, 0U);
  EXPECT_EQ(view.slice("task", 1).end, 150);
  EXPECT_EQ(view.slice("task", 2).depth, 1U);
  EXPECT_EQ(view.slice("task", 2).begin, 150);
  EXPECT_EQ(view.slice("task", 2).end, 197);
  EXPECT_EQ(view.slice("task", 3).depth, 1U);
  EXPECT_EQ(view.slice("lease", 4).end, 197) << "a lease ends with its last task";
}

TEST(Perfetto, FilesOfTwoRuntimesCanBeJoined) {
  std::vector<Trace> pieces = test::sample_trace();
  const View one = view_of(pieces);
  std::ostringstream out;
  for (Trace& piece : pieces) piece.runtime = 2;
  const auto writer = perfetto_writer(out);
  for (const Trace& piece : pieces) writer->write(piece);
  writer->finish();
  for (const Message& packet : decoded(out.str()).messages(1)) {
    EXPECT_EQ(packet.number(10), 3U);
    for (const Message& descriptor : packet.messages(60)) EXPECT_FALSE(one.descriptors.contains(descriptor.number(1)));
    for (const Message& event : packet.messages(11)) {
      for (const std::uint64_t flow : event.all_numbers(48)) EXPECT_NE(flow, one.slice("add (version 2)", 7).ending_flows[0]);
    }
  }
}

}  // namespace
}  // namespace dwell
