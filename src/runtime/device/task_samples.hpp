// What is noted of a few of the tasks that are submitted, on the host: when, and how many bytes they name.
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

// Stamps those tasks of the ring with the time of their submission which device::is_stamped names: the worker that calls the operator
// takes the difference (device/observe.hpp). The same tasks are the sample of which arguments are looked at. Members may be called from any
// thread.
class TaskSamples {
 public:
  // `device_now`: what the device's clock shows now, in ns.
  TaskSamples(backend::Backend& backend, std::uint32_t ring_shift, std::function<std::uint64_t()> device_now);
  TaskSamples(const TaskSamples&) = delete;
  TaskSamples& operator=(const TaskSamples&) = delete;

  // Where the device finds the stamps.
  const device::Quad* stamps() const { return reinterpret_cast<const device::Quad*>(memory_->device()); }

  // From now on the opcode takes these arguments; what was noted of it stays.
  void assign(std::uint32_t opcode, const Signature& signature);
  // A task with this opcode is about to be published at `position`, which is_stamped names. `rest`: its argument words behind the first
  // slot. A task without room in memory is not noted.
  void take(std::uint64_t position, std::uint32_t opcode, const detail::FirstSlot& first, const std::uint32_t* rest) noexcept;

  // A task with this opcode and these arguments, of another source, is part of the sample of arguments.
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

    // One more, of which `word` tells the argument words.
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
