// What operators log: dwell::log(g, dwell::level::info, "x={} y={:.3f}", x, y).
//
// Nothing is formatted here: the line goes into a ring in memory of the host as the address of its format and the bits of its arguments,
// and the host makes a text of it (dwell/log.hpp). Needs C++20.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/log_format.hpp>

#if __cplusplus >= 202002L

namespace dwell {

namespace device {

// Writes lines of the task that runs.
class LogWriter {
 public:
  explicit DWELL_DEVICE LogWriter(const Group& group) : context_(group.context_), ring_(context_->log), opcode_(group.opcode_) {}

  template <class... A>
  DWELL_DEVICE void write(level severity, const LogFormat<A...>& format, const A&... arguments) const {
    constexpr u32 kWords = kLogFixedWords + (0 + ... + log_words_of(LogTypeOf<A>::value));
    constexpr u32 kSlots = log_slots_of(kWords - kLogFixedWords);
    const u32 matters = severity < level::error ? static_cast<u32>(severity) : static_cast<u32>(level::error);
    const u64 now = now_ns();
    // Beside the reservation, which is waited for.
    Quad* const slots = static_cast<Quad*>(ring_.slots);
    const u32* const header = task() - kLogTaskHeader;
    State state = look();
    const u32 word1 = header[1];
    const u32 word2 = header[2];
    if (!reserve(matters, kSlots, static_cast<u32>(now >> kTickShift), &state)) {
      add<Order::relaxed>(ring_.dropped + matters, static_cast<u64>(1));
      return;
    }
    u32 word[kSlots * kLogSlotWords] = {};
    word[0] = LogHead{opcode_, matters, sizeof...(A), format.length()}.word();
    word[1] = word1;
    word[2] = word2;
    put(word + 3, now);
    put(word + 5, reinterpret_cast<u64>(format.text()));
    u32 at = kLogFixedWords;
    u32 shift = 0;
    (put_argument(word, &at, &shift, arguments), ...);
    for (u32 i = 0; i < kSlots; ++i) {
      const u32 position = state.next + i;
      Quad* const slot = slots + (position & ((1U << state.shift) - 1)) * kLogSlotQuads;
      const u32 lap = (position >> state.shift) + 1;
      DWELL_UNROLL
      for (u32 k = 0; k < kLogSlotQuads; ++k) {
        const u32* const from = word + i * kLogSlotWords + k * 3;
        store_quad<Scope::system>(slot + k, Quad{lap, {from[0], from[1], from[2]}});
      }
    }
  }

 private:
  static constexpr u32 kPause = 16;  // ticks between looks at the host's memory

  DWELL_DEVICE const u32* task() const {
#if DWELL_ON_CUDA
    return pointer_to_shared<const u32>(context_->arguments);
#else
    return context_->arguments;
#endif
  }

  // The first words of the ring.
  struct State {
    u32 from;
    u32 shift;
    u32 next;
    u32 seen;
  };
  DWELL_DEVICE State look() const {
#if DWELL_ON_CUDA
    const volatile u32* const words = &ring_.from;
    return State{words[0], words[1], words[2], words[3]};
#else
    return State{ring_.from, ring_.shift, ring_.next, ring_.seen};
#endif
  }
  // Reserves slots from `next` on; false when another thread of the group has done so. The memory is shared: an exchange through a generic
  // address takes several times as long.
  DWELL_DEVICE bool take(u32 next, u32 slots) const {
#if DWELL_ON_CUDA
    u32 before;
    asm volatile("atom.relaxed.cta.shared.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "r"(address_in_shared(&ring_.next)), "r"(next), "r"(next + slots)
                 : "memory");
    return before == next;
#else
    ring_.next = next + slots;
    return true;
#endif
  }

  // Takes the next slots of the ring, which was last seen like `at`, if there is room; `at` tells which. A slot that is taken is also
  // written, so the host waits for it.
  DWELL_DEVICE bool reserve(u32 severity, u32 slots, u32 now, State* at) const {
    for (;; *at = look()) {
      // Signed: `seen` may be ahead of a `next` that is not the newest one.
      if (static_cast<i32>(at->next + slots - at->seen) > static_cast<i32>(log_room_of(severity, 1U << at->shift))) {
        if (!look_at_host(now)) return false;
        continue;
      }
      if (take(at->next, slots)) return true;
    }
  }

  // Looks how far the host has read. False when it has read no further, or the last look was just now.
  DWELL_DEVICE bool look_at_host(u32 now) const {
    if (now - ring_.looked < kPause) return false;
    ring_.looked = now;
    // Pairs with the host's release behind its reads of the slots, which are then free.
    const u32 read = load<Order::acquire, Scope::system>(ring_.read);
    if (read == ring_.seen) return false;
    ring_.seen = read;
    return true;
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
};

}  // namespace device

// Logs a line, of the task that runs. Any thread may call it, and each that does logs one: usually `if (g.rank() == 0)`. `format` is a
// string literal in the grammar of log_format.hpp, which is checked against the arguments when the operator is compiled; arguments are up
// to 8 integers, bools, chars, floats (half and bfloat16 among them) and pointers. Waits for nothing: a line for which the worker's ring
// has no room is dropped and counted (Metrics::log_dropped); the last eighth of the ring is for errors, the one before for warnings too.
// Below the threshold (Logging::from) a call costs one comparison.
template <class... A>
DWELL_DEVICE void log(const Group& g, level severity, typename device::Undeduced<device::LogFormat<A...>>::type format,
                      const A&... arguments) {
  static_assert(sizeof...(A) <= device::kLogArguments, "dwell::log takes 8 arguments at most: log two lines");
  format.refuse_mistake();
  if (__builtin_expect(g.logs(severity) ? 1 : 0, 0) != 0) device::LogWriter(g).write(severity, format, arguments...);
}

}  // namespace dwell

#endif
