// A value with one writer and many readers, which never read a torn value.
#pragma once

#include <dwell/device/atomic.hpp>

namespace dwell {

namespace device {
struct InspectAccess;
}

// A plain struct with a count that is odd while the struct is written. Readers retry until the count stays the same (a sequence lock, as in
// Linux). A variable of an operator's source, for the host (DWELL_INSPECT), or for other operators.
//   struct Progress { dwell::u64 step; float residual; float change; };
//   dwell::Seqlock<Progress> progress;
//   ... if (g.rank() == 0) progress.store({step, residual, change});
template <class T>
class Seqlock {
  static_assert(__is_trivially_copyable(T) && sizeof(T) % 4 == 0, "dwell::Seqlock holds a plain struct of whole 4-byte words");

 public:
  // Replaces the value, by one thread. Never blocks: false, with nothing done, if another thread is replacing it. On CUDA it costs an
  // exchange and two fences at the device's scope.
  DWELL_DEVICE bool store(const T& value) {
    const u32 before = device::load<device::Order::relaxed, device::Scope::device>(&sequence_);
    if (before % 2 != 0 || device::compare_exchange<device::Order::acq_rel>(&sequence_, before, before + 1) != before) return false;
    device::fence<device::Scope::device>();  // the odd count before the words
    const Word* const from = reinterpret_cast<const Word*>(&value);
    Word* const to = reinterpret_cast<Word*>(&value_);
    for (u32 i = 0; i < kWords; ++i) device::store<kBehindFence, device::Scope::device>(to + i, static_cast<u32>(from[i]));
    device::fence<device::Scope::device>();  // pairs with the readers' loads; the host's copies read what the device has in L2
    device::store<kBehindFence, device::Scope::device>(&sequence_, before + 2);
    return true;
  }

  // Returns the value of one store. Waits while a store is in progress.
  DWELL_DEVICE T load() const {
    T value = {};
    for (;;) {
      const u32 before = device::load<device::Order::acquire, device::Scope::device>(&sequence_);
      Word* const to = reinterpret_cast<Word*>(&value);
      const Word* const from = reinterpret_cast<const Word*>(&value_);
      // Acquires, so the count is loaded after them.
      for (u32 i = 0; i < kWords; ++i) to[i] = device::load<device::Order::acquire, device::Scope::device>(from + i);
      if (before % 2 == 0 && device::load<device::Order::relaxed, device::Scope::device>(&sequence_) == before) return value;
    }
  }

 private:
  friend struct device::InspectAccess;

  static constexpr u32 kWords = sizeof(T) / 4;
#if DWELL_FENCES
  using Word = u32;
  static constexpr device::Order kBehindFence = device::Order::relaxed;
#else
  using Word __attribute__((may_alias)) = u32;
  static constexpr device::Order kBehindFence = device::Order::release;  // the fence holds the compiler alone
#endif

  u32 sequence_ = 0;
  alignas(8) T value_ = {};
};

}  // namespace dwell
