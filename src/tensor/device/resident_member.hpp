// A member of a gang that stays on the device and runs its operations each time that the host calls (dwell::Step).
//
// Numbers of a call travel as words of 8 bytes, {number of the call, value}, in memory of the host: such a word is complete when it is
// visible. Member 0 polls the caller's words, decides alone whether the gang runs or leaves, and hands both on in device memory as words
// {number of the arrival, value}. Results go back as words of the call.
#pragma once

#include "tensor/device/member.hpp"

namespace dwell {
namespace device {

// Memory that the gang and its host share. Written once for each kernel, and passed by value.
struct StepMemory {
  // In memory of the host. `control`: the number of the last call, and above it the number of the last kernel that shall leave.
  const u64* control;
  const u64* inputs;
  u64* outputs;
  u32* left;  // the number of the last kernel that has left
  // In memory of the device: a word that tells the others what comes, then the inputs.
  u64* arrivals;
  u64 lease_ns;  // how long the kernel stays at most
  u64 idle_ns;   // how long it waits for a call
  u32 kernel;    // its number, from 1 on
  u32 unused;
};
static_assert(sizeof(StepMemory) == 64, "the kernel's argument has no padding");

DWELL_CONSTANT u32 kGangRuns = 0;  // what comes
DWELL_CONSTANT u32 kGangLeaves = 1;

class ResidentMember : public Member {
 public:
  // As Member; `numbers` are never null, and have kNumbersOfMember more numbers for each member: its calls and its arrivals.
  DWELL_DEVICE ResidentMember(u32 rank, u32 thread, u8* local, u64* words, u32 exchanged, u32* numbers, u32 members,
                              const StepMemory& memory)
      : Member(rank, thread, local, words, exchanged, numbers),
        own_(numbers + kNumbersLine + (members + rank) * kNumbersOfMember),
        memory_(memory),
        calls_(own_[0]),
        arrivals_(own_[1]),
        is_over_(false),
        begun_(now_ns()) {}
  // Keeps the numbers for the next kernel. Called once, behind all steps.
  DWELL_DEVICE void end() const {
    Member::end();
    if (thread() != 0) return;
    own_[0] = calls_;
    own_[1] = arrivals_;
  }

  // Returns whether the gang leaves, behind await_call.
  DWELL_DEVICE bool is_over() const { return is_over_; }

  // Waits for the next call, and puts the `Form::count` words of its inputs where Form::place says: word Form::word(i) of the caller's is
  // word i here. Called by all threads; what a thread puts is visible to its member's others behind it.
  template <class Form, u32 threads, u32 members>
  DWELL_DEVICE void await_call(const u32* at) {
    ++arrivals_;
    if (rank() == 0) {
      is_over_ = !await_host<Form, threads>(at);
      if (members > 1) hand_on<Form, threads>(at);
      if (is_over_ && thread() == 0) store<Order::relaxed, Scope::system>(memory_.left, memory_.kernel);  // read by the host's polls
    } else {
      is_over_ = any(!await_arrival<Form, threads>(at));
    }
    if (!is_over_) ++calls_;
  }

  // Puts a word of the call's results.
  DWELL_DEVICE void answer(u32 i, u32 bits) const {
    // Relaxed: nothing but the word itself is published. Read by the host's polls.
    store<Order::relaxed, Scope::system>(memory_.outputs + i, static_cast<u64>(calls_) << 32U | bits);
  }
  template <u32 threads>
  DWELL_DEVICE void answer_all(u32 first, const u32* from, u32 count) const {
    for (u32 i = thread(); i < count; i += threads) answer(first + i, from[i]);
  }

 private:
  static constexpr u32 kRoundsOfClock = 8;

  // Returns whether the gang runs.
  template <class Form, u32 threads>
  DWELL_DEVICE bool await_host(const u32* at) {
    const u32 call = calls_ + 1;
    u64 since = 0;  // thread 0 waits
    for (u32 round = 0;; ++round) {
      bool there = true;
      DWELL_UNROLL_NOT
      for (u32 i = thread(); i < Form::count; i += threads) {
        // Relaxed: a word says by itself whether it is of this call. Pairs with the host's stores of words.
        const u64 word = load<Order::relaxed, Scope::system>(memory_.inputs + Form::word(at, i));
        if (static_cast<u32>(word >> 32U) == call)
          *local<u32>(Form::place(at, i)) = static_cast<u32>(word);
        else
          there = false;
      }
      bool leaves = false;
      if (thread() == 0) {
        const u64 control = load<Order::relaxed, Scope::system>(memory_.control);
        if (static_cast<u32>(control) != call) {
          there = false;
          // The clock takes longer than a look of the loop: not in the first one, which a call may follow closely.
          const bool looks = round % kRoundsOfClock == kRoundsOfClock - 1;
          const u64 now = looks ? now_ns() : 0;
          if (looks && since == 0) since = now;
          leaves = static_cast<i32>(static_cast<u32>(control >> 32U) - memory_.kernel) >= 0 ||
                   (looks && (now - begun_ > memory_.lease_ns || now - since > memory_.idle_ns));
        }
      }
      if (all(there)) return true;
      // A call that has begun to arrive is taken by the next kernel.
      if (any(leaves)) return false;
      relax(round);
    }
  }
  template <class Form, u32 threads>
  DWELL_DEVICE void hand_on(const u32* at) const {
    const u64 number = static_cast<u64>(arrivals_) << 32U;
    if (!is_over_)
      for (u32 i = thread(); i < Form::count; i += threads)
        store<Order::relaxed, Scope::device>(memory_.arrivals + 1 + i, number | *local<u32>(Form::place(at, i)));
    if (thread() == 0) store<Order::relaxed, Scope::device>(memory_.arrivals, number | (is_over_ ? kGangLeaves : kGangRuns));
  }
  // Returns whether the gang runs, as far as the calling thread has seen: a thread without words sees nothing.
  template <class Form, u32 threads>
  DWELL_DEVICE bool await_arrival(const u32* at) const {
    for (u32 i = thread(); i < Form::count; i += threads) {
      u64 word = 0;
      for (u32 round = 0;; ++round) {
        word = look(1 + i);
        if (is_here(word)) break;
        const u64 what = look(0);
        if (is_here(what) && static_cast<u32>(what) == kGangLeaves) return false;
        relax(round);
      }
      *local<u32>(Form::place(at, i)) = static_cast<u32>(word);
    }
    if (thread() != 0) return true;
    u64 what = 0;
    for (u32 round = 0; !is_here(what = look(0)); ++round) relax(round);
    return static_cast<u32>(what) != kGangLeaves;
  }
  // Relaxed: a word says by itself whether it is of this arrival. Pairs with hand_on. Member 0 writes it again behind an exchange or a
  // barrier in which it has heard from all members, behind their looks.
  DWELL_DEVICE u64 look(u32 i) const { return load<Order::relaxed, Scope::device>(memory_.arrivals + i); }
  DWELL_DEVICE bool is_here(u64 word) const { return static_cast<u32>(word >> 32U) == arrivals_; }

  u32* own_;
  const StepMemory& memory_;
  u32 calls_;  // that it has taken
  u32 arrivals_;
  bool is_over_;
  u64 begun_;
};

}  // namespace device
}  // namespace dwell
