// A timeline that is being taken: events of workers, read while they work, and of the host.
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

// Takes one timeline at a time, on a thread of its own. Workers write into rings of device memory, the oldest events are overwritten; the
// thread copies the rings, which costs workers nothing, and passes on what is new. A copy takes a while, and workers write on meanwhile: so
// what has ended is passed on behind the next copy, when all that ended before it is known. Members may be called from any thread.
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
  // Gets each piece as it comes, on the timeline's thread. When it throws, or memory is short, the timeline is over: it gets no more.
  using Sink = std::function<void(const Trace& piece)>;

  explicit Timeline(Parts parts) : parts_(std::move(parts)) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Begins one. Returns when all leases note events, or after a second when a task runs longer. Throws errc::invalid_argument when one is
  // being taken, errc::out_of_memory, and what reading the clock throws.
  void start(Sink sink);
  // Ends it, behind its last piece; nothing when none is being taken. Throws why it was over before.
  void stop();
  // Whether it is over before it is stopped.
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }

 private:
  // What has been read of a worker's ring.
  struct Reader {
    std::uint32_t next = 0;    // number of the next event
    std::int64_t last_ns = 0;  // when the last call that was read had ended
    bool misses = false;       // events behind it
  };
  static constexpr std::uint32_t kShift = 9;
  static constexpr std::uint32_t kEvents = 1U << kShift;  // in a worker's ring
  static constexpr std::uint32_t kWriters = 2;            // threads of a worker that may write one at the same time
  static constexpr std::size_t kFew = 8;                  // rings that are copied one by one rather than with all others
  static constexpr std::size_t kMostNodeNames = 1024;     // in Trace::names, which each piece brings along, of nodes and launches
  static constexpr std::size_t kMostBegun = 1U << 16U;    // launches whose end is waited for, to name it

  std::size_t bytes_of_rings() const { return (sizeof(device::Event) << kShift) * parts_.workers; }

  void tell_leases(bool on);
  // Takes note of what an earlier timeline has left in the rings.
  void begin_reading();
  void run() noexcept;
  void pass_on(bool all);
  // Copies the rings of workers that have new events, or all; returns the workers.
  std::vector<std::uint32_t> copy(bool all);
  std::vector<std::uint32_t> copy(const backend::Allocation& arena, bool all);
  // Of what was copied: a worker's ring, and one past the number of the newest event there.
  const device::Event* ring_of(std::uint32_t worker) const;
  std::uint32_t newest_of(std::uint32_t worker) const;
  void read(std::uint32_t worker, Trace& piece);
  // Passes on those that were read and ended until `end_ns`, with the arrows between nodes.
  void release(std::int64_t end_ns, Trace& piece);
  // Names the node's event, and looks up the node in its exec, which `place` keeps for the next one.
  NodeArrows::Node look_up(TraceEvent& event, Graphs::Place& place);
  // Names the event of a launch that begins, and looks it up as if it were the node before the first ones.
  NodeArrows::Node look_up_launch(TraceEvent& event);
  void add_host(Trace& piece);
  TraceEvent event_of(const device::Event& from, std::uint32_t worker);
  // TraceEvent::id of a task with this header.
  std::uint64_t id_of(const device::Header& header, std::uint32_t word2) const;
  // The last position before tail_ that ends in these 32 bits.
  std::uint64_t position_of(std::uint32_t low) const;
  // The index of a name, which the next piece tells when it is new; of that of an operator.
  std::uint32_t name(const std::string& text);
  // The same of a node or a launch of a graph, of which there may be any number: `otherwise` for those beyond kMostNodeNames.
  std::uint32_t node_name(const std::string& text, std::uint32_t otherwise);
  // "launch step"; kNoName without a name.
  std::uint32_t name_of_launch(const char* what, const std::string& graph);
  std::uint32_t name_of_opcode(std::uint32_t opcode);

  const Parts parts_;
  Mutex mutex_;  // of start and stop
  Condition changed_;
  std::thread thread_ DWELL_GUARDED_BY(mutex_);
  bool stops_ DWELL_GUARDED_BY(mutex_) = false;
  std::int64_t ended_ns_ DWELL_GUARDED_BY(mutex_) = 0;  // with stops_: from then on leases may note no events
  std::unique_ptr<Arena::Piece> events_;                // rings, and how many events each has seen; stays: a lease may write there
  std::unique_ptr<backend::Allocation> copied_;         // the same, as it was copied
  // Of the thread.
  Sink sink_;
  std::int64_t begun_ns_ = 0;
  std::vector<Reader> readers_;   // by worker
  std::vector<TraceEvent> held_;  // read and not passed on
  // Of those that are passed on: the end, whether it is no begin of a launch, and where. Here for its memory.
  std::vector<std::tuple<std::int64_t, bool, const TraceEvent*>> order_;
  std::vector<HostEvents::Event> of_host_;  // as they were taken. Here for its memory
  std::int64_t looked_ns_ = 0;              // when the last copy began
  std::uint64_t tail_ = 0;                  // of the ring, behind the last copy
  NodeArrows arrows_;
  std::exception_ptr failure_;  // release by over_
  std::atomic<bool> over_{false};
  std::vector<std::string> names_;
  std::vector<std::uint32_t> names_of_opcodes_;  // as they are now
  std::unordered_map<std::string, std::uint32_t> indices_;
  std::size_t node_names_ = 0;
  std::unordered_map<std::uint64_t, std::string> begun_;             // by position: the graphs of launches that have not completed
  std::unordered_map<std::uint32_t, std::uint64_t> last_of_thread_;  // the position of the last task that it has submitted
};

}  // namespace dwell::runtime
