// Neighbouring elements that a thread loads and stores together.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// The widest access to memory that there is, in bytes.
DWELL_CONSTANT u32 kWidestAccess = 16;

DWELL_HOST_DEVICE bool is_power_of_two(u64 value) { return value != 0 && (value & (value - 1)) == 0; }

// How many elements of each of these types a thread loads at once: one access for the widest of them.
template <class... T>
DWELL_HOST_DEVICE u32 elements_at_once() {
  const u32 widths[] = {1, sizeof(T)...};
  u32 widest = 1;
  for (const u32 width : widths) {
    if (!is_power_of_two(width) || width > kWidestAccess) return 1;
    if (width > widest) widest = width;
  }
  return kWidestAccess / widest;
}

// What `Count` elements must be aligned to, so that the widest accesses that divide them can be used. One element needs what its type does.
template <class T>
DWELL_HOST_DEVICE u32 pack_alignment(u32 count) {
  const u32 bytes = sizeof(T) * count;
  if (count == 1 || !is_power_of_two(bytes)) return alignof(T);
  const u32 wanted = bytes < kWidestAccess ? bytes : kWidestAccess;
  return wanted < alignof(T) ? alignof(T) : wanted;
}

template <class T, u32 Count>
struct alignas(pack_alignment<T>(Count)) Pack {
  T at[Count];
};

// Packs that are filled one by one: T need not have a default.
template <class T, u32 Count, u32 Packs>
union PackRoom {
  Pack<T, Count> pack[Packs];
  DWELL_DEVICE PackRoom() {}  // NOLINT(modernize-use-equals-default): defaulted, it would be deleted for such a T
};

DWELL_DEVICE u64 address_of(const volatile void* at) { return reinterpret_cast<u64>(at); }

// Not 0 when the `Count` elements from `at` on cannot be accessed as a pack.
template <u32 Count, class T>
DWELL_DEVICE u32 pack_misalignment(const T* at) {
  return static_cast<u32>(address_of(at)) % pack_alignment<T>(Count);
}

}  // namespace device
}  // namespace dwell
