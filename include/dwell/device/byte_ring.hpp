// Rings of messages of any size: bytes with a type.
//
//   DWELL_OPERATOR(say)(dwell::Group g, dwell::ByteRing ring, dwell::Span<const dwell::u8> text) {
//     if (g.rank() != 0) return;
//     dwell::ByteSlot slot = ring.reserve(text.size());
//     if (!slot) return g.fail(dwell::status::ring_full);
//     for (dwell::u64 i = 0; i < text.size(); ++i) slot.bytes()[i] = text[i];
//     slot.commit(kText);
//   }
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/operator.hpp>
#include <dwell/device/ring.hpp>
#include <dwell/device/ring_core.hpp>
#include <dwell/device/signature.hpp>
#include <dwell/device/span.hpp>

namespace dwell {

// Bytes that a producer has reserved and not committed; see RingSlot.
class ByteSlot {
 public:
  DWELL_DEVICE ByteSlot(device::RingCore core, u64 position, u32 bytes) : core_(core), position_(position), bytes_(bytes) {}
  DWELL_DEVICE ByteSlot(ByteSlot&& other) noexcept : core_(other.core_), position_(other.position_), bytes_(other.bytes_) {
    other.position_ = kNone;
  }
  ByteSlot(const ByteSlot&) = delete;
  ByteSlot& operator=(const ByteSlot&) = delete;
  DWELL_DEVICE ~ByteSlot() { finish(device::Segment::abandoned, 0); }

  // Returns whether there was room.
  DWELL_DEVICE explicit operator bool() const { return position_ != kNone; }
  // The message, uninitialised, aligned to 16 bytes. Other threads of the group may fill it too, before the commit.
  DWELL_DEVICE Span<u8> bytes() const { return Span<u8>(core_.slot(position_), bytes_); }
  // Lets readers have the message, or tells them to skip it.
  DWELL_DEVICE void commit(u8 type = 0) { finish(device::Segment::message, type); }
  DWELL_DEVICE void discard() { finish(device::Segment::discarded, 0); }

 private:
  static constexpr u64 kNone = ~0ULL;
  DWELL_DEVICE void finish(device::Segment segment, u32 type) {
    if (position_ == kNone) return;
    core_.commit(position_, device::RingHead{bytes_, segment, type});
    position_ = kNone;
  }

  device::RingCore core_;
  u64 position_;
  u32 bytes_;
};

// A message that a consumer has taken. Its room is given back when it is dropped.
class ByteMessage {
 public:
  DWELL_DEVICE explicit ByteMessage(device::RingCore core) : core_(core), claim_{~0ULL, 0, 0, 0} {}
  DWELL_DEVICE ByteMessage(device::RingCore core, const device::RingClaim& claim) : core_(core), claim_(claim) {}
  DWELL_DEVICE ByteMessage(ByteMessage&& other) noexcept : core_(other.core_), claim_(other.claim_) { other.claim_.slots = 0; }
  ByteMessage(const ByteMessage&) = delete;
  ByteMessage& operator=(const ByteMessage&) = delete;
  DWELL_DEVICE ~ByteMessage() { core_.release(claim_.position, claim_.slots); }

  // Returns whether there was one.
  DWELL_DEVICE explicit operator bool() const { return claim_.slots != 0; }
  DWELL_DEVICE Span<const u8> bytes() const {
    return Span<const u8>(core_.slot(claim_.position), device::RingHead::from(claim_.word).bytes);
  }
  DWELL_DEVICE u8 type() const { return static_cast<u8>(device::RingHead::from(claim_.word).type); }
  DWELL_DEVICE u64 position() const { return claim_.position; }

 private:
  device::RingCore core_;
  device::RingClaim claim_;
};

// A ring of messages of bytes. As Ring, for which the host passes a ByteRingBuffer. All members are called by one thread.
class ByteRing {
 public:
  DWELL_DEVICE explicit ByteRing(device::RingControl* control) : core_(control) {}

  // Reserves a message of so many bytes, in one piece. Empty if the ring is full or closed, or the message larger than the ring allows.
  DWELL_DEVICE ByteSlot reserve(u64 bytes) const {
    u64 at = ~0ULL;
    if (bytes > core_.control().most) return ByteSlot(core_, at, 0);
    const u32 size = static_cast<u32>(bytes);
    const u32 slots = device::ring_slots_of(size, core_.control().slot_bytes);
    if (core_.reserve(slots, slots, &at) == 0) at = ~0ULL;
    return ByteSlot(core_, at, size);
  }
  // Appends a message. Returns false, with nothing done, where reserve would return an empty slot.
  DWELL_DEVICE bool try_push(Span<const u8> message, u8 type = 0) const {
    ByteSlot slot = reserve(message.size());
    if (!slot) return false;
    const Span<u8> to = slot.bytes();
    for (u64 i = 0; i < message.size(); ++i) to.data()[i] = message.data()[i];
    slot.commit(type);
    return true;
  }
  // The same; fails the task with status::ring_full or status::ring_closed instead.
  DWELL_DEVICE bool push(const Group& g, Span<const u8> message, u8 type = 0) const {
    const bool pushed = try_push(message, type);
    if (!pushed) device::refuse_push(g, core_);
    return pushed;
  }
  // Ends the ring, as Ring::close.
  DWELL_DEVICE void close() const { core_.close(); }

  // Takes the next message; an empty one if there is none.
  DWELL_DEVICE ByteMessage try_pop() const {
    for (device::RingClaim claim{}; core_.claim(&claim);) {
      if (core_.is_message(claim)) return ByteMessage(core_, claim);
      core_.release(claim.position, claim.slots);
    }
    return ByteMessage(core_);
  }

  // closed returns whether the ring is closed; finished also requires that all messages have been taken.
  DWELL_DEVICE bool closed() const { return core_.closed(); }
  DWELL_DEVICE bool finished() const { return core_.finished(); }

 private:
  friend struct device::Wire<ByteRing>;
  device::RingCore core_;
};

namespace device {
template <>
struct Describe<ByteRing> {
  static constexpr Parameter value{Kind::ring, Kind::structure, 0};
};
template <>
struct Wire<ByteRing> {
  static constexpr u32 words = 3;
  static DWELL_DEVICE ByteRing read(const u32* from) { return ByteRing(reinterpret_cast<RingControl*>(Wire<Span<u8>>::read(from).data())); }
  static DWELL_DEVICE void write(u32* to, const ByteRing& ring) {
    Wire<Span<u8>>::write(to, Span<u8>(reinterpret_cast<u8*>(&ring.core_.control()), 1));
  }
};
}  // namespace device

}  // namespace dwell
