// A member of a gang that runs a recorded program of tensor operations as a whole (tensor/gang).
//
// Every member keeps small tensors in memory of its own and does each step on its own copies, so that most steps cross no member. Products
// of matrices are split: a member computes some elements of the result, and hands them to the others as words of 8 bytes that carry the
// number of the exchange beside the value. Such a word is complete when it is visible, so readers poll the data itself, and need neither a
// fence nor a barrier. Source: the LL protocol of NCCL. Tensors too large for each member lie in global memory; members share out the steps
// that write them, and meet at a barrier before others use what they have written.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/platform.hpp>

// A member is a thread block; with DWELL_MEMBER_IN_LOOP it is a worker of the loop, whose barriers are those of its group. The program's
// text says which, before it includes this.
#if !defined(DWELL_MEMBER_IN_LOOP)
#define DWELL_MEMBER_IN_LOOP 0
#endif

namespace dwell {
namespace device {

// The list that members run: a head and the words of its operands for each step.
DWELL_CONSTANT u32 kStepFormBits = 16;     // of the head: the form of the step; from there on its words, the head included
DWELL_CONSTANT u32 kStepSync = 1U << 31U;  // of the head: a barrier of the member's threads stands behind the step
DWELL_CONSTANT u32 kStepWords = 0x7FFFU;   // mask of the words
DWELL_CONSTANT u32 kMemberAlignment = 16;  // of the member's memory
// The numbers that members keep from run to run: a line with the count of arrivals at barriers, modulo 2^32; then the number of the last
// exchange of each member, and its passes of barriers.
DWELL_CONSTANT u32 kNumbersLine = 32;
DWELL_CONSTANT u32 kNumbersOfMember = 2;

class Member {
 public:
  // `local`: the member's own memory. `words`: two halves of `exchanged` words, which all members share. `numbers`: see kNumbersOfMember;
  // null for a single member.
  DWELL_DEVICE Member(u32 rank, u32 thread, u8* local, u64* words, u32 exchanged, u32* numbers)
      : rank_(rank),
        thread_(thread),
        local_(local),
        words_(words),
        exchanged_(exchanged),
        numbers_(numbers),
        number_(0),
        passes_(0),
        turn_(0),
        is_last_turn_(false) {
    if (numbers == nullptr) return;
    number_ = mine()[0];
    passes_ = mine()[1];
  }
  // Keeps the numbers for the next run. Called once, behind all steps.
  DWELL_DEVICE void end() const {
    if (thread_ != 0) return;
    mine()[0] = number_;
    mine()[1] = passes_;
  }

  DWELL_DEVICE u32 rank() const { return rank_; }
  DWELL_DEVICE u32 thread() const { return thread_; }
  // The run of the operations, from 0 on, and whether no other follows.
  DWELL_DEVICE u32 turn() const { return turn_; }
  DWELL_DEVICE bool is_last_turn() const { return is_last_turn_; }
  DWELL_DEVICE void begin_turn(u32 turn, bool is_last) {
    turn_ = turn;
    is_last_turn_ = is_last;
  }

  // A tensor in the member's memory, or anywhere.
  template <class T>
  DWELL_DEVICE T* local(u32 offset) const {
    return reinterpret_cast<T*>(local_ + offset);
  }
  template <class T>
  DWELL_DEVICE T* global(u32 low, u32 high) const {
    return pointer_to_global<T>(low | static_cast<u64>(high) << 32U);
  }

  DWELL_DEVICE void sync() const {
#if DWELL_MEMBER_IN_LOOP
    sync_group();
#elif DWELL_PARALLEL_GROUP
    __syncthreads();
#endif
  }

  // Barriers of the member's threads that tell whether the predicate holds for all of them, or for one.
  DWELL_DEVICE bool all(bool predicate) const {
#if DWELL_MEMBER_IN_LOOP
    return !any_in_group(!predicate);
#elif DWELL_PARALLEL_GROUP
    return __syncthreads_and(predicate) != 0;
#else
    return predicate;
#endif
  }
  DWELL_DEVICE bool any(bool predicate) const {
#if DWELL_MEMBER_IN_LOOP
    return any_in_group(predicate);
#elif DWELL_PARALLEL_GROUP
    return __syncthreads_or(predicate) != 0;
#else
    return predicate;
#endif
  }

  // Hands on word `i` of the exchange that comes next.
  DWELL_DEVICE void put(u32 i, float value) const {
    // Relaxed: nothing but the word itself is published. Pairs with look.
    store<Order::relaxed, Scope::device>(at(i, number_ + 1), static_cast<u64>(number_ + 1) << 32U | bits_as<u32>(value));
  }
  // Looks for word `i` of that exchange; `value` is meaningless until it returns true.
  DWELL_DEVICE bool look(u32 i, float* value) const {
    const u64 word = load<Order::relaxed, Scope::device>(at(i, number_ + 1));
    *value = bits_as<float>(static_cast<u32>(word));
    return static_cast<u32>(word >> 32U) == number_ + 1;
  }
  // The calling thread has all words that it wants of the exchange. A half is written again two exchanges later: by then its writer has got
  // words of the exchange between from all members, each of which put them behind a barrier behind its last look.
  DWELL_DEVICE void end_exchange() { ++number_; }

  // A barrier of all members' threads. Each sees what the others have written before.
  template <u32 members, u32 threads>
  DWELL_DEVICE void barrier() {
    sync();
    ++passes_;
    // Release: what all threads of the member have written. Pairs with the loads below, of all members. Another warp waits, since the fence
    // stalls its own.
    if (thread_ == 0) {
      fence<Scope::device>();
      add<Order::release>(numbers_, 1U);
    }
    if (thread_ == (threads > kLanes ? kLanes : 0))
      for (u32 round = 0; static_cast<i32>(load<Order::acquire, Scope::device>(numbers_) - passes_ * members) < 0; ++round) relax(round);
    sync();
  }

