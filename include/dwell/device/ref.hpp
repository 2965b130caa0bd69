// References to memory of the heap.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

DWELL_CONSTANT u32 kHeapUnit = 16;             // bytes
DWELL_CONSTANT u32 kMostHeapAlignment = 4096;  // of an allocation

// A reference to an object, or to untyped memory (Ref<void>), in the runtime's heap: a number, the same on the device and on the host,
// valid wherever the heap lies. Plain data of 4 bytes: pass it to operators as an argument, store it in memory or in other objects. Does
// not keep what it refers to; that lives until it is freed. Ref<T>{} refers to nothing; Ref<T> ref; is uninitialised, as a u32 would be.
template <class T>
class Ref {
 public:
  Ref() = default;
  // A reference to the unit at this number of units of 16 bytes from the heap's start; 0: to nothing.
  static DWELL_HOST_DEVICE Ref at(u32 unit) {
    Ref ref{};
    ref.unit_ = unit;
    return ref;
  }
  DWELL_HOST_DEVICE u32 unit() const { return unit_; }
  DWELL_HOST_DEVICE explicit operator bool() const { return unit_ != 0; }
  DWELL_HOST_DEVICE bool operator==(Ref other) const { return unit_ == other.unit_; }
  DWELL_HOST_DEVICE bool operator!=(Ref other) const { return unit_ != other.unit_; }
  // The same place as memory of another type.
  template <class Other>
  DWELL_HOST_DEVICE Ref<Other> as() const {
    return Ref<Other>::at(unit_);
  }

 private:
  u32 unit_;
};
static_assert(sizeof(Ref<int>) == 4, "host and device agree on the layout");

}  // namespace dwell
