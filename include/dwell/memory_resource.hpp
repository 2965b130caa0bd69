// A source of device memory for buffers.
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

  // Returns `bytes` (at least 1) of memory on the runtime's device, aligned to 256 bytes; on the CPU, any memory of the process. No other
  // work uses it any more, on a stream either: the runtime clears it at once. Its exceptions reach the caller of Runtime::allocate.
  // std::bad_alloc and a null pointer become errc::out_of_memory. Memory that is misaligned, or that the device does not reach, is given
  // back, and Runtime::allocate throws errc::invalid_argument.
  virtual void* allocate(std::size_t bytes) = 0;

  // Takes `memory` back, with the size of its `allocate`, once no task, launch or graph in flight names it. Not called for memory of a lost
  // device.
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;
};

}  // namespace dwell
