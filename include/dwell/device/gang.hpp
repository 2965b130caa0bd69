// Gangs: tasks whose groups all run at once, and the barriers among them.
//
//   DWELL_OPERATOR(relax)(dwell::Group g, dwell::Span<float> cells, dwell::u32 steps) {
//     const dwell::Gang gang = g.gang();
//     for (dwell::u32 step = 0; step < steps; ++step) {
//       ...                     // this group's part of the cells
//       gang.sync();
//     }
//   }
//   runtime.submit(relax, cells, 1000U, dwell::gang(64));
//
// A long gang lets leases end: it begins at `gang.resume(0U)` and checks at times
//   if (step % 64 == 63 && gang.should_yield()) return gang.yield(step + 1);
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/log_line.hpp>
#include <dwell/device/timeline.hpp>

namespace dwell {

namespace device {

// A gang's memory, in words: a line for each barrier, the first for Gang::sync(), with the words below; then 32 bytes a member, of which
// the first word counts its steps (Gang::sync_neighbours). Barriers count arrivals modulo 2^32, and are never reset.
DWELL_CONSTANT u32 kGangLine = 32;
DWELL_CONSTANT u32 kGangMember = 8;
DWELL_HOST_DEVICE u32 gang_words(u32 members) {
  return (1 + kGangBarriers) * kGangLine + (members * kGangMember + kGangLine - 1) / kGangLine * kGangLine;
}
// In the first line, after the count of arrivals.
DWELL_CONSTANT u32 kGangAnswers = 1;  // two, of Gang::should_yield
DWELL_CONSTANT u32 kGangYields = 3;   // 1: the gang yields
DWELL_CONSTANT u32 kGangResumed = 4;  // not 0: it has yielded before
DWELL_CONSTANT u32 kGangState = 5;    // the state that it saves, or has saved

// Notes in the timeline a barrier that the group reached at `begun`. Called by one thread.
DWELL_DEVICE void note_barrier(Context* context, u64 begun, u32 barrier) {
#if DWELL_SHARED_MEMORY
  const u32* const arguments = pointer_to_shared<const u32>(context->arguments);
#else
  const u32* const arguments = context->arguments;
#endif
  const u32 of_node = log_made_in(arguments[-2]) != 0 ? Event::kOfNode : 0;
  put_event(&context->events, begun, time_since(begun), Event::kBarrier, arguments[-1], barrier | of_node);
}

DWELL_DEVICE u32* gang_member(u32* memory, u32 rank) { return memory + (1 + kGangBarriers) * kGangLine + rank * kGangMember; }

}  // namespace device

// The gang that runs a task. A small value, valid as long as the operator runs. All members but rank and size are called together by all
// threads of a group.
class Gang {
 public:
  DWELL_DEVICE Gang(device::Context* context, const Group& group, u32 size) : context_(context), group_(group), size_(size) {}

  // This group among those of the gang: Group::index and Group::count.
  DWELL_DEVICE u32 rank() const { return group_.index(); }
  DWELL_DEVICE u32 size() const { return size_; }

  // A barrier of all groups of the gang. Each sees what the others have written before.
  DWELL_DEVICE void sync() const { arrive(0, size_); }
  // The same for `count` groups of the gang, at a barrier with a name: 0 to 7. Within a task, the same groups must use a name each time.
  // With another name, or for more groups than the gang has, no group waits, and the task fails with status::no_barrier.
  DWELL_DEVICE void sync(u32 name, u32 count) const {
    if (name >= device::kGangBarriers || count > size_) return group_.fail(status::no_barrier);
    arrive(1 + name, count);
  }

  // Waits until the groups with these ranks have called this as often as this group; sees what they have written before their calls. Groups
  // that name each other proceed in step; others may be any number of steps ahead. Cheaper than sync: no single word is shared by all.
  DWELL_DEVICE void sync_neighbours(const u32* ranks, u32 count) const {
    step_with(count, [ranks](u32 i) { return ranks[i]; });
  }
  // The same for up to four ranks.
  DWELL_DEVICE void sync_neighbours(u32 a) const { sync_with(1, a, a, a, a); }
  DWELL_DEVICE void sync_neighbours(u32 a, u32 b) const { sync_with(2, a, b, b, b); }
  DWELL_DEVICE void sync_neighbours(u32 a, u32 b, u32 c) const { sync_with(3, a, b, c, c); }
  DWELL_DEVICE void sync_neighbours(u32 a, u32 b, u32 c, u32 d) const { sync_with(4, a, b, c, d); }

