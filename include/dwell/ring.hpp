// Rings of messages between operators and the host, as the host holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <dwell/buffer.hpp>
#include <dwell/device/byte_ring.hpp>
#include <dwell/device/ring.hpp>

namespace dwell {

// Where an end of a ring is.
enum class Side : std::uint8_t { device, host };

struct RingOptions {
  // Who pushes and who pops: operators, or threads of the host. One of the two is the device's.
  Side producers = Side::device;
  Side consumers = Side::device;
  // Messages carry a CRC32C. A consumer skips a damaged one, and counts it (RingCounts).
  bool checksum = false;
  // Of a ring of bytes: the largest message. 0: a quarter of the ring.
  std::size_t message_bytes = 0;
  // Position of the first message, a multiple of the number of slots. For tests of what happens far from the beginning.
  std::uint64_t first = 0;
};

// What consumers have skipped so far.
struct RingCounts {
  std::uint64_t discarded = 0;   // by their producers
  std::uint64_t abandoned = 0;   // reserved and never committed: the producer returned early, threw, or was lost
  std::uint64_t damaged = 0;     // with a wrong checksum, or a size that cannot be
  std::uint64_t damaged_at = 0;  // position of the last damaged one
};

namespace detail {

struct RingState;

// What the host does with a ring of any messages. Members may be called from any thread.
class RingBase {
 public:
  // The number of slots, a power of two.
  std::size_t slots() const noexcept { return slots_; }
  RingOptions options() const;

  // Ends the ring: later pushes fail, and consumers find the end behind the messages before. If the producers are on the device, first
  // waits for the tasks submitted so far that name the ring: a task that waits for this end must be closed by an operator (Ring::close).
  // A second call does nothing. Throws errc::stale_handle after the end of the runtime, and as Buffer::write.
  void close();
  // Whether the ring is closed and all of its messages have been taken. Throws errc::unsupported if the consumers are on the device.
  bool finished() const { return consumer().finished(); }
  // Returns what consumers have skipped so far. Does not wait for tasks. Throws errc::stale_handle if the consumers are on the device and
  // the runtime has ended.
  RingCounts counts() const;

 protected:
  RingBase() = default;
  explicit RingBase(std::shared_ptr<RingState> state);
  ~RingBase() = default;
  RingBase(RingBase&&) noexcept = default;
  RingBase& operator=(RingBase&&) noexcept = default;

  // The host's end. Throws errc::unsupported if it is the device's; the first also errc::closed and the failure of the device.
  device::RingCore producer() const;
  device::RingCore consumer() const {
    if (host_ == nullptr || !device::RingCore(host_).may_pop()) [[unlikely]]
      refuse(false);
    return device::RingCore(host_);
  }
  // Waits until `once` returns true. Throws errc::closed and the failure of the device when it does not any more.
  void wait(const std::function<bool()>& once) const;
  // If the device has failed or the runtime has ended, claims the gap that lost producers have left before the next message. Returns
  // whether there was one.
  bool skip_lost() const;
  [[noreturn]] void refuse(bool push) const;
  [[noreturn]] void refuse_size(std::size_t bytes) const;
  [[noreturn]] void refuse_closed() const;

  device::RingControl* host_ = nullptr;  // the host's own; null if it has no end

 private:
  friend struct detail::SliceParts;
  const RingState& require() const;

  std::shared_ptr<RingState> state_;
  const BufferUse* use_ = &kNoUse;
  SpanWords words_;
  std::size_t slots_ = 0;
};

inline SliceParts::SliceParts(const RingBase& of) : use(of.use_), words(of.words_) {}

}  // namespace detail

// A ring of messages of one type, which operators get as a Ring<T>. Owns its memory: moved, not copied. May be dropped while tasks name it.
// Members may be called from any thread, but not two at once on one handle that is moved or destroyed. A full ring has 31/32 of its slots
// filled at least. Messages that were committed before a failure of the device, or the end of the runtime, can still be taken by the host.
//
//   RingBuffer<Sample> samples = runtime.ring<Sample>(1024, {.consumers = Side::host});
//   Ticket ticket = runtime.submit(measure, samples);
//   ticket.then([&] { ... });
//   for (const Sample& sample : samples) use(sample);  // until the ring is closed
template <class T>
class RingBuffer : public detail::RingBase {
 public:
  RingBuffer() = default;

