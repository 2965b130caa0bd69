// Chains of a graph: nodes that each wait only for the one before, with consecutive records. The worker reads them ahead into its own
// memory, so a step costs no load of device memory.
//
// The read-ahead memory has four blocks of eight slots, used in turn. Invariant: while a node runs whose record begins in a block, this
// block and the next are loaded for all threads, and the third is pending. The step into a block issues the third block from there, over
// the one left before, and waits for the second. So the record after the running one is always loaded.
#pragma once

#include "device/graph.hpp"
#include "device/operator_table.hpp"

namespace dwell::device::chain {

inline constexpr FramePlace kNowhere = ~0U;
inline constexpr FramePlace kSame = ~0U - 1;  // the same task comes next (sources::calls_again)

// What a worker reads after a node, before the barrier: after it, another thread may already be in the next operator.
struct Seen {
  u32 word0;  // of the next node's header
  u32 word1;
  bool stops;   // the node has failed, has used scratch memory or has made tasks
  bool yields;  // the worker should leave
};

#if DWELL_CONTROL_WARP

inline constexpr u32 kBlock = 8;  // of fewer slots, a step pays more for the instructions that issue one
static_assert(4 * kBlock == kAheadSlots && 3 * kBlock <= kPadding);

// Returns whether a frame is in the read-ahead memory.
DWELL_DEVICE bool is_ahead(FramePlace place) { return place < kAheadSlots; }

// Returns the place `slots` behind one in the read-ahead memory.
DWELL_DEVICE FramePlace behind(FramePlace place, u32 slots) { return (place + slots) & (kAheadSlots - 1); }

// Returns whether the node at `next`, behind the one at `at`, begins in another block.
DWELL_DEVICE bool is_in_another_block(FramePlace at, FramePlace next) { return ((at ^ next) & kBlock) != 0; }

// Copies of a word from global to shared memory, in groups for which the calling thread waits. Synchronous where the device has no
// asynchronous ones.
DWELL_DEVICE void copy_word(u32 to, u64 from) {
#if DWELL_ASYNC_COPIES
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
#else
  const u32 word = load<Order::relaxed, Scope::device>(pointer_to_global<const u32>(from));
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
#endif
}
DWELL_DEVICE void end_of_copies() {
#if DWELL_ASYNC_COPIES
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
DWELL_DEVICE void await_copies() {
#if DWELL_ASYNC_COPIES
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
DWELL_DEVICE void await_copies_but_one() {
#if DWELL_ASYNC_COPIES
  asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// Copies a block from `address` on to `place`, the first of a block; `slots` is the address of Worker::slots in shared memory. Called by
// warp 0: a lane a word of two slots, and one a link.
DWELL_DEVICE void copy_block(u32 slots, FramePlace place, u64 address) {
  // Read the lane again: else the compiler keeps values derived from it across calls of operators, which costs them registers.
  u32 lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  if ((lane & 3U) != 0) {
    const u32 word = lane / 16 * kSlotWords + lane % 16 / 4 * 3 + (lane & 3U) - 1;
    const u32 to = slots + (place * kSlotWords + word) * 4;
    const u64 from = address + lane * 4;
#pragma unroll
    for (u32 i = 0; i < kBlock; i += 2) copy_word(to + i * kSlotWords * 4, from + i * kCell);
    // The first slot is repeated at the end, so the slots of a record are always adjacent.
    if (place == 0 && lane < 16) copy_word(to + kAheadSlots * kSlotWords * 4, from);
  }
  end_of_copies();
}

// Starts to read ahead, into place 0, what follows the node at `place`, which was not read ahead. Called by warp 0.
DWELL_DEVICE_COLD void begin(const Lease& lease, Worker* worker, FramePlace place) {
  const Frame* const frame = frame_at(worker, place);
  const Header header = frame->header();
  const u64 address = graph::address_of(lease, frame->position() + header.slots);
  const u32 slots = address_in_shared(worker->slots);
  // Pending copies of an earlier chain must not overwrite these.
  await_copies();
#pragma unroll 1
  for (u32 i = 0; i < 3 * kBlock; i += kBlock) copy_block(slots, i, address + i * kCell);
}
// Waits for these copies, for the lanes of warp 0. The others see them after a barrier.
DWELL_DEVICE void await_begin() { await_copies(); }
// Returns the place of the node behind the one at `place`, for which begin was called.
DWELL_DEVICE FramePlace first(const Lease&, Worker*, FramePlace) { return 0; }

// The steps of a worker from task to task, also in read-ahead chains. A step uses one shared-memory address, in a register: of several the
// compiler would keep some in local memory, or compute them again.
class Steps {
 public:
  explicit DWELL_DEVICE Steps(Worker* worker) {
    // Adds 0 as ctaid.z (the grid has one dimension), which hides the address from the assembler; it would see through a copy.
    asm volatile("{ .reg .u32 none; mov.u32 none, %%ctaid.z; add.u32 %0, %1, none; }" : "=r"(worker_) : "r"(address_in_shared(worker)));
  }

  DWELL_DEVICE Worker* worker() const { return pointer_to_shared<Worker>(worker_); }
  DWELL_DEVICE u32 address() const { return worker_; }

  // Runs an operator for the task at `at`.
  DWELL_DEVICE void call(Callee callee, u32 opcode, FramePlace at) const {
    const u32 arguments = worker_ + at * (kSlotWords * 4) + sizeof(u32) * kHeaderWords;
    // Each thread stores it for itself, since no barrier precedes the operator.
    asm volatile("st.shared.u32 [%0 + %1], %2;" ::"r"(worker_), "n"(kArguments), "r"(arguments) : "memory");
    call_operator(callee, worker_ + kContext, opcode, arguments);
  }

  // Returns the place of the node behind the one at `at`, whose header has this word 1, or kNowhere.
  DWELL_DEVICE FramePlace behind(FramePlace at, u32 word1) const {
    return (word1 & flag::node::chain << 4U) != 0 ? chain::behind(at, word1 & 0xFU) : kNowhere;
  }

  DWELL_DEVICE Seen look(const Lease&, FramePlace next) const {
    Seen seen;
    u32 status;
    u32 used;
    u32 yield;
    u32 spawned;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
                 : "=r"(status), "=r"(used), "=r"(yield), "=r"(spawned)
                 : "r"(worker_), "n"(kContext)
                 : "memory");
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(seen.word0), "=r"(seen.word1)
                 : "r"(worker_ + next * (kSlotWords * 4))
                 : "memory");
    seen.stops = (status | used | spawned) != 0;
    seen.yields = yield != 0;
    return seen;
  }

  // Issues a block, in the step to the node at `next`, the first in its block. Called by warp 0, after the operator before.
  DWELL_DEVICE void read_ahead(const Lease& lease, FramePlace next) const {
    u32 word2;
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(word2) : "r"(worker_ + next * (kSlotWords * 4) + 8) : "memory");
    // The record's cell, less the slots of its block before it.
    const u32 block = word2 - (next & (kBlock - 1));
    copy_block(worker_, chain::behind(next & ~(kBlock - 1), 2 * kBlock), graph::address_of(lease, block + 2 * kBlock));
    // All but the newest block are loaded.
    await_copies_but_one();
  }

 private:
  // The slots come first in a worker, and the context lies behind them.
  static constexpr u32 kContext = sizeof(Worker::slots);
  static constexpr u32 kArguments = kContext + 4 * sizeof(u32);  // Context::arguments
  static_assert(kContext % alignof(Context) == 0, "no gap");

  u32 worker_;
};

#else

// No read-ahead in software: the processor does it.
DWELL_DEVICE bool is_ahead(FramePlace) { return false; }
DWELL_DEVICE bool is_in_another_block(FramePlace, FramePlace) { return false; }
DWELL_DEVICE void begin(const Lease&, Worker*, FramePlace) {}
DWELL_DEVICE void await_begin() {}

// Reads the node behind the one at `place`. Returns its place.
DWELL_DEVICE FramePlace first(const Lease& lease, Worker* worker, FramePlace place) {
  const FramePlace to = place == kFrame0 ? kFrame1 : kFrame0;
  const Frame* const from = frame_at(worker, place);
  Frame* const frame = frame_at(worker, to);
  const Header header = from->header();
  const Slot* const record = pointer_to_global<const Slot>(graph::address_of(lease, from->position() + header.slots));
  const u32 slots = record->quad[0].word[1] & 0xFU;
  u32 slot = 0;
  do {
    u32* const words = frame->word + slot * kSlotWords;
    const Quad* const quads = record[slot].quad;
    DWELL_UNROLL
    for (u32 i = 0; i < kSlotWords; ++i) words[i] = quads[i / 3].word[i % 3];
  } while (++slot < slots);
  return to;
}

// Handles an exception that has left the operator of the task at `at`: the task has failed, unless it had before.
DWELL_DEVICE_COLD void threw(Worker* worker, FramePlace at) {
  if (worker->context.status == status::ok) worker->context.status = status::exception;
  if (worker->threw != nullptr) worker->threw(worker->threw_to, frame_at(worker, at)->word);
}
// The same for a checked operator that has accessed elements out of bounds.
DWELL_DEVICE_COLD void left_bounds(Worker* worker, const OutOfBounds& out) {
  Context& context = worker->context;
  if (context.status != status::ok) return;
  context.status = status::out_of_bounds;
  write_overrun(context.overruns, context.overrun_count++, context.arguments, out.first, out.count, out.size, out.at);
}

class Steps {
 public:
  explicit Steps(Worker* worker) : worker_(worker) {}
  Worker* worker() const { return worker_; }
  void call(Callee callee, u32 opcode, FramePlace at) const {
    worker_->context.arguments = frame_at(worker_, at)->arguments();
    // Free unless an exception is thrown: only the unwinder reads the handler tables.
    try {
      callee(&worker_->context, opcode, worker_->context.arguments);
    } catch (const OutOfBounds& out) {
      left_bounds(worker_, out);
    } catch (...) {
      threw(worker_, at);
    }
  }
  FramePlace behind(FramePlace, u32) const { return kNowhere; }
  Seen look(const Lease& lease, FramePlace) const {
    graph::look_at_clock(lease, worker_);
    const Context& context = worker_->context;
    return Seen{0, 0, (static_cast<u32>(context.status) | context.scratch_used | context.spawned) != 0, context.yield != 0};
  }
  void read_ahead(const Lease&, FramePlace) const {}

 private:
  Worker* worker_;
};

#endif

}  // namespace dwell::device::chain
