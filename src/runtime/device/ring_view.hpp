// Reads tasks in flight from the ring.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/ring.hpp"
#include "runtime/device/submission_queue.hpp"

namespace dwell::runtime {

// Reads slots of the ring while others write it. Owns nothing. Members may be called from any thread.
class RingView {
 public:
  struct Task {
    std::uint64_t position = 0;
    device::Header header{};
    std::uint64_t graph = 0;                // for a launch the offset of the exec's head in the arena
    std::vector<std::uint64_t> waits = {};  // its predecessors, complete or not, without those that had failed before
  };

  RingView(const device::Slot* ring, std::uint32_t shift, const SubmissionQueue& queue) : ring_(ring), shift_(shift), queue_(queue) {}

  const SubmissionQueue& queue() const { return queue_; }

  // Returns the task that begins at a position in flight; nothing while its submitter still writes it. The result is valid if the task is
  // not complete afterwards: until then its slots are its own. Throws std::bad_alloc.
  std::optional<Task> at(std::uint64_t position) const;
  // Adds all words behind its header that the task carries, arguments among them, if it is in flight; of a task whose arguments are in a
  // block, not these. Returns its slots; 0: its submitter still writes it.
  std::uint32_t add_arguments(std::uint64_t position, std::vector<std::uint32_t>& to) const;
  // Returns only its header.
  std::optional<device::Header> header_at(std::uint64_t position) const;

 private:
  std::optional<device::Quad> quad(std::uint64_t position, std::uint32_t index) const;

  const device::Slot* ring_;
  std::uint32_t shift_;
  const SubmissionQueue& queue_;
};

}  // namespace dwell::runtime
