// Samples of submitted tasks on the host: their time, and the bytes they name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <dwell/detail/task.hpp>
#include <dwell/signature.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "device/arena.hpp"

namespace dwell::runtime {

// Stamps the ring tasks selected by device::is_stamped with the time of their submission: the worker that calls the operator takes the
// difference (device/observe.hpp). Also samples the arguments of these tasks. Members may be called from any thread.
class TaskSamples {
 public:
  // `device_now`: reads the device's clock, in ns.
  TaskSamples(backend::Backend& backend, std::uint32_t ring_shift, std::function<std::uint64_t()> device_now);
  TaskSamples(const TaskSamples&) = delete;
  TaskSamples& operator=(const TaskSamples&) = delete;

  // Where the device finds the stamps.
  const device::Quad* stamps() const { return reinterpret_cast<const device::Quad*>(memory_->device()); }

  // Sets the arguments of an opcode; earlier samples stay.
  void assign(std::uint32_t opcode, const Signature& signature);
  // Samples a task with this opcode before it is published at `position`, which is_stamped selects. `rest`: its argument words after the
  // first slot. Skips the task without memory.
  void take(std::uint64_t position, std::uint32_t opcode, const detail::FirstSlot& first, const std::uint32_t* rest) noexcept;

  // Samples the arguments of a task of another source.
  void take_arguments(std::uint32_t opcode, const std::uint32_t* words) noexcept;

  struct Bytes {
    std::uint64_t tasks = 0;
    std::uint64_t bytes = 0;  // that their spans name
  };
  Bytes bytes_of(std::uint32_t opcode) const;

 private:
  struct Named {
    std::uint32_t word;   // of the arguments, where a span begins
    std::uint32_t bytes;  // of an element
  };
  struct Sample {
    std::vector<Named> spans;
    bool in_ring = true;  // the arguments travel in the ring
    Bytes sum;

    // Adds a sample; `word` reads its argument words.
    template <class Word>
    void add(const Word& word) noexcept;
  };

  const std::uint32_t ring_shift_;
  const std::function<std::uint64_t()> device_now_;
  const std::unique_ptr<backend::Allocation> memory_;
  mutable Mutex mutex_;
  std::vector<Sample> samples_ DWELL_GUARDED_BY(mutex_);  // by opcode
};

}  // namespace dwell::runtime
