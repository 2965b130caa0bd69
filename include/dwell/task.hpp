// From the arguments of a submit call to the words of a task.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <dwell/buffer.hpp>
#include <dwell/device/signature.hpp>
#include <dwell/error.hpp>

namespace dwell {

// How a task is run, as further arguments of submit, in any order behind the operator's own.
struct Groups {
  std::uint32_t count;
};
// The task is shared by `count` groups, 1 to 65535: Group::index and Group::count tell them apart.
constexpr Groups groups(std::uint32_t count) { return Groups{count}; }

struct Link {};
// The task starts only after the one that was submitted before it (by any thread) is complete, as io_uring's IOSQE_IO_LINK.
inline constexpr Link link{};

struct Drain {};
// The task starts only after all submitted before it are complete, and none submitted after it starts before it is complete, as
// io_uring's IOSQE_IO_DRAIN.
inline constexpr Drain drain{};

namespace detail {

inline constexpr std::uint32_t kMaxWords = 93;

// A task before it has a place in the ring.
struct Task {
  std::uint32_t words = 0;            // of arguments
  std::uint32_t groups = 1;
  std::uint32_t parameters = 0;
  std::uint32_t buffers = 0;
  bool link = false;
  bool drain = false;
  bool system = false;                // some result may lie in host memory
  bool reads = false;                 // some argument leads to memory
  alignas(16) std::uint32_t word[kMaxWords + 3];
  BufferState* buffer[kMaxParameters];

  // The words of a first slot are copied whether they are used or not.
  Task() {
    for (std::uint32_t i = 0; i < 9; ++i) word[i] = 0;
  }

};

template <class T>
inline constexpr bool kIsModifier = std::is_same_v<T, Groups> || std::is_same_v<T, Link> || std::is_same_v<T, Drain>;

// What an argument of type T is to an operator.
template <class T>
struct Argument {
  static_assert(std::is_trivially_copyable_v<T>, "operator arguments are copied as bytes: pass a Buffer, a Slice, a Span, or a plain value");
  using type = T;
};
template <class T>
struct Argument<Buffer<T>> {
  using type = Span<T>;
};
template <class T>
struct Argument<Slice<T>> {
  using type = Span<T>;
};

// Throws when an argument of kind `given` cannot be what the operator declared.
constexpr bool accepts(const Parameter& declared, const Parameter& given) {
  return declared == given || (declared.kind == Kind::const_span && given.kind == Kind::span && declared.element == given.element &&
                               declared.bytes == given.bytes);
}

inline void put_span(Task& task, const void* data, std::uint64_t size) {
  const auto address = reinterpret_cast<std::uint64_t>(data);
  std::uint32_t* const to = task.word + task.words;
  to[0] = static_cast<std::uint32_t>(address);
  to[1] = static_cast<std::uint32_t>(address >> 32U & 0xFFFFFU) | static_cast<std::uint32_t>(size >> 32U) << 20U;
  to[2] = static_cast<std::uint32_t>(size);
  task.words += 3;
  task.reads = true;
}

// Remembers that the task at `position` names the buffer. Positions come in order.
void note_use(BufferState* buffer, std::uint64_t position);

[[noreturn]] void throw_too_many_words();
[[noreturn]] void throw_bad_groups(std::uint32_t count);

template <class T>
void put(Task& task, const T& value) {
  if constexpr (std::is_same_v<T, Groups>) {
    if (value.count == 0 || value.count > 0xFFFF) throw_bad_groups(value.count);
    task.groups = value.count;
  } else if constexpr (std::is_same_v<T, Link>) {
    task.link = true;
  } else if constexpr (std::is_same_v<T, Drain>) {
    task.drain = true;
  } else {
    constexpr std::uint32_t words = (device::IsSpan<typename Argument<T>::type>::value ? 12 : sizeof(T) + 3) / 4;
    if (task.words + words > kMaxWords) throw_too_many_words();
    ++task.parameters;
    if constexpr (std::is_same_v<T, typename Argument<T>::type>) {
      if constexpr (device::IsSpan<T>::value) {
        // Where a bare span lies is not known here.
        put_span(task, value.data(), value.size());
        task.system = true;
      } else {
        task.word[task.words + words - 1] = 0;
        std::memcpy(task.word + task.words, &value, sizeof(T));
        task.words += words;
        if constexpr (device::ElementKind<T>::value == Kind::structure || std::is_pointer_v<T>) task.reads = task.system = true;
      }
    } else {
      if constexpr (requires { value.slice(); }) {
        put(task, value.slice());
        --task.parameters;
      } else {
        put_span(task, value.span().data(), value.span().size());
        task.system = task.system || value.memory() == Memory::host;
        task.buffer[task.buffers++] = value.state();
      }
    }
  }
}

// The parameters that a list of arguments amounts to, modifiers left out.
template <class... Arguments>
struct Given {
  static constexpr std::uint32_t count = (0U + ... + (kIsModifier<Arguments> ? 0U : 1U));
  Parameter list[count + 1] = {};
  constexpr Given() {
    std::uint32_t at = 0;
    (add<Arguments>(at), ...);
  }

 private:
  template <class T>
  constexpr void add(std::uint32_t& at) {
    if constexpr (!kIsModifier<T>) list[at++] = device::Describe<typename Argument<T>::type>::value;
  }
};

}  // namespace detail
}  // namespace dwell
