// Neighbouring elements that a thread loads and stores together.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// The widest access to memory, in bytes.
DWELL_CONSTANT u32 kWidestAccess = 16;

DWELL_HOST_DEVICE bool is_power_of_two(u64 value) { return value != 0 && (value & (value - 1)) == 0; }

// Elements of each of these types that a thread loads at once: one access for the widest type, and at most `most`, since each takes a
// register in computations.
template <class... T>
DWELL_HOST_DEVICE u32 elements_at_once(u32 most = 8) {
  const u32 widths[] = {1, sizeof(T)...};
  u32 widest = 1;
  for (const u32 width : widths) {
    if (!is_power_of_two(width) || width > kWidestAccess) return 1;
    if (width > widest) widest = width;
  }
  return kWidestAccess / widest < most ? kWidestAccess / widest : most;
}

// Packs of `count` elements of each input that a thread loads before it stores: as many as `room` registers hold, 1 to `most`. More would
// raise an image's registers above the loop's own. Elements smaller than a register are unpacked into one.
template <class... In>
DWELL_HOST_DEVICE u32 packs_ahead(u32 count, u32 most = 4, u32 room = 16) {
  const u32 widths[] = {0, sizeof(In)...};
  u32 registers = 0;
  for (const u32 width : widths) registers += width == 0 || width >= 4 ? (width + 3) / 4 : 2;
  u32 packs = most;
  while (packs > 1 && packs * count * registers > room) packs /= 2;
  return packs;
}

// The alignment in bytes that `Count` elements need for the widest accesses that divide them. One element needs its type's alignment.
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

// Initializes a pack that is not loaded completely. Else the assembler preserves its old value: a loop that inlines many operators would
// hold registers for the packs of all, and spill them in each.
template <class T, u32 Count>
DWELL_DEVICE void clear(Pack<T, Count>* pack) {
  u8* const bytes = reinterpret_cast<u8*>(pack);
  DWELL_UNROLL
  for (u32 i = 0; i < sizeof *pack; ++i) bytes[i] = 0;
}

DWELL_DEVICE u64 address_of(const volatile void* at) { return reinterpret_cast<u64>(at); }

// Returns not 0 when the `Count` elements from `at` on cannot be accessed as a pack.
template <u32 Count, class T>
DWELL_DEVICE u32 pack_misalignment(const T* at) {
  return static_cast<u32>(address_of(at)) % pack_alignment<T>(Count);
}

}  // namespace device
}  // namespace dwell
