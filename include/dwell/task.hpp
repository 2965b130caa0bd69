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
inline constexpr std::uint32_t kFirstSlotWords = 9;

// What a task asks for: the bits that its slot carries (src/device/ring.hpp, which asserts that they agree).
inline constexpr std::uint32_t kLink = 1;
inline constexpr std::uint32_t kDrain = 2;
inline constexpr std::uint32_t kWide = 4;
inline constexpr std::uint32_t kSystem = 32;       // some result may lie in host memory
inline constexpr std::uint32_t kMemory = 128;      // some argument leads to memory
inline constexpr std::uint32_t kLong = 1U << 16U;  // takes more than one slot; stays on the host
// What keeps a task from the short way through the submission queue.
inline constexpr std::uint32_t kNotPlain = kLink | kDrain | kLong;

// A task before it has a place in the ring. Its first slot is laid out as the ring has it, four quads of a lap (0 here) and three
// words, so that placing it is four 16-byte copies. Words 1 and 2 hold what the header says of one slot: groups and flags.
// Filled by Cursor; uninitialised until then.
struct Task {
  alignas(16) std::uint32_t slot[16];
  std::uint32_t words;  // of arguments
  std::uint32_t flags;
  std::uint32_t groups;
  std::uint32_t rest[kMaxWords - kFirstSlotWords];  // argument words behind the first slot
};

template <class T>
inline constexpr bool kIsModifier = std::is_same_v<T, Groups> || std::is_same_v<T, Link> || std::is_same_v<T, Drain>;

// What an argument of type T is to an operator.
template <class T>
struct Argument {
  static_assert(std::is_trivially_copyable_v<T>,
                "operator arguments are copied as bytes: pass a Buffer, a Slice, a Span, or a plain value");
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

// Whether an argument of kind `given` can be what the operator declared.
constexpr bool accepts(const Parameter& declared, const Parameter& given) {
  return declared == given || (declared.kind == Kind::const_span && given.kind == Kind::span && declared.element == given.element &&
                               declared.bytes == given.bytes);
}

[[noreturn]] void throw_too_many_words();
[[noreturn]] void throw_bad_groups(std::uint32_t count);
// Why a buffer is no argument for a task of the runtime `shell`: it is empty, stale, or another runtime's.
[[noreturn]] void throw_unusable_buffer(const BufferUse* use, const Shell* shell);

// A task that is being filled. A local of the caller, so that the words of the first slot stay in registers until `finish` stores them
// in sixteens: a task stored in fours would stall whoever copies it to the ring in sixteens right after.
struct Cursor {
  std::uint32_t first[kFirstSlotWords] = {};
  std::uint32_t words = 0;
  std::uint32_t flags = 0;
  std::uint32_t groups = 1;

  [[gnu::always_inline]] void add(Task& task, std::uint32_t value) {
    if (words < kFirstSlotWords)
      first[words] = value;
    else
      task.rest[words - kFirstSlotWords] = value;
    ++words;
  }

  // Writes what `add` has not. Returns the task's flags. May be called again after more words.
  [[gnu::always_inline]] std::uint32_t finish(Task& task) const {
    using Quad [[gnu::vector_size(16)]] = std::uint32_t;
    auto* const quad = reinterpret_cast<Quad*>(task.slot);
    const std::uint32_t all = flags | (words > kFirstSlotWords ? kLong : 0);
    quad[0] = Quad{0, groups << 16U, 1 | (flags & 0xFFU) << 4U, 0};
    quad[1] = Quad{0, first[0], first[1], first[2]};
    quad[2] = Quad{0, first[3], first[4], first[5]};
    quad[3] = Quad{0, first[6], first[7], first[8]};
    task.words = words;
    task.flags = all;
    task.groups = groups;
    return all;
  }
};

[[gnu::always_inline]] inline void put_span(Task& task, Cursor& at, const void* data, std::uint64_t size) {
  const auto address = reinterpret_cast<std::uint64_t>(data);
  at.add(task, static_cast<std::uint32_t>(address));
  at.add(task, static_cast<std::uint32_t>(address >> 32U) | static_cast<std::uint32_t>(size >> 32U) << 20U);
  at.add(task, static_cast<std::uint32_t>(size));
  at.flags |= kMemory;
}

// Adds one argument. `shell` is the runtime that buffers must belong to.
template <class T>
[[gnu::always_inline]] inline void put(Task& task, Cursor& at, const Shell* shell, const T& value) {
  if constexpr (std::is_same_v<T, Groups>) {
    if (value.count == 0 || value.count > 0xFFFF) throw_bad_groups(value.count);
    at.groups = value.count;
    if (value.count > 1) at.flags |= kWide;
  } else if constexpr (std::is_same_v<T, Link>) {
    at.flags |= kLink;
  } else if constexpr (std::is_same_v<T, Drain>) {
    at.flags |= kDrain;
  } else {
    constexpr std::uint32_t words = (device::IsSpan<typename Argument<T>::type>::value ? 12 : sizeof(T) + 3) / 4;
    if (at.words + words > kMaxWords) throw_too_many_words();
    if constexpr (std::is_same_v<T, typename Argument<T>::type>) {
      if constexpr (device::IsSpan<T>::value) {
        // Where a bare span lies is not known here.
        put_span(task, at, value.data(), value.size());
        at.flags |= kSystem;
      } else {
        std::uint32_t word[words] = {};
        std::memcpy(word, &value, sizeof(T));
        for (const std::uint32_t part : word) at.add(task, part);
        if constexpr (device::ElementKind<T>::value == Kind::structure || std::is_pointer_v<T>) at.flags |= kSystem | kMemory;
      }
    } else {
      if constexpr (requires { value.slice(); }) {
        put(task, at, shell, value.slice());
      } else {
        BufferUse* const use = value.use();
        if (use == nullptr || use->shell != shell) throw_unusable_buffer(use, shell);
        put_span(task, at, value.span().data(), value.span().size());
        at.flags |= use->flags;
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
    [[maybe_unused]] std::uint32_t at = 0;
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
