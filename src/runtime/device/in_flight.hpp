// The tasks that workers run, as their in-flight records say.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "device/arena.hpp"
#include "runtime/device/running_clock.hpp"
#include "runtime/device/submission_queue.hpp"

namespace dwell::runtime {

// Reads the line of host memory in which each worker notes what it is about to run (device::InFlight). A worker does not note that it has
// ended: of a task of the ring the completion entry says so, of nodes and of what operators make nobody does until mark_over. Does not own
// the records. Members may be called from any thread.
class InFlightTasks {
 public:
  using Clock = std::chrono::steady_clock;

  // A worker that holds a task of the ring.
  struct Holder {
    std::uint32_t worker;
    std::uint64_t position;
    std::uint32_t opcode;
    bool launch;            // of a graph: there is no opcode
    Clock::duration since;  // for how long, as far as look() has seen, while the process was running
  };
  // What a worker has noted last.
  struct Record {
    enum class Kind : std::uint8_t {
      task,   // of the ring
      node,   // of a graph
      other,  // nothing so far, or a task that an operator has made
    };
    std::uint32_t worker;
    Kind kind;
    bool over;               // it does not run that any more: a task is complete, or there was no lease since
    std::uint64_t position;  // of a task
    std::uint64_t offset;    // of a node: of its record in the arena
    std::uint32_t opcode;
    Clock::duration since;
    std::uint64_t word;   // the record itself
    bool launch = false;  // of a task: it is the launch of a graph, and has no opcode
  };

  // `most`: how many there are. `records` may be changed by mark_over.
  InFlightTasks(device::InFlight* records, std::uint32_t most, const SubmissionQueue& queue)
      : records_(records), queue_(queue), sightings_(most) {}
  InFlightTasks(const InFlightTasks&) = delete;
  InFlightTasks& operator=(const InFlightTasks&) = delete;

  // Notes since when each worker has what it has. To be called now and then.
  void look();

  // What the first `workers` have noted last. Throws std::bad_alloc.
  std::vector<Record> records(std::uint32_t workers) const;
  // The tasks of the ring among that: those that are not complete, or those that are. Throws std::bad_alloc.
  std::vector<Holder> holders(std::uint32_t workers, bool ended) const;

  // Says of all records that they are over. No lease is on the device, and none is started meanwhile.
  void mark_over();

 private:
  struct Sighting {
    std::uint64_t word = 0;
    std::optional<Clock::duration> since;  // by running_
  };
  std::uint64_t word_of(std::uint32_t worker) const;

  device::InFlight* const records_;
  const SubmissionQueue& queue_;
  mutable Mutex mutex_;
  RunningClock running_ DWELL_GUARDED_BY(mutex_){std::chrono::milliseconds(50)};
  Clock::duration now_ DWELL_GUARDED_BY(mutex_){};  // of the last look
  std::vector<Sighting> sightings_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