  // Returns whether the runtime wants the workers back (Group::should_yield): the same in all groups, which must all call this. Costs a
  // sync.
  DWELL_DEVICE bool should_yield() const {
    using namespace device;
    if (context_->gang == nullptr) return false;
    // Two answers alternate, so none is overwritten before all groups have read it.
    const u32 turn = context_->gang_asks & 1U;
    group_.sync();
    if (group_.rank() == 0) {
      context_->gang_asks += 1;
      if (rank() == 0) store<Order::relaxed, Scope::device>(context_->gang + kGangAnswers + turn, group_.should_yield() ? 1U : 0U);
    }
    sync();
    return load<Order::relaxed, Scope::device>(context_->gang + kGangAnswers + turn) != 0;
  }
  // Gives the workers back. All groups call this and return. Then the task waits, behind other gangs, until it gets as many workers again.
  // The operator is called again with the same arguments, and `resume` returns the state that group 0 has passed here. Scratch memory is
  // lost, and barriers start over; all groups see all that groups have written. T is trivially copyable and at most 24 bytes. A failed task
  // completes instead. Tasks not submitted with dwell::gang(n), n >= 1, fail with status::no_gang.
  template <class T>
  DWELL_DEVICE void yield(const T& state) const {
    using namespace device;
    if (context_->gang == nullptr) return group_.fail(status::no_gang);
    if (rank() != 0 || group_.rank() != 0) return;
    Words<T> given;
    given.value = state;
    for (u32 i = 0; i < kGangStateWords; ++i) store<Order::relaxed, Scope::device>(context_->gang + kGangState + i, given.word[i]);
    store<Order::relaxed, Scope::device>(context_->gang + kGangYields, 1U);
  }
  // The state of the last yield; `initial` if there was none.
  template <class T>
  DWELL_DEVICE T resume(const T& initial) const {
    using namespace device;
    Words<T> saved;
    saved.value = initial;
    if (context_->gang == nullptr || load<Order::relaxed, Scope::device>(context_->gang + kGangResumed) == 0) return initial;
    for (u32 i = 0; i < kGangStateWords; ++i) saved.word[i] = load<Order::relaxed, Scope::device>(context_->gang + kGangState + i);
    return saved.value;
  }

 private:
  // The saved words of a state.
  template <class T>
  union Words {
    static_assert(sizeof(T) <= device::kGangStateWords * 4, "a gang saves 24 bytes when it yields: keep the rest in a buffer");
    DWELL_DEVICE Words() : word{} {}
    u32 word[device::kGangStateWords];
    T value;
  };

  // Waits until the counter has reached `least`.
  DWELL_DEVICE static void await(const u32* counter, u32 least) {
    using namespace device;
    for (u32 round = 0; static_cast<i32>(load<Order::acquire, Scope::device>(counter) - least) < 0; ++round) relax(round);
  }

  DWELL_DEVICE void arrive(u32 barrier, u32 count) const {
    using namespace device;
    // Loaded beside the group's barrier, during which no thread changes them.
    u32* const memory = context_->gang;
    const u32 passes = context_->gang_passes[barrier] + 1;
    const bool notes = is_noted();
    group_.sync();
    const u64 begun = noted_begin(notes);
    if (group_.rank() == 0 && size_ > 1) {
      // Release: what all threads of the group have written. Pairs with the loads of await, in all groups.
      fence<Scope::device>();
      add<Order::release>(memory + barrier * kGangLine, 1U);
      context_->gang_passes[barrier] = passes;
    }
    // In another warp, if any: the fence stalls its own.
    if (group_.rank() == (group_.size() > kLanes ? kLanes : 0) && size_ > 1) await(memory + barrier * kGangLine, passes * count);
    group_.sync();
    if (begun != 0) note_barrier(context_, begun, barrier);
  }

  // The step of sync_neighbours with the groups of ranks rank_of(0) to rank_of(count - 1).
  template <class RankOf>
  DWELL_DEVICE void step_with(u32 count, RankOf rank_of) const {
    using namespace device;
    const u32 step = context_->gang_steps + 1;
    const bool notes = is_noted();
    group_.sync();
    const u64 begun = noted_begin(notes);
    if (group_.rank() == 0) {
      context_->gang_steps = step;
      // Release: what all threads of the group have written. Pairs with the loads below, of the neighbours.
      if (size_ > 1) store<Order::release, Scope::device>(gang_member(context_->gang, rank()), step);
    }
    // Distributes neighbours over the warps other than the first, which its store stalls: a warp that waits delays no other.
    const u32 warps = group_.size() / kLanes;
    const bool waits = size_ > 1 && (warps == 1 || group_.rank() >= kLanes);
    const u32 first = warps == 1 ? group_.rank() : group_.rank() / kLanes - 1 + group_.rank() % kLanes * (warps - 1);
    const u32 stride = warps == 1 ? group_.size() : group_.size() - kLanes;
    for (u32 i = first; waits && i < count; i += stride) await(gang_member(context_->gang, rank_of(i)), step);
    group_.sync();
    if (begun != 0) note_barrier(context_, begun, Event::kNeighbours);
  }

  // Returns whether the timeline notes barriers. Called before the group's own barrier, which the load overlaps.
  DWELL_DEVICE bool is_noted() const { return context_->events.quads != nullptr; }
  // Returns when all threads of the group have reached the gang's barrier, in the thread that notes it; 0 in the others, and if nothing is
  // noted. In a group of several warps another warp releases and waits.
  DWELL_DEVICE u64 noted_begin(bool notes) const { return group_.rank() == group_.size() / 2 && size_ > 1 && notes ? device::now_ns() : 0; }

  DWELL_DEVICE void sync_with(u32 count, u32 a, u32 b, u32 c, u32 d) const {
    step_with(count, [a, b, c, d](u32 i) { return i == 0 ? a : i == 1 ? b : i == 2 ? c : d; });
  }

  device::Context* context_;
  Group group_;
  u32 size_;
};

DWELL_DEVICE Gang Group::gang() const {
  const bool none = count_ > 1 && context_->gang == nullptr;
  if (none) fail(status::no_gang);
  return Gang(context_, *this, none ? 1 : count_);
}

}  // namespace dwell
