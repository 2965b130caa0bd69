// The device of an open runtime.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <dwell/options.hpp>

#include "backend/backend.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/loop_memory.hpp"
#include "runtime/device/reaper.hpp"
#include "runtime/device/ring_view.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/device/task_samples.hpp"

namespace dwell::runtime {

// The memory of a device's loop, the queue into it, and the keeper of its leases. Independent of operators: callbacks supply their names.
class Device {
 public:
  struct Parts {
    backend::Backend& backend;  // outlives the device
    const Options& options;     // read by the constructor only
    std::uint32_t workers;      // the most that a lease has
    std::uint64_t first_position;
    LoopMemory::Ring ring;  // as of LoopMemory
    std::uint64_t flight;   // Lease::flight; 0: none
    Reaper::NameOf name_of;
    FailureWatch::Describe describe;
    std::function<void()> woken;               // as of Keeper::Settings
    std::function<void()> settle;              // likewise
    std::function<std::uint64_t()> clock_now;  // reads the device's clock
  };
  // Starts no lease. Throws errc::out_of_memory.
  explicit Device(Parts parts);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  LoopMemory& memory() { return memory_; }
  Arena& arena() { return memory_.arena(); }
  SubmissionQueue& queue() { return queue_; }
  Keeper& keeper() { return *keeper_; }
  TaskSamples& samples() { return samples_; }
  RingView ring() const { return {memory_.ring(), memory_.ring_shift(), queue_}; }
  std::uint32_t workers() const { return workers_; }  // the most of any lease
  std::chrono::nanoseconds lease_time() const { return lease_time_; }

  // Returns the last position up to the tail whose low 32 bits are `low`.
  std::uint64_t position_of(std::uint32_t low) const;
  // Takes the loop off the device briefly and moves the arena to another place there. Throws the failure of the device, and
  // errc::out_of_memory when there is no room for two; then the arena has not moved.
  void move_arena();
  // Ends the keeper and its thread, as ~Keeper. No other member may be called afterwards.
  void end_keeper() noexcept { keeper_.reset(); }

 private:
  const std::uint32_t workers_;
  const std::chrono::nanoseconds lease_time_;
  LoopMemory memory_;
  SubmissionQueue queue_;
  std::unique_ptr<Keeper> keeper_;
  TaskSamples samples_;
};

}  // namespace dwell::runtime
