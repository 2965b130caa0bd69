// Rings whose messages have a size that is known only when the program runs. Not part of dwell.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <dwell/ring.hpp>

namespace dwell {

class Runtime;

// A RingBuffer of messages of so many bytes. Operators declare a Ring of any type of this size (Arguments::add).
class RawRingBuffer : public detail::RingBase {
 public:
  RawRingBuffer() = default;
  // Throws as Runtime::ring, and errc::invalid_argument for messages of no byte, or more than 4 KiB.
  RawRingBuffer(Runtime& runtime, std::size_t message_bytes, std::size_t slots, const RingOptions& options = {});

  std::size_t message_bytes() const noexcept { return bytes_; }

  // As those of RingBuffer. Also throw errc::invalid_argument for other sizes.
  bool try_push(std::span<const std::byte> message, std::uint8_t type = 0);
  bool try_pop(std::span<std::byte> message);

 private:
  std::size_t bytes_ = 0;
};

}  // namespace dwell
