// A task before it has a place in the ring, with the arguments of a call packed into it. Internal: may change at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <dwell/after.hpp>
#include <dwell/buffer.hpp>
#include <dwell/device/exec.hpp>
#include <dwell/device/signature.hpp>
#include <dwell/ring.hpp>
#include <dwell/task.hpp>

namespace dwell {
class BufferView;
class GraphExec;
}  // namespace dwell

namespace dwell::detail {

inline constexpr std::uint32_t kMaxWords = 93;              // that travel in the ring
inline constexpr std::uint32_t kMostWords = 64 * 1024 / 4;  // with a block of memory
inline constexpr std::uint32_t kFirstSlotWords = 9;

// The wishes of a task: the bits that its slot carries (src/device/header.hpp; submission_queue.cpp asserts that they agree).
inline constexpr std::uint32_t kLink = 1;
inline constexpr std::uint32_t kDrain = 2;
inline constexpr std::uint32_t kWide = 4;
inline constexpr std::uint32_t kAfter = 8;     // Task::waits says for what
inline constexpr std::uint32_t kSystem = 32;   // some result may lie in host memory
inline constexpr std::uint32_t kMemory = 128;  // some argument leads to memory
inline constexpr std::uint32_t kShare = 256;   // with kGraph
inline constexpr std::uint32_t kHard = 512;    // with kLink: the task is not cancelled

// The source of the task (device::source); 0 for plain and wide tasks.
inline constexpr std::uint32_t kSourceAt = 12;
inline constexpr std::uint32_t kSource = 15U << kSourceAt;
inline constexpr std::uint32_t kGraph = 1U << kSourceAt;     // the launch of a graph
inline constexpr std::uint32_t kGang = 2U << kSourceAt;      // with kWide: the groups run at once
inline constexpr std::uint32_t kRepeated = 6U << kSourceAt;  // one group, `groups` times
constexpr bool is_of(std::uint32_t flags, std::uint32_t source) { return (flags & kSource) == source; }

inline constexpr std::uint32_t kLevelAt = 16;  // bits from here on: the task's priority as its header has it
inline constexpr std::uint32_t kLevel = 7U << kLevelAt;
inline constexpr std::uint32_t kNormalPriority = 3;

inline constexpr std::uint32_t kExecs = 1U << 20U;  // not in the slot: Task::execs says which graphs the task may launch

// Sixteen bytes in a vector register: the halves of a quad.
using Quad [[gnu::vector_size(16)]] = std::uint64_t;

// A task's first slot before it has a place in the ring.
struct FirstSlot {
  // Words 0 and 1 of the header, of which opcode and what follows from the place are 0 here.
  std::uint64_t head;
  // The arguments: quads 1 to 3 as the ring has them, with a lap of 0.
  Quad quad[3];

  // One of the argument words.
  std::uint32_t word(std::uint32_t i) const {
    const Quad& three = quad[i / 3];
    return static_cast<std::uint32_t>(i % 3 == 1 ? three[1] : three[i % 3 == 0 ? 0 : 1] >> 32U);
  }
};

// The tasks that a task waits for, by the words of their tickets (ticket.hpp).
struct Waits {
  const Shell* shell = nullptr;  // their runtime
  std::uint32_t count = 0;
  std::uint32_t any_result = 0;  // a bit each: its failure does not cancel the task
  std::uint64_t position[kMostTickets];

  // Adds those tickets that name a task. `of` is the runtime that they must belong to; null: any, but all the same. Throws as submit.
  void add(const After& after, const Shell* of) { add(after.tickets(), after.any_result(), of); }
  void add(std::span<const Ticket> tickets, bool any, const Shell* of);
};

struct ExecState;

// Any task.
struct Task {
  FirstSlot first;
  std::uint32_t words = 0;  // of arguments
  std::uint32_t flags = 0;
  std::uint32_t groups = 1;
  const std::uint32_t* rest = nullptr;                // the argument words behind the first slot; the caller's
  const Waits* waits = nullptr;                       // with kAfter; the caller's
  const std::shared_ptr<ExecState>* execs = nullptr;  // with kExecs: `exec_count` of them; the caller's
  std::uint32_t exec_count = 0;

