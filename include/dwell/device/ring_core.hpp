// How the two ends of a ring work together: any number of producers, any number of consumers, no locks, and no waiting.
//
// A producer takes slots from `room`, then its position from `tail`: two additions that cannot fail between them. It writes, and commits
// with one store of the head. A consumer claims the segment at `head` if that is committed, by a compare-and-exchange, reads, and counts
// the slots as done in their block. Who completes a block says so in RingShared::freed; a producer without room adds the next block to
// `room` when that is free.
//
// Invariants (tests/model/rings.pml):
//   - A position belongs to one producer until it is committed, then to one consumer until it is done, then to nobody until its block is
//     credited. So no slot is written while it is read, at any relative speed.
//   - Positions have 64 bits and do not come again, neither do heads: no stale load can pass for a current one.
//   - `room` covers only slots whose block has been read whole.
//   - The ring closes with one bit of `tail`, whose value before is the end: reservations before it will be read, later ones fail.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/crc32c.hpp>
#include <dwell/device/ring_layout.hpp>

namespace dwell {
namespace device {

// A segment that a consumer has claimed.
struct RingClaim {
  u64 position;
  u32 slots;
  u32 word;  // RingHead
  u32 checksum;
};

// A ring as one side sees it. A small value. Members may be called by any thread; they concern the calling thread alone.
class RingCore {
 public:
  DWELL_DEVICE explicit RingCore(RingControl* control) : control_(control) {}

  DWELL_DEVICE RingControl& control() const { return *control_; }
  DWELL_DEVICE bool may_push() const { return (control_->flags & kRingPushes) != 0; }
  DWELL_DEVICE bool may_pop() const { return (control_->flags & kRingPops) != 0; }
  DWELL_DEVICE bool crosses() const { return system(); }  // to the other side
  DWELL_DEVICE bool checked() const { return (control_->flags & kRingChecked) != 0; }
  DWELL_DEVICE u8* slot(u64 position) const { return to_pointer<u8>(control_->data) + (position & mask()) * control_->slot_bytes; }

  // ---- Producers ----

  // Reserves between `least` and `most` slots in a row. Returns how many, from `position` on; 0 if there is no room, or the ring is closed.
  // May fail beside others that ask for more than there is.
  DWELL_DEVICE u32 reserve(u32 least, u32 most, u64* position) const {
    const u32 count = may_push() ? take_room(least, most) : 0;
    if (count == 0) return 0;
    // Pairs with itself: the slots here may be those whose readers another producer has acquired, with room that it took later but whose
    // position comes first.
    *position = fetch_add<Order::acq_rel>(&control_->tail, static_cast<u64>(count));
    return (*position & kRingClosed) == 0 ? count : 0;
  }

  // The checksum of a segment before its words.
  DWELL_DEVICE static u32 begin_checksum(u64 position, u32 word) {
    const u32 words[] = {word, static_cast<u32>(position), static_cast<u32>(position >> 32U)};
    return crc32c(kCrcStart, words, 3);
  }

  // Commits a reserved segment, whose words the caller has written.
  DWELL_DEVICE void commit(u64 position, const RingHead& head, u32 checksum) const {
    const u32 slots = ring_slots_of(head.bytes, control_->slot_bytes);
    for (u32 i = 1; i < slots; ++i) put_head(position + i, RingHead{0, Segment::continuation, 0}.word(), 0);
    fence_other();  // pairs with claim
    put_head(position, head.word(), checksum);
  }
  // The same of words in memory, with their checksum. Clears the bytes up to the next whole word.
  DWELL_DEVICE void commit(u64 position, const RingHead& head) const {
    u32 checksum = 0;
    if (checked() && head.segment == Segment::message) {
      u8* const data = slot(position);
      for (u32 i = head.bytes; i % 4 != 0; ++i) data[i] = 0;
      checksum = checksum_of(position, head.word(), data, head.bytes);
    }
    commit(position, head, checksum);
  }

  // No later reservation succeeds; consumers find the end behind those before. Of the side that has the producers.
  DWELL_DEVICE void close() const {
    if (!may_push()) return;
    u64 before = load<Order::relaxed, Scope::device>(&control_->tail);
    while ((before & kRingClosed) == 0) {
      const u64 seen = compare_exchange<Order::relaxed>(&control_->tail, before, before | kRingClosed);
      if (seen == before) {
        store<Order::release, Scope::system>(&shared().end, before);  // pairs with finished
        return;
      }
      before = seen;
    }
  }

  // ---- Consumers ----

