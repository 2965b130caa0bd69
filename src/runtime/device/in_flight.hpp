// The tasks that workers run, from their in-flight records.
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

// Reads the cache line of host memory in which each worker records what it is about to run (device::InFlight). Workers do not record the
// end: for a task of the ring the completion entry shows it; for nodes and tasks that operators make, only mark_over does. Does not own the
// records. Members may be called from any thread.
class InFlightTasks {
 public:
  using Clock = std::chrono::steady_clock;

  // A worker that holds a task of the ring.
  struct Holder {
    std::uint32_t worker;
    std::uint64_t position;
    std::uint32_t opcode;
    bool launch;            // of a graph: without an opcode
    Clock::duration since;  // time held, as sampled by look(), while the process was running
  };
  // A worker's last record.
  struct Record {
    enum class Kind : std::uint8_t {
      task,   // of the ring
      node,   // of a graph
      other,  // none so far, or a task that an operator has made
    };
    std::uint32_t worker;
    Kind kind;
    bool over;               // no longer running: the task is complete, or the loop has been off the device since
    std::uint64_t position;  // of a task
    std::uint64_t offset;    // of a node's record in the arena
    std::uint32_t opcode;
    Clock::duration since;
    std::uint64_t word;   // the record itself
    bool launch = false;  // the task is the launch of a graph, and has no opcode
  };

  // `most`: the number of records. mark_over writes to `records`.
  InFlightTasks(device::InFlight* records, std::uint32_t most, const SubmissionQueue& queue)
      : records_(records), queue_(queue), sightings_(most) {}
  InFlightTasks(const InFlightTasks&) = delete;
  InFlightTasks& operator=(const InFlightTasks&) = delete;

  // Samples since when each worker holds its task. Called periodically.
  void look();

  // Returns the last records of the first `workers`. Throws std::bad_alloc.
  std::vector<Record> records(std::uint32_t workers) const;
  // Returns those that hold a task of the ring: an incomplete one, or with `ended` a complete one. Throws std::bad_alloc.
  std::vector<Holder> holders(std::uint32_t workers, bool ended) const;

  // Marks all records as over. Called while no lease is on the device, nor starts.
  void mark_over();

 private:
  struct Sighting {
    std::uint64_t word = 0;
    std::optional<Clock::duration> since;  // on the clock running_
  };
  std::uint64_t word_of(std::uint32_t worker) const;

  device::InFlight* const records_;
  const SubmissionQueue& queue_;
  mutable Mutex mutex_;
  RunningClock running_ DWELL_GUARDED_BY(mutex_){std::chrono::milliseconds(50)};
  Clock::duration now_ DWELL_GUARDED_BY(mutex_){};  // at the last look()
  std::vector<Sighting> sightings_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
