// What operators log: dwell::log(g, dwell::level::info, "x={} y={:.3f}", x, y).
//
// The device does not format. It stores the address of the format and the bits of the arguments to a ring in host memory, and the host
// formats the line (dwell/log.hpp). Needs C++20.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/log_format.hpp>

#if __cplusplus >= 202002L

namespace dwell {

namespace device {

// Writes lines of the task that runs.
class LogWriter {
 public:
  explicit DWELL_DEVICE LogWriter(const Group& group)
      : context_(group.context_), ring_(context_->log), opcode_(group.opcode_), seen_(look()) {}

  DWELL_DEVICE bool takes(level severity) const { return static_cast<u32>(severity) >= seen_.from; }

  template <class... A>
  DWELL_DEVICE void write(level severity, const LogFormat<A...>& format, const A&... arguments) const {
    constexpr u32 kWords = kLogFixedWords + (0 + ... + log_words_of(LogTypeOf<A>::value));
    constexpr u32 kSlots = log_slots_of(kWords - kLogFixedWords);
    const u32 matters = severity < level::error ? static_cast<u32>(severity) : static_cast<u32>(level::error);
    Quad* const slots = ring_slots();
    const auto task = header();
    // Reserves the next slots, if there is room. A reserved slot must be written: the host waits for it. One branch checks for room, for a
    // lost race and for a task that was made on the device (nodes are): a branch takes as long as the exchange.
    const bool room = fits(matters, kSlots, seen_);
    Place place = place_of(seen_.next);
    compute_here(&place.tag);
    compute_here(&place.quad);
    const u32 before = exchange(seen_.next, seen_.next + (room ? kSlots : 0));
    // Independent work, while the exchange is pending.
    u32 word1 = word_of(task, 1);
    const u32 word2 = word_of(task, 2);
    const u64 now = now_ns();
    u32 upper = 0;
    // In one word, or the compiler would branch for each.
    const u32 unusual = (before ^ seen_.next) | log_made_in(word1);
    if (__builtin_expect(room && unusual == 0 ? 1 : 0, 1) == 0) {
      if (!room || before != seen_.next) {
        const u64 first = reserve_again(matters, kSlots);
        if (first == kNone) {
          add<Order::relaxed>(ring_.dropped + matters, static_cast<u64>(1));
          return;
        }
        place = place_of(static_cast<u32>(first));
      }
      if (log_source_in(word1) == kLogNode || log_source_in(word1) == kLogMember) put_launch(word2, &word1, &upper);
    }
    compute_here(&upper);
    u32 word[kSlots * kLogSlotWords] = {};
    word[0] = LogHead{opcode_, matters, sizeof...(A), format.length()}.word();
    word[1] = word1;
    word[2] = word2;
    put(word + 3, now);
    put(word + 5, reinterpret_cast<u64>(format.text()));
    word[6] |= upper;
    u32 at = kLogFixedWords;
    u32 shift = 0;
    (put_argument(word, &at, &shift, arguments), ...);
    for (u32 i = 0; i < kSlots; ++i) {
      if (i != 0) place = place_of(place.position + 1);
      DWELL_UNROLL
      for (u32 k = 0; k < kLogSlotQuads; ++k) {
        const u32* const from = word + i * kLogSlotWords + k * 3;
        store_quad<Scope::system>(slots + place.quad + k, Quad{place.tag, {from[0], from[1], from[2]}});
      }
    }
  }

 private:
  static constexpr u32 kPause = 16;  // ticks between polls of host memory
  static constexpr u64 kNone = 1ULL << 32U;

  // The first words of the ring.
  struct State {
    u32 from;
    u32 mask;
    u32 next;
    u32 limit;
  };

  // Where a position lies in the ring.
  struct Place {
    u32 position;
    u32 tag;
    u32 quad;  // of its slot, the first
  };
  DWELL_DEVICE Place place_of(u32 position) const { return Place{position, log_tag_of(position), (position & seen_.mask) * kLogSlotQuads}; }
  // Computes it here: the compiler would move what depends on it across the branch that waits for the exchange, once for each path.
  static DWELL_DEVICE void compute_here([[maybe_unused]] u32* value) {
#if DWELL_SHARED_MEMORY
    asm volatile("" : "+r"(*value));
#endif
  }

  // On CUDA these use shared-memory addresses: a line is a chain of dependent accesses, and each is slower through a generic address.
#if DWELL_SHARED_MEMORY
  DWELL_DEVICE State look() const {
    State state;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(state.from), "=r"(state.mask), "=r"(state.next), "=r"(state.limit)
                 : "r"(address_in_shared(&ring_.from))
                 : "memory");
    return state;
  }
  DWELL_DEVICE Quad* ring_slots() const {
    u64 address;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(address) : "r"(address_in_shared(&ring_.slots)));
    return reinterpret_cast<Quad*>(address);
  }
  // Of the task that runs.
  DWELL_DEVICE u32 header() const {
    u32 address;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(address) : "r"(address_in_shared(&context_->arguments)));
    return address - kLogTaskHeader * 4;
  }
  static DWELL_DEVICE u32 word_of(u32 header, u32 number) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(header + number * 4));
    return word;
  }
  // Returns ring_.next as it was, and sets it to `to` where it was `next`.
  DWELL_DEVICE u32 exchange(u32 next, u32 to) const {
    u32 before;
    asm volatile("atom.relaxed.cta.shared.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "r"(address_in_shared(&ring_.next)), "r"(next), "r"(to)
                 : "memory");
    return before;
  }
