// Gates, through which tasks on the device wait for ordinary kernels.
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

// Places a gate (device/gates.hpp) for each launch that tasks wait for. The notifier's thread polls the launch and opens the gate at its
// end. Members may be called from any thread.
//
// Not used with bursts, which would deadlock: a burst does not end before its tasks. A driver call of another thread that waits for the
// burst holds driver locks, the notifier waits for these, and the burst for the notifier. So with bursts the submitter waits for the
// launch.
class LaunchGates {
 public:
  LaunchGates(SubmissionQueue& queue, Launches& launches, Notifier& notifier, bool bursts)
      : queue_(queue), launches_(launches), notifier_(notifier), bursts_(bursts) {}
  LaunchGates(const LaunchGates&) = delete;
  LaunchGates& operator=(const LaunchGates&) = delete;

  static bool are_needed(const detail::Waits& waits);
  // With bursts, waits for the launches.
  void await(const detail::Waits& waits) const;
  // Replaces launches by their gates, and drops launches that have ended. False when the ring has no room, and with bursts when a launch
  // has not ended; the next call reuses the gates placed so far. `alias`: of the waiting task. Throws errc::closed when the runtime ends,
  // errc::out_of_memory when no thread can be started, and std::bad_alloc.
  bool try_replace(detail::Waits& waits, const std::atomic<std::uint32_t>& alias);

  // Returns the closed gates: position, and number of the launch.
  std::map<std::uint64_t, std::uint64_t> closed() const;

 private:
  static constexpr std::uint64_t kNotPlaced = ~std::uint64_t{0};
  // Opens the gate of an ended launch.
  void open(std::uint64_t launch);

  SubmissionQueue& queue_;
  Launches& launches_;
  Notifier& notifier_;
  const bool bursts_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> gates_ DWELL_GUARDED_BY(mutex_);  // the gate's position by launch, until the launch has ended
};

}  // namespace dwell::runtime
