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

// Where a buffer lies. Results in host memory are readable by the host without a copy, at the price of a wider fence for each task.
enum class Memory : std::uint8_t { device, host };

namespace detail {

struct Shell;

// What submitting a task has to know of a buffer. Which tasks name it is not noted here: the ring itself says so while they are in
// flight.
struct BufferUse {
  Shell* shell = nullptr;   // the runtime it belongs to
  std::uint32_t flags = 0;  // what a task that names it needs (task.hpp)
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
      : state_(std::move(other.state_)), use_(std::exchange(other.use_, nullptr)), address_(std::exchange(other.address_, 0)) {}
  BufferBase& operator=(BufferBase&& other) noexcept {
    state_ = std::move(other.state_);
    use_ = std::exchange(other.use_, nullptr);
    address_ = std::exchange(other.address_, 0);
    return *this;
  }
  explicit BufferBase(std::shared_ptr<BufferState> state);
  void write_bytes(std::size_t offset, const void* from, std::size_t bytes);
  void read_bytes(std::size_t offset, void* to, std::size_t bytes) const;
  void* host_bytes() const;

  std::shared_ptr<BufferState> state_;
  BufferUse* use_ = nullptr;   // part of *state_
  std::uint64_t address_ = 0;  // on the device
};

[[noreturn]] void throw_out_of_range(std::size_t first, std::size_t count, std::size_t size);

}  // namespace detail

template <class T>
class Buffer;

// Part of a buffer, as an argument of a task. Refers to the buffer, which must live until the task is submitted; from then on the
// runtime keeps the memory alive until the task has run.
template <class T>
class Slice {
 public:
  std::size_t size() const noexcept { return size_; }
  Span<T> span() const noexcept { return Span<T>(data_, size_); }
  detail::BufferUse* use() const noexcept { return use_; }

 private:
  friend class Buffer<std::remove_const_t<T>>;
  Slice(detail::BufferUse* use, T* data, std::size_t size) : use_(use), data_(data), size_(size) {}

  detail::BufferUse* use_;
  T* data_;
  std::size_t size_;
};

// `size()` elements of T in memory of a runtime, uninitialised at first. Owns the memory: moved, not copied. Dropping it while tasks
// name it is safe, the memory goes when they have run. After its runtime is closed or rebuilt the memory
// is gone, and write, read and host throw errc::stale_handle. Members may be called from any thread, but not two at once on one buffer.
template <class T>
class Buffer : public detail::BufferBase {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>, "buffers hold trivially copyable elements");

 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : BufferBase(std::move(other)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    BufferBase::operator=(std::move(other));
    return *this;
  }
  ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::size_t size() const noexcept { return size_; }

  // Copies `from` to elements [first, first + from.size()), after the tasks submitted so far that name this buffer have run
  // (as an argument: an address inside a struct is not seen). Throws errc::invalid_argument when it does not fit.
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
  std::span<T> host() const { return {static_cast<T*>(host_bytes()), size_}; }

  // Elements [first, first + count) as an argument of a task. Throws errc::invalid_argument when they do not exist.
  Slice<T> slice(std::size_t first, std::size_t count) const {
    check(first, count);
    return Slice<T>(use_, data() + first, count);
  }
  Slice<T> slice() const noexcept { return Slice<T>(use_, data(), size_); }

 private:
  friend class Runtime;
  Buffer(std::shared_ptr<detail::BufferState> state, std::size_t size) : BufferBase(std::move(state)), size_(size) {}

  void check(std::size_t first, std::size_t count) const {
    if (first > size_ || count > size_ - first) detail::throw_out_of_range(first, count, size_);
  }

  std::size_t size_ = 0;
};

}  // namespace dwell