  // Appends a message. try_push returns false if there is no room, or the ring is closed; push waits for room, and throws errc::closed if
  // the ring or the runtime is closed, and the failure of the device. Both throw errc::unsupported if the producers are on the device.
  bool try_push(const T& message, std::uint8_t type = 0) { return Ring<T>(&producer().control()).try_push(message, type); }
  void push(const T& message, std::uint8_t type = 0) {
    wait([&] {
      if (try_push(message, type)) return true;
      if (device::RingCore(host_).closed()) this->refuse_closed();
      return false;
    });
  }
  // Reserves a slot to write the message in place; empty where try_push fails. The ring must outlive it.
  RingSlot<T> reserve() { return Ring<T>(&producer().control()).reserve(); }

  // Takes the next message. try_pop returns nothing if there is none; pop waits, and returns nothing at the end of a closed ring. Both
  // throw errc::unsupported if the consumers are on the device. pop throws errc::closed and the failure of the device if no message is
  // left.
  std::optional<T> try_pop() {
    std::optional<T> message;
    take(1, [&](const T& one, std::uint64_t) { message = one; });
    return message;
  }
  std::optional<T> pop() {
    std::optional<T> message;
    wait([&] { return (message = try_pop()).has_value() || this->finished() || (this->skip_lost() && (message = try_pop()).has_value()); });
    return message;
  }
  // Takes up to `to.size()` messages that are there. Returns how many.
  std::size_t pop_many(std::span<T> to) {
    std::size_t count = 0;
    take(to.size(), [&](const T& one, std::uint64_t) { to[count++] = one; });
    return count;
  }
  // Takes up to `most` messages that are there, and calls f(const T& message, std::uint64_t position) for each, in their order. Returns how
  // many. An exception of f loses the messages of the same call behind it.
  template <class F>
  std::size_t take(std::size_t most, F f) {
    const device::RingCore core = consumer();
    std::size_t taken = 0;
    for (std::uint64_t at = core.head(); taken < most;) {
      std::uint64_t end = at;
      while (end - at < kMostAtOnce && end - at < most - taken && core.is_there(end)) ++end;
      if (end == at) {
        const std::uint64_t now = core.head();
        if (now == at) break;
        at = now;
        continue;
      }
      if (const std::uint64_t now = core.claim(at, end); now != at) {
        at = now;
        continue;
      }
      core.acquire();
      const Release release{core, at, static_cast<std::uint32_t>(end - at)};
      for (; at != end; ++at) {
        const device::RingClaim claim = device::RingCore::claimed(at, core.load_head(at));
        const device::RingWords<T> words(core.slot(at));
        if (!core.is_message(claim)) continue;
        f(words.value(), at);
        ++taken;
      }
    }
    return taken;
  }
  // Copies the next message, and leaves it there. Nothing if there is none, or another thread takes it meanwhile.
  std::optional<T> peek() const {
    T message;
    if (!Ring<T>(&consumer().control()).peek(message)) return std::nullopt;
    return message;
  }

  // Steps of a range-based for loop take messages, and end where pop returns nothing.
  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;
    explicit Iterator(RingBuffer& ring) : ring_(&ring), message_(ring.pop()) {}
    const T& operator*() const { return *message_; }
    Iterator& operator++() {
      message_ = ring_->pop();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !message_; }

   private:
    RingBuffer* ring_;
    std::optional<T> message_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() { return {}; }

 private:
  friend class Runtime;
  explicit RingBuffer(std::shared_ptr<detail::RingState> state) : RingBase(std::move(state)) {}

  static constexpr std::uint64_t kMostAtOnce = 256;
  struct Release {
    ~Release() { core.release(position, count); }
    device::RingCore core;
    std::uint64_t position;
    std::uint32_t count;
  };
};

// A ring of messages of bytes, each with a type, which operators get as a ByteRing. As RingBuffer otherwise.
class ByteRingBuffer : public detail::RingBase {
 public:
  ByteRingBuffer() = default;

  // Also throw errc::invalid_argument for a message larger than RingOptions::message_bytes.
  bool try_push(std::span<const std::byte> message, std::uint8_t type = 0);
  void push(std::span<const std::byte> message, std::uint8_t type = 0);
  ByteSlot reserve(std::size_t bytes);

  // The message lies in the ring until it is dropped; the ring must outlive it. An empty one where RingBuffer's return nothing.
  ByteMessage try_pop();
  ByteMessage pop();

 private:
  friend class Runtime;
  explicit ByteRingBuffer(std::shared_ptr<detail::RingState> state) : RingBase(std::move(state)) {}
};

}  // namespace dwell
