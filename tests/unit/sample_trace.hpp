// A trace in two pieces, for tests of the trace formats.
#pragma once

#include <vector>

#include <dwell/trace.hpp>

namespace dwell::test {

inline constexpr std::int64_t kTraceStart = 1'000'000'000'123;  // ns

// `at` counts from kTraceStart.
inline TraceEvent worker_event(TraceEvent::Kind kind, std::uint32_t worker, std::int64_t at, std::int64_t took, std::uint64_t id,
                               std::uint32_t name = TraceEvent::kNoName) {
  TraceEvent event;
  event.kind = kind;
  event.worker = worker;
  event.begin_ns = kTraceStart + at;
  event.took_ns = took;
  event.id = id;
  event.name = name;
  return event;
}
inline TraceEvent host_event(TraceEvent::Kind kind, std::uint32_t thread, std::int64_t at, std::int64_t took, std::uint64_t id = 0,
                             std::uint32_t count = 1, std::uint32_t name = TraceEvent::kNoName) {
  TraceEvent event = worker_event(kind, TraceEvent::kHost, at, took, id, name);
  event.thread = thread;
  event.count = count;
  return event;
}

// Worker 3 runs tasks 7 and 8 in lease 40 and task 9 in lease 41. The first lease begins with its fetch and ends with its last task; task 8
// begins when 7 ends. Task 9 waits at a barrier.
inline std::vector<Trace> sample_trace() {
  using EventKind = TraceEvent::Kind;
  Trace first;
  first.runtime = 1;
  first.device = "cuda:0";
  first.clock_error_ns = 41.5;
  first.names = {"add (version 2)"};
  first.events = {host_event(EventKind::submit, 77, 0, 200, 7, 2), worker_event(EventKind::fetch, 3, 100, 0, 7),
                  worker_event(EventKind::task, 3, 300, 500, 7, 0), host_event(EventKind::mark, 78, 900, 0, 0, 1, TraceEvent::kNoName)};
  first.events[1].count = 2;
  Trace second = first;
  second.dropped = 5;
  second.clock_error_ns = 12;
  second.names.emplace_back("say \"\xC2\xB5s\"\n");
  second.names.emplace_back("sync");
  second.events = {worker_event(EventKind::task, 3, 800, 300, 8, 1), worker_event(EventKind::lease, 3, 100, 1000, 40),
                   host_event(EventKind::submit, 77, 1200, 100, 9),  worker_event(EventKind::barrier, 3, 2102, 5, 9, 2),
                   worker_event(EventKind::task, 3, 2100, 10, 9, 1), worker_event(EventKind::lease, 3, 2000, 500, 41),
                   worker_event(EventKind::node, 0, 2100, 0, 2, 0),  host_event(EventKind::wait, 77, 1300, 2000, 9),
                   host_event(EventKind::mark, 78, 2200, 0, 0, 1, 1)};
  second.events[0].failed = true;
  return {first, second};
}

// Nodes 1, 2 and 3 of a graph, each waiting for all earlier ones, and a task that another one waits for. Arrow 1 leads from node 1 to 3,
// arrow 2 from 1 to 2, arrow 3 from 2 to 3. Node 3 is in a second piece.
inline std::vector<Trace> node_trace() {
  using EventKind = TraceEvent::Kind;
  Trace first;
  first.runtime = 1;
  first.device = "cuda:0";
  first.events = {worker_event(EventKind::node, 0, 0, 100, 1), worker_event(EventKind::node, 1, 150, 100, 2),
                  worker_event(EventKind::task, 2, 150, 120, 1)};
  first.events[0].number = 1;
  first.events[0].arrows = 2;
  first.events[1].number = 3;
  first.events[1].arrows = 1;
  first.arrows = {{2, 3, true}, {1, 2, false}};
  Trace second = first;
  second.events = {worker_event(EventKind::node, 0, 300, 100, 3)};
  second.events[0].number = 4;
  second.arrows = {{1, 4, true}, {3, 4, true}};
  return {first, second};
}

// A launch with two first nodes, of which the second is not shown; and a task of several groups.
inline std::vector<Trace> launch_trace() {
  using EventKind = TraceEvent::Kind;
  Trace trace;
  trace.runtime = 1;
  trace.device = "cuda:0";
  trace.events = {host_event(EventKind::launch, 77, 0, 50, 9, 1),  worker_event(EventKind::begin, 1, 100, 20, 9),
                  worker_event(EventKind::node, 0, 150, 100, 1),   worker_event(EventKind::complete, 0, 260, 1, 9),
                  host_event(EventKind::submit, 77, 300, 50, 10),  worker_event(EventKind::group, 1, 400, 30, 10),
                  worker_event(EventKind::complete, 1, 440, 1, 10)};
  trace.events[3].count = 0;
  trace.events[6].count = 4;
  trace.events[1].number = 1;
  trace.events[1].arrows = 2;
  trace.events[2].number = 3;
  trace.arrows = {{1, 3, true}};
  return {trace};
}

}  // namespace dwell::test
