// Gates of launches: through them tasks on the device wait for ordinary kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include <dwell/detail/task.hpp>

#include "base/mutex.hpp"
#include "runtime/complete/notifier.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/kernels/launches.hpp"

namespace dwell::runtime {

// Places a gate (device/gates.hpp) for each launch that tasks wait for, and opens it when the launch has ended: the notifier's thread
// looks. Members may be called from any thread.
//
// Not in bursts, which do not end before their tasks. A call of another thread that waits for the burst keeps locks of the driver's, for
// which the notifier would wait, and the burst for the notifier. There the submitter waits for the launch.
class LaunchGates {
 public:
  LaunchGates(SubmissionQueue& queue, Launches& launches, Notifier& notifier, bool bursts)
      : queue_(queue), launches_(launches), notifier_(notifier), bursts_(bursts) {}
  LaunchGates(const LaunchGates&) = delete;
  LaunchGates& operator=(const LaunchGates&) = delete;

  static bool are_needed(const detail::Waits& waits);
  // With bursts, waits for the launches.
  void await(const detail::Waits& waits) const;
  // Puts the gates of launches in their place, and leaves out launches that have ended. False when there is no room in the ring, and with
  // bursts when one has not ended; what has been placed serves the next call. `alias`: of the task that waits. Throws errc::closed when the
  // runtime ends, errc::out_of_memory when there is no thread, and std::bad_alloc.
  bool try_replace(detail::Waits& waits, const std::atomic<std::uint32_t>& alias);

  // The gates that are not open: position, and number of the launch.
  std::map<std::uint64_t, std::uint64_t> closed() const;

 private:
  static constexpr std::uint64_t kNotPlaced = ~std::uint64_t{0};
  // The launch has ended.
  void open(std::uint64_t launch);

  SubmissionQueue& queue_;
  Launches& launches_;
  Notifier& notifier_;
  const bool bursts_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> gates_ DWELL_GUARDED_BY(mutex_);  // by launch: the gate's position, until the launch has ended
};

}  // namespace dwell::runtime