#else
  DWELL_DEVICE State look() const { return State{ring_.from, ring_.mask, ring_.next, ring_.limit}; }
  DWELL_DEVICE Quad* ring_slots() const { return static_cast<Quad*>(ring_.slots); }
  DWELL_DEVICE const u32* header() const { return context_->arguments - kLogTaskHeader; }
  static DWELL_DEVICE u32 word_of(const u32* header, u32 number) { return header[number]; }
  DWELL_DEVICE u32 exchange(u32 next, u32 to) const {
    ring_.next = to;
    return next;
  }
#endif

  static DWELL_DEVICE bool fits(u32 severity, u32 slots, const State& at) {
    // More severe lines may exceed the limit. Signed: the limit may be ahead of an outdated `next`.
    const u32 beyond = log_room_of(severity, at.mask + 1) - log_room_of(0, at.mask + 1);
    return static_cast<i32>(at.next + slots - at.limit) <= static_cast<i32>(beyond);
  }
  // Retries to reserve slots, after a lost race or lack of room. Returns their position, or kNone.
  DWELL_DEVICE u64 reserve_again(u32 severity, u32 slots) const {
    for (;;) {
      const State at = look();
      if (!fits(severity, slots, at)) {
        if (!look_at_host()) return kNone;
      } else if (exchange(at.next, at.next + slots) == at.next) {
        return at.next;
      }
    }
  }

  // Polls how far the host has read. False when it has read no further, or the last poll was too recent.
  DWELL_DEVICE bool look_at_host() const {
    const u32 now = now_ticks();
    if (now - ring_.looked < kPause) return false;
    ring_.looked = now;
    // Acquire: pairs with the host's release after its reads of the slots, which are then free.
    const u32 limit = load<Order::acquire, Scope::system>(ring_.read) + log_room_of(0, ring_.mask + 1);
    if (limit == ring_.limit) return false;
    ring_.limit = limit;
    return true;
  }

  // Puts the launch of the node whose record is in this cell into word 1 and the upper bits of word 6. Changes nothing for a launch by an
  // operator, which has no position. The running node holds its launch open: no other has overwritten the head.
  DWELL_DEVICE void put_launch(u32 cell, u32* word1, u32* upper) const {
    const u64 record = context_->arena + static_cast<u64>(cell) * kLogCell;
    // The first link is the record's own cell in the exec, which begins with the head.
    const u64 head = record - static_cast<u64>(load<Order::relaxed, Scope::device>(pointer_to_global<const u32>(record))) * kLogCell;
    const Quad launch = load_quad<Scope::device>(pointer_to_global<const Quad>(head + kLogHead));
    if (log_made_in(launch.word[1]) != 0) return;
    const LogLaunch its{launch.lap};
    *word1 = its.word1();
    *upper = its.word6();
  }

  static DWELL_DEVICE void put(u32* to, u64 value) {
    to[0] = static_cast<u32>(value);
    to[1] = static_cast<u32>(value >> 32U);
  }
  template <class T>
  static DWELL_DEVICE void put_argument(u32* word, u32* at, u32* shift, const T& value) {
    constexpr LogType type = LogTypeOf<T>::value;
    if constexpr (type == LogType::pointer) {
      put(word + *at, reinterpret_cast<u64>(value));
    } else if constexpr (type == LogType::float64) {
      put(word + *at, bits_as<u64>(value));
    } else if constexpr (type == LogType::float32) {
      word[*at] = bits_as<u32>(static_cast<float>(value));
    } else if constexpr (log_words_of(type) == 2) {
      put(word + *at, static_cast<u64>(value));
    } else {
      word[*at] = static_cast<u32>(value);
    }
    word[7] |= static_cast<u32>(type) << *shift;
    *at += log_words_of(type);
    *shift += 4;
  }

  Context* context_;
  LogRing& ring_;
  u32 opcode_;
  State seen_;  // before anything was reserved
};

}  // namespace device

// Logs a line for the running task. Any thread may call it; each call logs a line, so guard it with `if (g.rank() == 0)`. `format` is a
// string literal in the grammar of log_format.hpp, which is checked against the arguments when the operator is compiled; arguments are up
// to 8 integers, bools, chars, floats (half and bfloat16 among them) and pointers. Never blocks: a line without room in the worker's ring
// is dropped and counted (Metrics::log_dropped). The last eighth of the ring is reserved for errors, the one before for warnings and
// errors. Below the threshold (Logging::from) a call costs one comparison.
template <class... A>
DWELL_DEVICE void log(const Group& g, level severity, typename device::Undeduced<device::LogFormat<A...>>::type format,
                      const A&... arguments) {
  static_assert(sizeof...(A) <= device::kLogArguments, "dwell::log takes 8 arguments at most: log two lines");
  format.refuse_mistake();
  const device::LogWriter writer(g);
  if (__builtin_expect(writer.takes(severity) ? 1 : 0, 0) != 0) writer.write(severity, format, arguments...);
}

}  // namespace dwell

#endif
