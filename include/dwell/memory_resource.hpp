// Where the device memory of buffers comes from.
#pragma once

#include <cstddef>

namespace dwell {

// Device memory for buffers, in place of the runtime's own (Options::device_memory): a pool that a program shares with other libraries, as
// RMM's device_memory_resource or PyTorch's caching allocator. The runtime's ring, arena and arguments do not come from it.
//
// Thread safety: members may be called from any thread, several at once, also while tasks run. They are callbacks: they must not wait for
// the runtime.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;

  // Returns `bytes` (at least 1) on the runtime's device, aligned to 256 bytes, that nobody else uses any more, also no work that is queued
  // on a stream. On the CPU any memory of the process will do. What it throws leaves Runtime::allocate, std::bad_alloc and a null pointer
  // as errc::out_of_memory.
  virtual void* allocate(std::size_t bytes) = 0;

  // Takes `memory` back, of the size that `allocate` was asked for, once no task, launch or graph in flight names it. Is not called for
  // memory of a device that has been lost.
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;
};

}  // namespace dwell
