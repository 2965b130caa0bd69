// Rings of messages: between operators, and between operators and the host.
//
//   DWELL_OPERATOR(measure)(dwell::Group g, dwell::Ring<Sample> samples, dwell::u32 step) {
//     const Sample sample = ...;
//     samples.push_each(g, sample.is_new, sample);  // a message of each thread that has one
//   }
//   DWELL_OPERATOR(collect)(dwell::Group g, dwell::Ring<Sample> samples, dwell::Span<float> sums) {
//     samples.drain(g, [&](const Sample& sample, dwell::u64) { sums.atomic_add(sample.place, sample.value); });
//   }
//
// Messages of one producer are read in its order. No member waits for others: a push fails when the ring is full, a pop when it is empty.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/operator.hpp>
#include <dwell/device/ring_core.hpp>
#include <dwell/device/signature.hpp>
#include <dwell/device/status.hpp>

namespace dwell {

namespace device {

// A message in registers, as the quads of its slot.
template <class T>
struct RingWords {
  static_assert(__is_trivially_copyable(T), "messages are copied as bytes: use an arithmetic type or a plain struct");
  static_assert(sizeof(T) <= 4096, "a message has at most 4 KiB: use a ByteRing");
  static_assert(alignof(T) <= 16, "a message is aligned to 16 bytes at most");
  static constexpr u32 quads = (sizeof(T) + 15) / 16;
  static constexpr u32 words = (sizeof(T) + 3) / 4;

  DWELL_DEVICE explicit RingWords(const T& value) {
    quad[quads - 1] = Quad{0, {0, 0, 0}};
    copy_bytes(quad, &value, sizeof(T));
  }
  DWELL_DEVICE explicit RingWords(const u8* slot) {
    const Quad* const from = reinterpret_cast<const Quad*>(slot);
    for (u32 i = 0; i < quads; ++i) quad[i] = from[i];
  }
  DWELL_DEVICE void put(u8* slot) const {
    Quad* const to = reinterpret_cast<Quad*>(slot);
    for (u32 i = 0; i < quads; ++i) to[i] = quad[i];
  }
  DWELL_DEVICE T value() const {
    union {
      T value;
      Quad quad[quads];
    } both;
    copy_bytes(&both, quad, sizeof(quad));
    return both.value;
  }
  DWELL_DEVICE u32 checksum(u64 position, u32 head) const {
    u32 crc = RingCore::begin_checksum(position, head);
#if DWELL_CRC32C
    if (has_crc32c()) {
      u32 word[words];
      copy_bytes(word, quad, sizeof(word));
      return ~crc32c_by_instruction(crc, word, words);
    }
#endif
    DWELL_UNROLL_AT_MOST(words, 16)
    for (u32 i = 0; i < words; ++i) {
      const Quad& part = quad[i / 4];
      crc = crc32c_step(crc, i % 4 == 0 ? part.lap : part.word[i % 4 - 1]);
    }
    return ~crc;
  }

  Quad quad[quads];
};

// Fails the task for a push that did not succeed.
DWELL_DEVICE void refuse_push(const Group& g, const RingCore& core) {
  g.fail(!core.may_push() ? status::ring_refused : core.closed() ? status::ring_closed : status::ring_full);
}

}  // namespace device

// A slot that a producer has reserved and not committed. Dropped without commit or discard, as when an operator returns early or throws, it
// is abandoned: readers skip and count it.
template <class T>
class RingSlot {
 public:
  DWELL_DEVICE RingSlot(device::RingCore core, u64 position) : core_(core), position_(position) {}
  DWELL_DEVICE RingSlot(RingSlot&& other) noexcept : core_(other.core_), position_(other.position_) { other.position_ = kNone; }
  RingSlot(const RingSlot&) = delete;
  RingSlot& operator=(const RingSlot&) = delete;
  DWELL_DEVICE ~RingSlot() { finish(device::Segment::abandoned, 0); }

  // Returns whether there was room.
  DWELL_DEVICE explicit operator bool() const { return position_ != kNone; }
  // The message, uninitialised.
  DWELL_DEVICE T& operator*() const { return *reinterpret_cast<T*>(core_.slot(position_)); }
  DWELL_DEVICE T* operator->() const { return &**this; }
  // Lets readers have the message, or tells them to skip it.
  DWELL_DEVICE void commit(u8 type = 0) { finish(device::Segment::message, type); }
  DWELL_DEVICE void discard() { finish(device::Segment::discarded, 0); }

