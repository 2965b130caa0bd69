// Memory of one task.
#pragma once

#include <dwell/device/heap.hpp>

namespace dwell {

// Memory of the calling thread that is given back as a whole, when the pool goes out of scope: at the end of the task at the latest, also
// of one that fails. Allocations are steps of an address within chunks of the heap. For trees and lists of which nothing outlives the task.
// Each thread has its own; a pool is not copied.
class Pool {
 public:
  // `chunk`: bytes of the heap that it takes at once, at most 8192.
  DWELL_DEVICE explicit Pool(Group g, u32 chunk = 2048)
      : group_(g),
        chunk_(chunk < kLeast  ? kLeast
               : chunk > kMost ? kMost
                               : (chunk + kHeapUnit - 1) / kHeapUnit * kHeapUnit) {}
  DWELL_DEVICE ~Pool() { clear(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Returns uninitialised memory, aligned to 16 bytes, valid until the pool is cleared; null, and fails the task with
  // status::out_of_memory, when the heap has no room.
  DWELL_DEVICE void* allocate(u64 bytes) {
    const u64 whole = (bytes + kHeapUnit - 1) / kHeapUnit * kHeapUnit;
    if (whole > chunk_ - kHeapUnit) return larger(whole);
    if (whole > left_ && !open(chunk_)) return nullptr;
    u8* const at = next_;
    next_ += whole;
    left_ -= static_cast<u32>(whole);
    return at;
  }
  // The same for a T, initialised as T{values...}.
  template <class T, class... Values>
  DWELL_DEVICE T* make(Values... values) {
    static_assert(__is_trivially_copyable(T), "nothing is destroyed in a pool: T is trivially copyable");
    static_assert(!device::ObjectOf<T>::is, "the collector does not see a pool: objects are made by g.make");
    static_assert(alignof(T) <= kHeapUnit, "a pool aligns to 16 bytes");
    void* const at = allocate(sizeof(T));
    return at == nullptr ? nullptr : new (device::Here{}, at) T{values...};
  }
  // Gives all back.
  DWELL_DEVICE void clear() {
    while (chunks_) {
      const Ref<Chunk> chunk = chunks_;
      chunks_ = group_.at(chunk)->before;
      group_.free(chunk);
    }
    left_ = 0;
  }

 private:
  // The first bytes of what it takes of the heap.
  struct alignas(kHeapUnit) Chunk {
    Ref<Chunk> before;
  };
  static constexpr u32 kLeast = 128;
  static constexpr u32 kMost = 8192;

  // Takes memory of its own, and goes on with the chunk that it had.
  DWELL_DEVICE void* larger(u64 bytes) {
    const Ref<Chunk> chunk = take(bytes + sizeof(Chunk));
    return chunk ? group_.at(chunk) + 1 : nullptr;
  }
  DWELL_DEVICE bool open(u32 bytes) {
    const Ref<Chunk> chunk = take(bytes);
    if (!chunk) return false;
    next_ = reinterpret_cast<u8*>(group_.at(chunk) + 1);
    left_ = bytes - static_cast<u32>(sizeof(Chunk));
    return true;
  }
  DWELL_DEVICE Ref<Chunk> take(u64 bytes) {
    const Ref<Chunk> chunk = group_.allocate(bytes).template as<Chunk>();
    if (!chunk) return chunk;
    group_.at(chunk)->before = chunks_;
    chunks_ = chunk;
    return chunk;
  }

  Group group_;
  u32 chunk_;
  u32 left_ = 0;  // bytes, from next_ on
  Ref<Chunk> chunks_ = Ref<Chunk>::at(0);
  u8* next_ = nullptr;
};

}  // namespace dwell