  // The position of the next segment to be claimed.
  DWELL_DEVICE u64 head() const { return load<Order::acquire, Scope::device>(&control_->head); }
  // Whether a segment has been committed there. Whoever reads it acquires.
  DWELL_DEVICE bool is_there(u64 position) const {
    const Quad* const from = head_at(position);
    return (system() ? look<Scope::system>(from) : look<Scope::device>(from)) == position + 1;
  }
  // The number of segments in a row that are there, from `from` on, of `rounds` times the lanes of a warp. Called by all lanes together.
  template <u32 rounds>
  DWELL_DEVICE u32 committed(u64 from) const {
    return system() ? committed<Scope::system, rounds>(from) : committed<Scope::device, rounds>(from);
  }
  DWELL_DEVICE Quad load_head(u64 position) const {
    return system() ? load_quad<Scope::system>(head_at(position)) : load_quad<Scope::device>(head_at(position));
  }

  // Claims segments in [from, to), if `from` is the head. Returns the head before: `from`, or where others have moved it. Each thread that
  // reads them acquires.
  DWELL_DEVICE u64 claim(u64 from, u64 to) const { return compare_exchange<Order::relaxed>(&control_->head, from, to); }
  // Orders what the caller has seen to be there before its reads of the words. Pairs with commit.
  DWELL_DEVICE void acquire() const { fence_other(); }
  // Claims the next segment. Returns false if there is none.
  DWELL_DEVICE bool claim(RingClaim* to) const {
    if (!may_pop()) return false;
    for (u64 at = head();;) {
      const Quad quad = load_head(at);
      if (!is_of(quad, at)) {
        const u64 now = head();
        if (now == at) return false;
        at = now;
        continue;
      }
      const RingHead head = RingHead::from(quad.word[1]);
      const u32 slots = head.bytes <= control_->most ? ring_slots_of(head.bytes, control_->slot_bytes) : 1;
      const u64 before = claim(at, at + slots);
      if (before == at) {
        acquire();
        *to = RingClaim{at, slots, quad.word[1], quad.word[2]};
        return true;
      }
      at = before;
    }
  }
  static DWELL_DEVICE RingClaim claimed(u64 position, const Quad& quad) { return RingClaim{position, 1, quad.word[1], quad.word[2]}; }

  // Returns whether a claimed segment is a message whose words are as they were committed. Counts it if it is not. `checksum` returns that
  // of its words.
  DWELL_DEVICE bool is_message(const RingClaim& claim) const {
    return is_message(claim,
                      [&] { return checksum_of(claim.position, claim.word, slot(claim.position), RingHead::from(claim.word).bytes); });
  }
  template <class Checksum>
  DWELL_DEVICE bool is_message(const RingClaim& claim, Checksum checksum) const {
    const RingHead head = RingHead::from(claim.word);
    if (head.segment == Segment::discarded) add<Order::relaxed>(&control_->discarded, u64{1});
    if (head.segment == Segment::abandoned) add<Order::relaxed>(&control_->abandoned, u64{1});
    if (head.segment != Segment::message) return false;
    if (head.bytes <= control_->most && (!checked() || checksum() == claim.checksum)) return true;
    add<Order::relaxed>(&control_->damaged, u64{1});
    store<Order::relaxed, Scope::device>(&control_->damaged_at, claim.position);
    return false;
  }

  // Gives claimed slots back, after all reads of them.
  DWELL_DEVICE void release(u64 position, u32 slots) const {
    const u32 block_shift = control_->block_shift;
    while (slots != 0) {
      const u32 left = (1U << block_shift) - (static_cast<u32>(position) & ((1U << block_shift) - 1));
      const u32 count = slots < left ? slots : left;
      const u32 block = block_of(position);
      const u32 rounds = static_cast<u32>(position >> control_->shift) + 1;
      // Acquires the reads of the others in this block, for the store behind it.
      const u32 before = fetch_add<Order::acq_rel>(&control_->done[block], count);
      if (before + count == rounds << block_shift) {
        // Pairs with credit.
        if (system())
          store<Order::release, Scope::system>(&shared().freed[block], rounds);
        else
          store<Order::release, Scope::device>(&shared().freed[block], rounds);
      }
      position += count;
      slots -= count;
    }
  }

  // Whether the ring is closed, and all of its messages have been claimed.
  DWELL_DEVICE bool finished() const {
    const u64 end = load<Order::acquire, Scope::system>(&shared().end);
    return end != kRingEndless && head() == end;
  }
  DWELL_DEVICE bool closed() const { return load<Order::acquire, Scope::system>(&shared().end) != kRingEndless; }

 private:
#if DWELL_FENCES
  static constexpr Order kBeforeFence = Order::relaxed;  // so that many loads are under way at once
#else
  static constexpr Order kBeforeFence = Order::acquire;  // the fence holds the compiler alone
#endif
  static constexpr u32 kAllLanes = kLanes == 32 ? ~0U : (1U << kLanes % 32) - 1U;

