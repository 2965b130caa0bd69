// Records a timeline: events of workers, read while they work, and of the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/trace.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/arena.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/graphs.hpp"
#include "runtime/observe/device_clock.hpp"
#include "runtime/observe/host_events.hpp"
#include "runtime/observe/node_arrows.hpp"

namespace dwell::runtime {

// Records one timeline at a time, on a thread of its own. Workers write into rings of device memory and overwrite the oldest events. The
// thread copies the rings, which costs workers nothing, and passes on new events. Workers write during a copy, so an event is passed on
// after the next copy, when all earlier ones are known. Members may be called from any thread.
class Timeline {
 public:
  struct Parts {
    backend::Backend& backend;
    Arena& arena;
    Keeper& keeper;
    SubmissionQueue& queue;
    DeviceClock& clock;
    HostEvents& host;
    const Graphs& graphs;
    std::uint32_t workers;  // of any lease
    std::string device;
    std::uint64_t runtime;
    std::function<std::string(std::uint32_t opcode)> name_of;
  };
  // Receives each piece on the timeline's thread. When it throws, or memory is short, the timeline is over, and it is not called again.
  using Sink = std::function<void(const Trace& piece)>;

  explicit Timeline(Parts parts) : parts_(std::move(parts)) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Begins a timeline. Returns when all leases record events, or after a second when a task runs longer. Throws errc::invalid_argument
  // during another one, errc::out_of_memory, and as reading the clock.
  void start(Sink sink);
  // Ends it after its last piece; does nothing if none is being recorded. Rethrows the reason if it was over before.
  void stop();
  // Returns whether it has ended before stop().
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }

 private:
  // The read position of a worker's ring.
  struct Reader {
    std::uint32_t next = 0;    // number of the next event
    std::int64_t last_ns = 0;  // the end of the last call that was read
    bool misses = false;       // events after it are missing
  };
  static constexpr std::uint32_t kShift = 9;
  static constexpr std::uint32_t kEvents = 1U << kShift;  // in a worker's ring
  static constexpr std::uint32_t kWriters = 2;            // threads of a worker that may write events concurrently
  static constexpr std::size_t kFew = 8;                  // up to this many rings are copied one by one
  static constexpr std::size_t kMostNodeNames = 1024;     // names of nodes and launches in Trace::names, which is part of each piece
  static constexpr std::size_t kMostBegun = 1U << 16U;    // launches remembered to name their end

  std::size_t bytes_of_rings() const { return (sizeof(device::Event) << kShift) * parts_.workers; }

  void tell_leases(bool on);
  // Skips the events of an earlier timeline in the rings.
  void begin_reading();
  void run() noexcept;
  void pass_on(bool all);
  // Copies the rings of workers that have new events, or all; returns the workers.
  std::vector<std::uint32_t> copy(bool all);
  std::vector<std::uint32_t> copy(const backend::Allocation& arena, bool all);
  // Returns a worker's copied ring, or one past the number of its newest event.
  const device::Event* ring_of(std::uint32_t worker) const;
  std::uint32_t newest_of(std::uint32_t worker) const;
  void read(std::uint32_t worker, Trace& piece);
  // Passes on the events that ended up to `end_ns`, with the arrows between nodes.
  void release(std::int64_t end_ns, Trace& piece);
  // Names a node's event, and looks up the node in its exec, which `place` caches.
  NodeArrows::Node look_up(TraceEvent& event, Graphs::Place& place);
  // Names the event of a launch's begin, and looks it up as the predecessor of the first nodes.
  NodeArrows::Node look_up_launch(TraceEvent& event);
  void add_host(Trace& piece);
  TraceEvent event_of(const device::Event& from, std::uint32_t worker);
  // TraceEvent::id of a task with this header.
  std::uint64_t id_of(const device::Header& header, std::uint32_t word2) const;
  // Returns the last position before tail_ whose low 32 bits are `low`.
  std::uint64_t position_of(std::uint32_t low) const;
  // Returns the index of a name, or of an operator's; new ones are part of the next piece.
  std::uint32_t name(const std::string& text);
  // As above, for a node or a launch of a graph; returns `otherwise` beyond kMostNodeNames.
  std::uint32_t node_name(const std::string& text, std::uint32_t otherwise);
  // "launch step"; kNoName without a name.
  std::uint32_t name_of_launch(const char* what, const std::string& graph);
  std::uint32_t name_of_opcode(std::uint32_t opcode);

  const Parts parts_;
  Mutex mutex_;  // held by start and stop
  Condition changed_;
  std::thread thread_ DWELL_GUARDED_BY(mutex_);
  bool stops_ DWELL_GUARDED_BY(mutex_) = false;
  std::int64_t ended_ns_ DWELL_GUARDED_BY(mutex_) = 0;  // with stops_: after it leases may no longer record events
  std::unique_ptr<Arena::Piece> events_;                // rings and their event counts; kept, since a lease may write there
  std::unique_ptr<backend::Allocation> copied_;         // their copy
  // Used by the thread only.
  Sink sink_;
  std::int64_t begun_ns_ = 0;
  std::vector<Reader> readers_;   // by worker
  std::vector<TraceEvent> held_;  // read, but not passed on yet
  // The order of events to pass on: the end, whether it is no begin of a launch, and the event. A member to reuse its memory.
  std::vector<std::tuple<std::int64_t, bool, const TraceEvent*>> order_;
  std::vector<HostEvents::Event> of_host_;  // a member to reuse its memory
  std::int64_t looked_ns_ = 0;              // when the last copy began
  std::uint64_t tail_ = 0;                  // of the ring, after the last copy
  NodeArrows arrows_;
  std::exception_ptr failure_;  // release by over_
  std::atomic<bool> over_{false};
  std::vector<std::string> names_;
  std::vector<std::uint32_t> names_of_opcodes_;  // current names, by opcode
  std::unordered_map<std::string, std::uint32_t> indices_;
  std::size_t node_names_ = 0;
  std::unordered_map<std::uint64_t, std::string> begun_;             // by position, the graphs of incomplete launches
  std::unordered_map<std::uint32_t, std::uint64_t> last_of_thread_;  // the position of each thread's last task
};

}  // namespace dwell::runtime