  // One of the argument words in the first slot.
  std::uint32_t word(std::uint32_t i) const { return first.word(i); }

  // Returns whether it takes one slot and asks for no order: then its first slot says it all.
  bool plain() const { return words <= kFirstSlotWords && (flags & (kLink | kDrain | kAfter | kSource | kLevel | kExecs)) == 0; }
};

// First slots that get their places together.
struct Batch {
  static constexpr std::size_t kMost = 64;
  FirstSlot slot[kMost];  // uninitialised
  std::size_t size = 0;
  bool follows = false;  // others of the same submit_many

  // Member by member: a copy of the whole would go through memory.
  [[gnu::always_inline]] void add(const FirstSlot& first) {
    FirstSlot& to = slot[size++];
    to.head = first.head;
    for (int i = 0; i < 3; ++i) to.quad[i] = first.quad[i];
  }
};

template <class T>
inline constexpr bool kIsOrder =
    std::is_same_v<T, Link> || std::is_same_v<T, HardLink> || std::is_same_v<T, Drain> || std::is_same_v<T, After>;
template <class T>
inline constexpr bool kIsGang = std::is_same_v<T, GangSize>;
template <class T>
inline constexpr bool kIsPriority = std::is_same_v<T, Priority>;
template <class T>
inline constexpr bool kIsRepeat = std::is_same_v<T, Repeat>;
template <class T>
inline constexpr bool kIsShape = std::is_same_v<T, Groups> || kIsGang<T> || kIsRepeat<T>;
template <class T>
inline constexpr bool kIsModifier = kIsShape<T> || kIsOrder<T> || kIsPriority<T>;

template <class T>
inline constexpr bool kIsRing = std::is_same_v<T, ByteRing>;
template <class T>
inline constexpr bool kIsRing<Ring<T>> = true;

// The parameter type that an argument of type T stands for.
template <class T>
struct Argument {
  static_assert(!std::is_same_v<T, BufferView>, "the type of a BufferView is known at run time only: pass it through Arguments::add");
  static_assert(std::is_trivially_copyable_v<T>,
                "operator arguments are copied as bytes: pass a Buffer, a Slice, a Span, a GraphExec, or a plain value");
  static_assert(!std::is_same_v<T, Exec>, "an Exec is the device's: pass the GraphExec");
  static_assert(!kIsRing<T>, "a Ring is the device's: pass the RingBuffer");
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
template <class T>
struct Argument<RingBuffer<T>> {
  using type = Ring<T>;
};
template <>
struct Argument<ByteRingBuffer> {
  using type = ByteRing;
};

template <>
struct Argument<GraphExec> {
  using type = Exec;
};
template <class T>
inline constexpr bool kIsExec = std::is_same_v<T, GraphExec>;
// Whether its argument stands for memory of a buffer.
template <class T>
inline constexpr bool kIsBuffer = !kIsModifier<T> && !kIsExec<T> && !std::is_same_v<T, typename Argument<T>::type>;

// Argument words that a T takes.
template <class T>
constexpr std::uint32_t words_of() {
  if constexpr (kIsModifier<T>)
    return 0;
  else if constexpr (device::IsSpan<typename Argument<T>::type>::value || kIsRing<typename Argument<T>::type>)
    return 3;
  else
    return (sizeof(typename Argument<T>::type) + 3) / 4;
}

// The graphs that a task may launch.
template <std::uint32_t most>
struct ExecList {
  std::shared_ptr<ExecState> state[most];
};

// Room for what the first slot of a task with arguments of these types does not hold.
template <class... Given>
struct Rest {
  static_assert((0U + ... + (kIsShape<Given> ? 1U : 0U)) <= 1, "a task has one of groups(n), gang(n) and repeat(n)");
  static constexpr std::uint32_t words = (0U + ... + words_of<Given>());
  static constexpr bool waits = (false || ... || std::is_same_v<Given, After>);
  std::uint32_t word[words > kFirstSlotWords&& words <= kMostWords ? words - kFirstSlotWords : 1];
  std::conditional_t<waits, Waits, std::nullptr_t> wait{};
  static constexpr std::uint32_t execs = (0U + ... + (kIsExec<Given> ? 1U : 0U));
  std::conditional_t<execs != 0, ExecList<execs>, std::nullptr_t> exec{};
  std::shared_ptr<ExecState>* exec_list() {
    if constexpr (execs != 0)
      return exec.state;
    else
      return nullptr;
  }
  Waits* wait_list() {
    if constexpr (waits)
      return &wait;
    else
      return nullptr;
  }
};

// Whether every task with arguments of these types takes one slot and asks for no order (Task::plain).
template <class... Given>
inline constexpr bool kAlwaysPlain =
    Rest<Given...>::words <= kFirstSlotWords &&
    !(false || ... || (kIsOrder<Given> || kIsGang<Given> || kIsRepeat<Given> || kIsPriority<Given> || kIsExec<Given>));

// Returns whether an argument of kind `given` can be what the operator declared.
constexpr bool accepts(const Parameter& declared, const Parameter& given) {
  return declared == given || (declared.kind == Kind::const_span && given.kind == Kind::span && declared.element == given.element &&
                               declared.bytes == given.bytes);
}

[[noreturn]] void throw_too_many_words();
[[noreturn]] void throw_bad_groups(std::uint32_t count);
[[noreturn]] void throw_bad_repeat(std::uint32_t count);
[[noreturn]] void throw_two_shapes();
[[noreturn]] void throw_bad_priority(std::uint32_t level);
// Call `index` of what submit_many was given has put `puts` tasks.
[[noreturn]] void throw_bad_puts(std::size_t index, std::uint32_t puts);
// Why a buffer is no argument for a task of the runtime `shell`: it is empty, stale, or another runtime's.
[[noreturn]] void throw_unusable_buffer(const BufferUse* use, const Shell* shell);

// A task that is being filled. A local of the caller, so that the first slot never leaves the registers: a load of a whole right
// after it was stored in pieces stalls.
struct Packing {
  Packing(std::uint32_t* rest_words, Waits* wait_list, std::shared_ptr<ExecState>* exec_list = nullptr)
      : rest(rest_words), waits(wait_list), execs(exec_list) {}

