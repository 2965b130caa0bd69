// What happened when: events of workers and of the host on one clock, and how they are written for the tools that show them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace dwell {

struct TraceEvent {
  enum class Kind : std::uint8_t {
    // Of workers.
    task,     // of the ring: an operator's call
    node,     // of a graph
    spawned,  // a task that an operator has made
    group,    // one group of a wide task or a gang
    lease,    // a worker's stay on the device; `id`: the lease's number
    fetch,    // an instant: tasks taken out of the ring; `id`: the position of the first slot, `count`: how many slots
    take,     // an instant: a node or a spawned task taken from the ready queue, where any worker may have put it; `id`: the task's
    begin,    // a launch of a graph begins, in 1 ns; `id`: its position, `name`: "begin step" of a graph that has one
    // In 1 ns: a launch, a task of several groups or one that has made others is complete, all of it; `id`: its position, `count`: how many
    // groups, 0 of the others; `name`: of a launch "complete step", if its graph has one.
    complete,
    barrier,  // a group waits for others of its gang; `id`: the position of the gang's task, `name`: which barrier
    // Of the host.
    submit,     // tasks submitted; `id`: the position of the first, `count`: how many
    wait,       // a thread waits for a ticket; `id`: its position
    define,     // define or redefine; `name`: the operator
    compile,    // a source is compiled
    hand_over,  // an image takes over; `id`: its number
    park,       // Runtime::park until the device is free
    launch,     // a launch of a graph; `id`: its position, `name`: "launch step" of a graph that has one
    flush,      // a batch is flushed; `count`: tasks
    mark,       // Runtime::mark; `name`: its text
  };
  static constexpr std::uint32_t kHost = ~0U;
  static constexpr std::uint32_t kNoName = ~0U;

  std::int64_t begin_ns = 0;     // std::chrono::steady_clock
  std::int64_t took_ns = 0;      // 0: an instant
  std::uint64_t id = 0;          // of a task of the ring: its position; of a node: which one, by its place; else see Kind
  std::uint64_t number = 0;      // of a node or a begin: that of this call, and of its first arrow
  std::uint32_t worker = kHost;  // of the device
  std::uint32_t thread = 0;      // of the host: gettid()
  std::uint32_t name = kNoName;  // index in Trace::names
  std::uint32_t count = 1;
  std::uint32_t arrows = 0;  // of these: so many may begin here, numbered from `number` on
  Kind kind = Kind::task;
  bool failed = false;  // a call: its task has, of the ring; what the host did: with an exception, or the image was refused
};

// A dependency between two events. Of tasks of the ring (after, link), the positions of both.
struct TraceArrow {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool of_nodes = false;  // of a graph: `from` is the arrow's number, `to` the number of the event at which it ends
};

// A piece of a trace, as it comes: `names` grows, and what was given once keeps its index.
struct Trace {
  std::vector<std::string> names;  // "add (version 2)"
  std::vector<TraceEvent> events;  // by the end of each; of one worker they do not overlap, but for leases, which hold the others, and
                                   // barriers, which calls hold
  std::vector<TraceArrow> arrows;  // of the tasks that were submitted in this piece, and of the nodes among its events that waited
  std::uint64_t dropped = 0;       // events that were overwritten before the host had read them
  double clock_error_ns = 0;       // how far the device's clock may be off the host's, at most
  std::string device;              // "cuda:0"
  std::uint64_t runtime = 0;
};

// Writes a trace piece by piece, so that it need not fit into memory. Used by one thread at a time.
class TraceWriter {
 public:
  virtual ~TraceWriter() = default;
  virtual void write(const Trace& piece) = 0;
  // Completes the text; nothing is written afterwards.
  virtual void finish() = 0;
};

// Perfetto's format (a stream of protobuf packets, https://perfetto.dev/docs/reference/trace-packet-proto): a track a worker and a thread
// of the host, flows from submit to task, from a task to those that wait for it, from a launch to its begin on the device, the first nodes
// there and its end, and from a node of a graph to its successors, counters.
std::unique_ptr<TraceWriter> perfetto_writer(std::ostream& out);
// The Trace Event Format of chrome://tracing: JSON.
std::unique_ptr<TraceWriter> chrome_writer(std::ostream& out);
// Writes a file: chrome_writer's form when its name ends in ".json", else perfetto_writer's. Throws errc::io_failed when it cannot be
// opened; `write` and `finish` throw it when the disc is full. What the file held before stays until the first piece comes.
std::unique_ptr<TraceWriter> trace_file(const std::filesystem::path& path);

}  // namespace dwell