 private:
  DWELL_DEVICE u32* mine() const { return numbers_ + kNumbersLine + rank_ * kNumbersOfMember; }
  DWELL_DEVICE u64* at(u32 i, u32 number) const { return words_ + (number & 1U) * exchanged_ + i; }

  u32 rank_;
  u32 thread_;
  u8* local_;
  u64* words_;
  u32 exchanged_;
  u32* numbers_;
  u32 number_;  // of the last exchange
  u32 passes_;  // of barriers
  u32 turn_;
  bool is_last_turn_;
};

// How threads take [first, end) in turn: not at all, each once at most, or in a loop.
template <bool any, bool once>
struct InTurn {
  template <u32 threads, class Each>
  static DWELL_DEVICE void run(const Member&, u32, u32, const Each&) {}
};
template <>
struct InTurn<true, true> {
  template <u32 threads, class Each>
  static DWELL_DEVICE void run(const Member& m, u32 first, u32 end, const Each& each) {
    if (m.thread() < end - first) each(first + m.thread());
  }
};
template <>
struct InTurn<true, false> {
  template <u32 threads, class Each>
  static DWELL_DEVICE void run(const Member& m, u32 first, u32 end, const Each& each) {
    DWELL_UNROLL_NOT
    for (u32 i = first + m.thread(); i < end; i += threads) each(i);
  }
};
// Calls each(i) for [first, end), which threads take in turn. A loop that runs once at most is none: compilers unroll it else, into code
// that is fetched and never runs.
template <u32 first, u32 end, u32 threads, class Each>
DWELL_DEVICE void in_turn(const Member& m, const Each& each) {
  InTurn<(first < end), (end - first <= threads)>::template run<threads>(m, first, end, each);
}

// Copies to the member's memory, which arrive before end_copies returns. C has constants: bytes; alignment, of both places.
template <class C, u32 threads>
DWELL_DEVICE void begin_copy(const Member& m, u8* to, const u8* from) {
#if DWELL_ASYNC_COPIES
  constexpr u32 kQuads = C::alignment % 16 == 0 ? C::bytes / 16 : 0;
  constexpr u32 kWords = C::alignment % 4 == 0 ? C::bytes / 4 : 0;
  in_turn<0, kQuads, threads>(m, [&](u32 i) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address_in_shared(to + i * 16)), "l"(from + i * 16) : "memory");
  });
  in_turn<kQuads * 4, kWords, threads>(m, [&](u32 i) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address_in_shared(to + i * 4)), "l"(from + i * 4) : "memory");
  });
  in_turn<kWords * 4, C::bytes, threads>(m, [&](u32 i) { to[i] = from[i]; });
#else
  in_turn<0, C::bytes, threads>(m, [&](u32 i) { to[i] = from[i]; });
#endif
}
DWELL_DEVICE void begin_copy_of(float* to, const float* from) {
#if DWELL_ASYNC_COPIES
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address_in_shared(to)), "l"(from) : "memory");
#else
  *to = *from;
#endif
}
// Four at once, where both are aligned.
DWELL_DEVICE void begin_copy_of_four(float* to, const float* from) {
#if DWELL_ASYNC_COPIES
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address_in_shared(to)), "l"(from) : "memory");
#else
  for (u32 i = 0; i < 4; ++i) to[i] = from[i];
#endif
}
DWELL_DEVICE void end_copies() {
#if DWELL_ASYNC_COPIES
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
// The other way round.
template <class C, u32 threads>
DWELL_DEVICE void copy_out(const Member& m, u8* to, const u8* from) {
  constexpr u32 kWords = C::alignment % 4 == 0 ? C::bytes / 4 : 0;
  in_turn<0, kWords, threads>(m, [&](u32 i) { reinterpret_cast<u32*>(to)[i] = reinterpret_cast<const u32*>(from)[i]; });
  in_turn<kWords * 4, C::bytes, threads>(m, [&](u32 i) { to[i] = from[i]; });
}

// `combine` over the values of `lanes` neighbouring threads, a power of two up to 32, the same in all of them.
template <u32 lanes, class Combine>
DWELL_DEVICE float over_lanes(float value, Combine combine) {
#if DWELL_PARALLEL_GROUP
  DWELL_UNROLL
  for (u32 distance = lanes / 2; distance > 0; distance /= 2) value = combine(value, __shfl_xor_sync(~0U, value, distance));
#else
  (void)combine;
#endif
  return value;
}

// Gets the `G::count` words of an exchange, and puts them where the products' results lie. Ends the exchange.
template <class G, u32 threads>
DWELL_DEVICE void gather(Member& m, const u32* words) {
#if DWELL_PARALLEL_GROUP
  constexpr u32 kAtOnce = G::count <= threads ? 1 : 4;  // loads in flight
#else
  constexpr u32 kAtOnce = 1;
#endif
  DWELL_UNROLL_NOT
  for (u32 first = m.thread(); first < G::count; first += kAtOnce * threads) {
    float value[kAtOnce];
    for (u32 round = 0;; ++round) {
      bool there = true;
      DWELL_UNROLL
      for (u32 k = 0; k < kAtOnce; ++k) {
        const u32 i = first + k * threads;
        if (i < G::count && !m.look(i, &value[k])) there = false;
      }
      if (there) break;
      relax(round);
    }
    DWELL_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u32 i = first + k * threads;
      if (i < G::count) *m.local<float>(G::place(words, i)) = value[k];
    }
  }
  m.end_exchange();
}

}  // namespace device
}  // namespace dwell