  std::uint64_t half[6] = {};  // of the first slot's quads 1 to 3
  std::uint32_t words = 0;
  std::uint32_t flags = 0;
  std::uint32_t groups = 1;
  std::uint32_t* rest;                // words behind the first slot go here
  Waits* waits;                       // and tickets of `after` here
  std::shared_ptr<ExecState>* execs;  // and graphs here
  std::uint32_t exec_count = 0;

  [[gnu::always_inline]] void add(std::uint32_t value) {
    if (words < kFirstSlotWords) {
      const std::uint32_t low = words % 3 == 0 ? 0 : 1;  // which half of the quad
      half[words / 3 * 2 + low] |= words % 3 == 1 ? value : static_cast<std::uint64_t>(value) << 32U;
    } else {
      rest[words - kFirstSlotWords] = value;
    }
    ++words;
  }

  [[gnu::always_inline]] void add(SpanWords span) {
    if (words % 3 == 0 && words < kFirstSlotWords) {
      half[words / 3 * 2] = span.low;
      half[words / 3 * 2 + 1] = span.high;
      words += 3;
    } else {
      add(static_cast<std::uint32_t>(span.low >> 32U));
      add(static_cast<std::uint32_t>(span.high));
      add(static_cast<std::uint32_t>(span.high >> 32U));
    }
  }

  void add_exec(std::shared_ptr<ExecState> state) { execs[exec_count++] = std::move(state); }