  // The first half of a head.
  template <Scope S>
  DWELL_DEVICE static u64 look(const Quad* from) {
    return load<kBeforeFence, S>(reinterpret_cast<const u64*>(from));
  }
  template <Scope S, u32 rounds>
  DWELL_DEVICE u32 committed(u64 from) const {
    // Read once: loads of heads are volatile, between which the compiler would read them again.
    const Quad* const heads = to_pointer<Quad>(control_->heads);
    const u64 places = mask();
    bool there[rounds];
    DWELL_UNROLL
    for (u32 r = 0; r < rounds; ++r) {
      const u64 position = from + r * kLanes + lane();
      there[r] = look<S>(heads + (position & places)) == position + 1;
    }
    u32 count = 0;
    DWELL_UNROLL
    for (u32 r = 0; r < rounds; ++r) {
      const u32 missing = ~ballot(there[r]) & kAllLanes;
      if (count == r * kLanes) count += missing == 0 ? kLanes : trailing_zeros(missing);
    }
    return count;
  }
  // Not pointer_to_global: beside Gang::yield, NVRTC 13.0 compiles that of a loaded address for ever.
  template <class T>
  DWELL_DEVICE static T* to_pointer(u64 address) {
    return reinterpret_cast<T*>(address);
  }
  DWELL_DEVICE bool system() const { return (control_->flags & kRingSystem) != 0; }
  DWELL_DEVICE u64 mask() const { return (u64{1} << control_->shift) - 1; }
  DWELL_DEVICE RingShared& shared() const { return *to_pointer<RingShared>(control_->shared); }
  DWELL_DEVICE Quad* head_at(u64 position) const { return to_pointer<Quad>(control_->heads) + (position & mask()); }
  DWELL_DEVICE u32 block_of(u64 position) const { return static_cast<u32>((position & mask()) >> control_->block_shift); }
  DWELL_DEVICE static bool is_of(const Quad& quad, u64 position) {
    return (quad.lap | static_cast<u64>(quad.word[0]) << 32U) == position + 1;
  }

  // Orders this side's accesses before it against those after it, as the other end sees them.
  DWELL_DEVICE void fence_other() const {
    if (system())
      fence<Scope::system>();
    else
      fence<Scope::device>();
  }
  DWELL_DEVICE void put_head(u64 position, u32 word, u32 checksum) const {
    const u64 key = position + 1;
    const Quad quad{static_cast<u32>(key), {static_cast<u32>(key >> 32U), word, checksum}};
    if (system())
      store_quad<Scope::system>(head_at(position), quad);
    else
      store_quad<Scope::device>(head_at(position), quad);
  }
  DWELL_DEVICE static u32 checksum_of(u64 position, u32 word, const u8* data, u32 bytes) {
    return ~crc32c(begin_checksum(position, word), reinterpret_cast<const u32*>(data), (bytes + 3) / 4);
  }

  // Takes between `least` and `most` slots from `room`; 0 if it has fewer. Acquires the reads of those who have freed them.
  DWELL_DEVICE u32 take_room(u32 least, u32 most) const {
    do {
      if (static_cast<i64>(load<Order::relaxed, Scope::device>(&control_->room)) < static_cast<i64>(least)) continue;
      const i64 before = static_cast<i64>(fetch_add<Order::acquire>(&control_->room, u64{0} - most));
      const u32 count = before >= static_cast<i64>(most) ? most : before >= static_cast<i64>(least) ? static_cast<u32>(before) : 0;
      // Nothing happened in the slots that go back.
      if (count != most) fetch_add<Order::relaxed>(&control_->room, static_cast<u64>(most - count));
      if (count != 0) return count;
    } while (credit());
    return 0;
  }
  // Adds the blocks that have been read to `room`. Returns whether there were any, here or beside it.
  DWELL_DEVICE bool credit() const {
    if (!system()) return add_blocks();
    // The others need not ask the other side too: their loads would hold up its stores.
    if (load<Order::relaxed, Scope::device>(&control_->asking) != 0 || exchange<Order::acquire>(&control_->asking, u64{1}) != 0)
      return false;
    const bool any = add_blocks();
    store<Order::release, Scope::device>(&control_->asking, u64{0});
    return any;
  }
  DWELL_DEVICE bool add_blocks() const {
    const u32 rounds_shift = control_->shift - control_->block_shift;
    bool any = false;
    for (u64 block = load<Order::acquire, Scope::device>(&control_->credited);;) {
      const u32 rounds = static_cast<u32>(block >> rounds_shift) + 1;
      const u32* const from = &shared().freed[block & ((1U << rounds_shift) - 1)];
      const u32 freed = system() ? load<Order::acquire, Scope::system>(from) : load<Order::acquire, Scope::device>(from);
      if (freed != rounds) {
        // Not free; or others are ahead of this thread.
        const u64 now = load<Order::acquire, Scope::device>(&control_->credited);
        if (now == block) return any;
        block = now;
        any = true;
        continue;
      }
      any = true;
      const u64 before = compare_exchange<Order::acq_rel>(&control_->credited, block, block + 1);
      if (before == block) {
        fetch_add<Order::acq_rel>(&control_->room, u64{1} << control_->block_shift);  // pairs with take_room
        ++block;
      } else {
        block = before;
      }
    }
  }

  RingControl* control_;
};

}  // namespace device
}  // namespace dwell