 private:
  static constexpr u64 kNone = ~0ULL;
  DWELL_DEVICE void finish(device::Segment segment, u32 type) {
    if (position_ == kNone) return;
    core_.commit(position_, device::RingHead{sizeof(T), segment, type});
    position_ = kNone;
  }

  device::RingCore core_;
  u64 position_;
};

// A ring of messages of one type. An operator gets it as an argument, for which the host passes a RingBuffer, and may pass it to tasks that
// it makes. A small value; valid while the task runs. Members may be called by any thread at any time, but for those marked "together",
// which all threads of the group call.
template <class T>
class Ring {
 public:
  DWELL_DEVICE explicit Ring(device::RingControl* control) : core_(control) {}

  // Appends a message. Returns false, with nothing done, if the ring is full, or closed. Slots become free in blocks of 1/32 of the ring,
  // so a ring is full with at least 31/32 of its messages.
  DWELL_DEVICE bool try_push(const T& value, u8 type = 0) const {
    u64 at = 0;
    if (core_.reserve(1, 1, &at) == 0) return false;
    put(at, value, type);
    return true;
  }
  // The same; fails the task with status::ring_full or status::ring_closed instead.
  DWELL_DEVICE bool push(const Group& g, const T& value, u8 type = 0) const {
    const bool pushed = try_push(value, type);
    if (!pushed) device::refuse_push(g, core_);
    return pushed;
  }
  // Together: appends a message of each thread for which `has` holds, those of a warp in a row. Returns whether the caller's was appended.
  DWELL_DEVICE bool push_each(const Group&, bool has, const T& value, u8 type = 0) const {
    const u32 wanted = device::ballot(has);
    if (wanted == 0) return false;
    const u32 before = device::ones(wanted & ((1U << device::lane()) - 1U));
    u64 at = 0;
    u32 count = device::lane() == 0 ? core_.reserve(1, device::ones(wanted), &at) : 0;
    count = device::broadcast(count);
    at = device::broadcast(static_cast<u32>(at)) | static_cast<u64>(device::broadcast(static_cast<u32>(at >> 32U))) << 32U;
    const bool pushed = has && before < count;
#if DWELL_PARALLEL_GROUP
    if (kWholeLines && count == kLanes && core_.crosses()) {
      put_warp(at, value, type);
      return true;
    }
#endif
    if (pushed) put(at + before, value, type);
    return pushed;
  }
  // Reserves a slot to write the message in place.
  DWELL_DEVICE RingSlot<T> reserve() const {
    u64 at = ~0ULL;
    if (core_.reserve(1, 1, &at) == 0) at = ~0ULL;
    return RingSlot<T>(core_, at);
  }
  // Ends the ring: later pushes fail, and readers find the end behind the messages before. Of an operator whose side has the producers.
  DWELL_DEVICE void close() const { core_.close(); }

  // Takes the next message. Returns false if there is none.
  DWELL_DEVICE bool try_pop(T& to) const {
    for (device::RingClaim claim{}; core_.claim(&claim);) {
      const device::RingWords<T> words(core_.slot(claim.position));
      const bool good = is_good(claim, words);
      core_.release(claim.position, claim.slots);
      if (!good) continue;
      to = words.value();
      return true;
    }
    return false;
  }
  // Copies the next message, and leaves it there. Returns false if there is none, or another consumer takes it meanwhile.
  DWELL_DEVICE bool peek(T& to) const {
    const u64 at = core_.head();
    if (!core_.may_pop() || !core_.is_there(at)) return false;
    core_.acquire();
    const device::RingWords<T> words(core_.slot(at));
    const device::Quad quad = core_.load_head(at);
    core_.acquire();  // the words before the head: as long as it stands there, nobody has released the slot
    if (core_.head() != at || device::RingHead::from(quad.word[1]).segment != device::Segment::message) return false;
    to = words.value();
    return true;
  }
  // Together: takes messages that are there, some hundreds a warp at most, and calls f(const T& message, u64 position) for each, by any
  // thread. Returns how many the caller's warp has taken, those that were skipped included.
  template <class F>
  DWELL_DEVICE u32 take(const Group&, F f) const {
    if (!core_.may_pop()) return 0;
    u64 at = core_.head();
    for (;;) {
      at = device::broadcast(static_cast<u32>(at)) | static_cast<u64>(device::broadcast(static_cast<u32>(at >> 32U))) << 32U;
      const u32 count = core_.template committed<kRounds>(at);
      if (count == 0) return 0;
      const u64 before = device::lane() == 0 ? core_.claim(at, at + count) : 0;
      const bool claimed = device::broadcast(before == at ? 1U : 0U) != 0;
      if (!claimed) {
        at = before;
        continue;
      }
      core_.acquire();
      for (u32 i = device::lane(); i < count; i += kLanes) {
        const u64 position = at + i;
        const device::Quad quad = core_.load_head(position);
        const device::RingWords<T> words(core_.slot(position));
        if (is_good(device::RingCore::claimed(position, quad), words)) f(words.value(), position);
      }
      device::sync_lanes();
      if (device::lane() == 0) core_.release(at, count);
      return count;
    }
  }
  // Together: takes all messages that are there, and returns when the caller's warp finds none.
  template <class F>
  DWELL_DEVICE u32 drain(const Group& g, F f) const {
    u32 all = 0;
    for (u32 count = 0; (count = take(g, f)) != 0;) all += count;
    return all;
  }

