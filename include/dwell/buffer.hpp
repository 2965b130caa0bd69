// Memory that operators work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <dwell/device/span.hpp>
#include <dwell/error.hpp>

namespace dwell {

// The memory of a buffer. The host reads host memory without a copy; each task that names such a buffer pays for a wider fence.
enum class Memory : std::uint8_t { device, host };

template <class T>
class Buffer;
template <class T>
class Slice;

namespace detail {

struct Shell;
struct SliceParts;
class RingBase;

// The part of a buffer's state that a submission reads. A submission notes nothing here, which would cost it 5 %: the ring lists the tasks
// that name a buffer while they are in flight, and the buffer knows from which position on they may (BufferState::used_from).
struct BufferUse {
  Shell* shell = nullptr;   // the runtime it belongs to
  std::uint32_t flags = 0;  // needed by a task that names it (task.hpp)
};

// The use of a buffer without memory.
inline constexpr BufferUse kNoUse{};

// A span as a task carries it: the three words after a quad's lap, in the two halves of that quad. 52 bits of address, 44 of
// size.
struct SpanWords {
  std::uint64_t low = 0;   // the address' lower 32 bits, above the lap's bits
  std::uint64_t high = 0;  // its upper 20, the size's upper 12 and lower 32

  static constexpr SpanWords of(std::uint64_t address, std::uint64_t size) {
    return {address << 32U, (address >> 32U) | (size >> 32U) << 20U | size << 32U};
  }
  constexpr std::uint64_t address() const { return (low >> 32U) | (high & 0xFFFFFU) << 32U; }
  constexpr std::uint64_t size() const { return (high >> 32U) | (high >> 20U & 0xFFFU) << 32U; }
};

struct BufferState;

// All but the element type of a buffer.
class BufferBase {
 public:
  std::size_t bytes() const noexcept;
  Memory memory() const noexcept;

 protected:
  BufferBase() = default;
  ~BufferBase() = default;
  BufferBase(BufferBase&& other) noexcept
      : state_(std::move(other.state_)),
        use_(std::exchange(other.use_, &kNoUse)),
        address_(std::exchange(other.address_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  BufferBase& operator=(BufferBase&& other) noexcept {
    state_ = std::move(other.state_);
    use_ = std::exchange(other.use_, &kNoUse);
    address_ = std::exchange(other.address_, 0);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  BufferBase(std::shared_ptr<BufferState> state, std::size_t size);
  void write_bytes(std::size_t offset, const void* from, std::size_t bytes);
  void read_bytes(std::size_t offset, void* to, std::size_t bytes) const;
  void* host_bytes() const;

  std::shared_ptr<BufferState> state_;
  const BufferUse* use_ = &kNoUse;  // part of *state_
  std::uint64_t address_ = 0;       // on the device
  std::size_t size_ = 0;            // in elements
};

// The parts of a slice that a task or a launch uses.
struct SliceParts {
  SliceParts(const BufferUse* of, SpanWords span) : use(of), words(span) {}
  template <class T>
  explicit SliceParts(const Slice<T>& of) : use(of.use_), words(of.words_) {}
  template <class T>
  explicit SliceParts(const Buffer<T>& of) : SliceParts(of.slice()) {}
  explicit SliceParts(const RingBase& of);  // ring.hpp

  const BufferUse* use;
  SpanWords words;
};

[[noreturn]] void throw_out_of_range(std::size_t first, std::size_t count, std::size_t size);

}  // namespace detail

// Part of a buffer, as an argument of a task. Refers to the buffer, which must live until the task is submitted; afterwards the
// runtime keeps the memory alive until the task has run.
template <class T>
class Slice {
 public:
  std::size_t size() const noexcept { return words_.size(); }
  Span<T> span() const noexcept { return Span<T>(reinterpret_cast<T*>(words_.address()), words_.size()); }

 private:
  friend class Buffer<std::remove_const_t<T>>;
  friend struct detail::SliceParts;
  Slice(const detail::BufferUse* use, detail::SpanWords words) : use_(use), words_(words) {}

  const detail::BufferUse* use_;
  detail::SpanWords words_;
};

// `size()` elements of T in memory of a runtime, uninitialised at first, or in memory of others (Runtime::wrap). Owns the memory, or the
// owner of wrapped memory: moved, not copied. May be dropped while tasks name it; the memory is freed when they have run. After its runtime
// is closed or rebuilt the memory is gone, and write, read and host throw errc::stale_handle. Members may be called from any thread, but
// not two at once on one buffer.
template <class T>
class Buffer : public detail::BufferBase {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>, "buffers hold trivially copyable elements");

 public:
  Buffer() = default;
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;
  ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::size_t size() const noexcept { return size_; }

  // Copies `from` to elements [first, first + from.size()), after the tasks submitted so far that name this buffer have run
  // (as an argument: an address inside a struct is not seen). In the callback of a host node neither this nor read waits (Graph::add_host).
  // Throws errc::invalid_argument when it does not fit.
  void write(std::span<const T> from, std::size_t first = 0) {
    check(first, from.size());
    write_bytes(first * sizeof(T), from.data(), from.size_bytes());
  }
  // Copies elements [first, first + to.size()) to `to`, after the tasks submitted so far that name this buffer have run.
  void read(std::span<T> to, std::size_t first = 0) const {
    check(first, to.size());
    read_bytes(first * sizeof(T), to.data(), to.size_bytes());
  }

  // The address on the device; for Memory::host and on the CPU also the host's own. Valid as long as the buffer lives.
  T* data() const noexcept { return reinterpret_cast<T*>(address_); }
  // The elements as the host sees them. Only for Memory::host, or on the CPU: else throws errc::unsupported. Does not wait for tasks.
  std::span<T> host() const { return {static_cast<T*>(host_bytes()), size()}; }

  // Elements [first, first + count) as an argument of a task. Throws errc::invalid_argument when they do not exist.
  Slice<T> slice(std::size_t first, std::size_t count) const {
    check(first, count);
    return Slice<T>(use_, detail::SpanWords::of(address_ + first * sizeof(T), count));
  }
  Slice<T> slice() const noexcept { return Slice<T>(use_, detail::SpanWords::of(address_, size_)); }

 private:
  friend class Runtime;
  Buffer(std::shared_ptr<detail::BufferState> state, std::size_t size) : BufferBase(std::move(state), size) {}

  void check(std::size_t first, std::size_t count) const {
    if (first > size() || count > size() - first) detail::throw_out_of_range(first, count, size());
  }
};

}  // namespace dwell
