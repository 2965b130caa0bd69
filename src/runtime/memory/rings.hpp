// The memory of rings of messages.
#pragma once

#include <cstddef>
#include <memory>

#include <dwell/device/ring_layout.hpp>
#include <dwell/ring.hpp>

#include "runtime/memory/buffers.hpp"

namespace dwell::detail {

// A ring between operators lies in device memory as a whole. One with an end on the host has its messages in memory of the process, which
// stays readable when the device has failed.
struct RingState {
  RingOptions options;
  std::size_t slots = 0;
  std::shared_ptr<std::byte> memory;     // of the process; null between operators
  std::shared_ptr<BufferState> shared;   // the same, as the device reaches it
  std::shared_ptr<BufferState> control;  // RingControl of the device, in device memory; what tasks name
  device::RingControl* host = nullptr;   // of the host, in `memory`
};

}  // namespace dwell::detail

namespace dwell::runtime {

struct RingShape {
  std::size_t slots;
  std::size_t slot_bytes;
  std::size_t most;  // bytes of a message
};

// Throws errc::invalid_argument, errc::out_of_memory, errc::closed.
std::shared_ptr<detail::RingState> make_ring(Buffers& buffers, const RingShape& shape, const RingOptions& options);

}  // namespace dwell::runtime