  // closed returns whether the ring is closed; finished also requires that all messages have been taken. Threads of a group may get
  // different results.
  DWELL_DEVICE bool closed() const { return core_.closed(); }
  DWELL_DEVICE bool finished() const { return core_.finished(); }
  // Together: the same answer in all threads of a warp, for a loop around take, drain or push_each.
  DWELL_DEVICE bool closed(const Group&) const { return device::broadcast(core_.closed() ? 1U : 0U) != 0; }
  DWELL_DEVICE bool finished(const Group&) const { return device::broadcast(core_.finished() ? 1U : 0U) != 0; }

 private:
  friend struct device::Wire<Ring<T>>;
  static constexpr u32 kRounds = 16;  // of looks for committed messages, all under way at once

#if DWELL_PARALLEL_GROUP
  // A warp's messages, one a lane, into slots in a row: stores of whole lines, which cross the bus in one piece.
  DWELL_DEVICE void put_warp(u64 at, const T& value, u32 type) const {
    constexpr u32 kParts = device::RingWords<T>::quads;
    const device::RingHead head{sizeof(T), device::Segment::message, type};
    const device::RingWords<T> words(value);
    const u64 mine = at + device::lane();
    const u32 checksum = core_.checked() ? words.checksum(mine, head.word()) : 0;
    DWELL_UNROLL
    for (u32 step = 0; step < kParts; ++step) {
      const u32 owner = step * (kLanes / kParts) + device::lane() / kParts;
      device::Quad part{0, {0, 0, 0}};
      DWELL_UNROLL
      for (u32 i = 0; i < kParts; ++i) {
        const device::Quad& from = words.quad[i];
        const device::Quad theirs{
            device::broadcast(from.lap, owner),
            {device::broadcast(from.word[0], owner), device::broadcast(from.word[1], owner), device::broadcast(from.word[2], owner)}};
        if (device::lane() % kParts == i) part = theirs;
      }
      reinterpret_cast<device::Quad*>(core_.slot(at + owner))[device::lane() % kParts] = part;
    }
    device::sync_lanes();  // orders the stores of all lanes before each lane's fence
    core_.commit(mine, head, checksum);
  }
  static constexpr bool kWholeLines =
      device::RingWords<T>::quads <= 8 && (device::RingWords<T>::quads & (device::RingWords<T>::quads - 1)) == 0;
#endif

  DWELL_DEVICE void put(u64 at, const T& value, u32 type) const {
    const device::RingHead head{sizeof(T), device::Segment::message, type};
    const device::RingWords<T> words(value);
    words.put(core_.slot(at));
    core_.commit(at, head, core_.checked() ? words.checksum(at, head.word()) : 0);
  }
  // As RingCore::is_message, of words in registers.
  DWELL_DEVICE bool is_good(const device::RingClaim& claim, const device::RingWords<T>& words) const {
    return core_.is_message(claim, [&] { return words.checksum(claim.position, claim.word); });
  }

  device::RingCore core_;
};

namespace device {
template <class T>
struct Describe<Ring<T>> {
  static constexpr Parameter value{Kind::ring, ElementKind<T>::value, static_cast<u16>(sizeof(T))};
};
template <class T>
struct Wire<Ring<T>> {
  static constexpr u32 words = 3;
  static DWELL_DEVICE Ring<T> read(const u32* from) { return Ring<T>(reinterpret_cast<RingControl*>(Wire<Span<u8>>::read(from).data())); }
  static DWELL_DEVICE void write(u32* to, const Ring<T>& ring) {
    Wire<Span<u8>>::write(to, Span<u8>(reinterpret_cast<u8*>(&ring.core_.control()), 1));
  }
};
}  // namespace device

}  // namespace dwell