  [[gnu::always_inline]] Task task() const {
    const std::uint64_t head = groups << 16U | static_cast<std::uint64_t>(1 | (flags & (kWide | kSystem | kMemory)) << 4U) << 32U;
    return Task{{head, {Quad{half[0], half[1]}, Quad{half[2], half[3]}, Quad{half[4], half[5]}}},
                words,
                flags,
                groups,
                rest,
                (flags & kAfter) != 0 ? waits : nullptr,
                execs,
                exec_count};
  }
};

// A task with `words` argument words from `word` on, which must live as long, as must `waits`.
inline Task task_of(const std::uint32_t* word, std::uint32_t words, std::uint32_t flags, std::uint32_t groups,
                    const Waits* waits = nullptr) {
  const std::uint32_t first = words < kFirstSlotWords ? words : kFirstSlotWords;
  Packing packing(nullptr, nullptr);
  for (std::uint32_t i = 0; i < first; ++i) packing.add(word[i]);
  packing.words = words;
  packing.flags = flags;
  packing.groups = groups;
  Task task = packing.task();
  task.rest = word + first;
  if ((flags & kAfter) != 0) task.waits = waits;
  return task;
}

// Adds a span in memory of the runtime `shell`.
template <class Sink>
[[gnu::always_inline]] inline void put_slice(Sink& to, const Shell* shell, const SliceParts& slice) {
  if (slice.use->shell != shell) [[unlikely]]
    throw_unusable_buffer(slice.use, shell);
  to.add(slice.words);
  to.flags |= slice.use->flags;
}

// A graph as an argument: its offset in the arena, the flags of a task that may launch it, and what keeps it alive. Throws
// errc::invalid_argument for an empty handle and one of another runtime than `shell` (null: any), errc::stale_handle for one of an earlier
// generation.
struct ExecWords {
  std::uint64_t offset;
  std::uint32_t flags;
  std::shared_ptr<ExecState> state;

  ExecWords(const GraphExec& exec, const Shell* shell);
};

// Adds one argument, for which there is room. `shell` is the runtime that buffers must belong to.
template <class Sink, class T>
[[gnu::always_inline]] inline void put(Sink& to, const Shell* shell, const T& value) {
  if constexpr (std::is_same_v<T, Groups> || kIsGang<T>) {
    if (value.count == 0 || value.count > 0xFFFF) throw_bad_groups(value.count);
    to.groups = value.count;
    if (value.count > 1 || kIsGang<T>) to.flags |= kWide | (kIsGang<T> ? kGang : 0);
  } else if constexpr (kIsRepeat<T>) {
    if (value.count == 0 || value.count > 0xFFFF) throw_bad_repeat(value.count);
    to.groups = value.count;
    if (value.count > 1) to.flags |= kRepeated;
  } else if constexpr (kIsPriority<T>) {
    if (value.level > kLevel >> kLevelAt) throw_bad_priority(value.level);
    to.flags = (to.flags & ~kLevel) | (value.level ^ kNormalPriority) << kLevelAt;
  } else if constexpr (std::is_same_v<T, Link>) {
    to.flags |= kLink;
  } else if constexpr (std::is_same_v<T, HardLink>) {
    to.flags |= kLink | kHard;
  } else if constexpr (std::is_same_v<T, Drain>) {
    to.flags |= kDrain;
  } else if constexpr (std::is_same_v<T, After>) {
    to.waits->add(value, shell);
    to.flags |= kAfter;
  } else if constexpr (kIsExec<T>) {
    ExecWords exec(value, shell);
    to.add(static_cast<std::uint32_t>(exec.offset));
    to.add(static_cast<std::uint32_t>(exec.offset >> 32U));
    to.flags |= exec.flags | kExecs;
    to.add_exec(std::move(exec.state));
  } else {
    constexpr std::uint32_t words = words_of<T>();
    if constexpr (std::is_same_v<T, typename Argument<T>::type>) {
      if constexpr (device::IsSpan<T>::value) {
        // Where a bare span lies is not known here.
        to.add(SpanWords::of(reinterpret_cast<std::uint64_t>(value.data()), value.size()));
        to.flags |= kSystem | kMemory;
      } else {
        std::uint32_t word[words] = {};
        std::memcpy(word, &value, sizeof(T));
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // the padding of a structure travels too
#endif
        for (const std::uint32_t part : word) to.add(part);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
        if constexpr (device::ElementKind<T>::value == Kind::structure || std::is_pointer_v<T>) to.flags |= kSystem | kMemory;
      }
    } else {
      put_slice(to, shell, SliceParts(value));
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

}  // namespace dwell::detail
