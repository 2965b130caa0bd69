// Timelines: events of workers and of the host on one clock, and writers for the tools that show them.
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
    fetch,    // an instant: tasks dequeued from the ring; `id`: the position of the first slot, `count`: how many slots
    take,   // an instant: a node or a spawned task dequeued from the ready queue, to which any worker may have pushed it; `id`: the task's
    begin,  // a launch of a graph begins, in 1 ns; `id`: its position, `name`: "begin step" of a graph that has one
    // In 1 ns: a launch, a task of several groups, or a task with descendants is entirely complete; `id`: its position, `count`: its
    // groups, else 0; `name`: "complete step" for a launch of a graph with a name.
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
  std::uint64_t id = 0;          // a ring task's position; a node's index; else see Kind
  std::uint64_t number = 0;      // for a node or a begin: the number of this call, and of its first arrow
  std::uint32_t worker = kHost;  // of the device
  std::uint32_t thread = 0;      // of the host: gettid()
  std::uint32_t name = kNoName;  // index in Trace::names
  std::uint32_t count = 1;
  std::uint32_t arrows = 0;  // arrows that may begin here, numbered from `number` on
  Kind kind = Kind::task;
  bool failed = false;  // for a call, its ring task has failed; for the host, an exception, or a refused image
};

// A dependency between two events. For tasks of the ring (after, link), the positions of both.
struct TraceArrow {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool of_nodes = false;  // in a graph: `from` is the arrow's number, `to` the number of the event at which it ends
};

// A piece of a trace. `names` grows from piece to piece; a name keeps its index.
struct Trace {
  std::vector<std::string> names;  // "add (version 2)"
  std::vector<TraceEvent>
      events;  // ordered by their end; a worker's events do not overlap, except that leases contain the others, and calls contain barriers
  std::vector<TraceArrow> arrows;  // of tasks submitted in this piece, and of its nodes that waited
  std::uint64_t dropped = 0;       // events overwritten before the host read them
  double clock_error_ns = 0;       // bound on the error of the device's clock against the host's
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

// Writes Perfetto's format (a stream of protobuf packets, https://perfetto.dev/docs/reference/trace-packet-proto): a track per worker and
// per host thread; flows from submit to task, from a task to its successors, from a launch to its begin on the device, the first nodes
// there and its end, and from a node of a graph to its successors; counters.
std::unique_ptr<TraceWriter> perfetto_writer(std::ostream& out);
// Writes the Trace Event Format of chrome://tracing: JSON.
std::unique_ptr<TraceWriter> chrome_writer(std::ostream& out);
// Writes a file: chrome_writer's form when its name ends in ".json", else perfetto_writer's. Throws errc::io_failed when it cannot be
// opened; `write` and `finish` throw it when the disc is full. The file keeps its old content until the first piece is written.
std::unique_ptr<TraceWriter> trace_file(const std::filesystem::path& path);

}  // namespace dwell
