// The plain path of a CUDA worker: runs and completes, in a straight line, a task of one slot and one group without waiters. After a
// failure, scratch memory or spawned tasks, run (worker.hpp) does the rest, as for all other tasks.
#pragma once

#include "device/worker.hpp"

#if DWELL_CONTROL_WARP

namespace dwell::device::plain {

// The words of a frame that the path reads.
struct Head {
  u32 word0;
  u32 word1;
  u32 position;
};

// Reads them in one load. `worker`: the worker's address in shared memory.
DWELL_DEVICE Head head_at(u32 worker, FramePlace place) {
  Head head;
  [[maybe_unused]] u32 argument;
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(head.word0), "=r"(head.word1), "=r"(head.position), "=r"(argument)
               : "r"(worker + place * (kSlotWords * 4))
               : "memory");
  return head;
}

// Waits until the control warp has noted the task that it has handed over. Called by one thread, before it notes anything itself.
DWELL_DEVICE_COLD void await_note(const Worker* worker) {
  while (*const_cast<const volatile u32*>(&worker->noting) != 0) {}
}

// Runs the task at `place`, whose header has this word 0. False when more is to be done: then its operator has returned in all threads.
// Called by all threads of the group.
DWELL_DEVICE bool run(const Lease& lease, const chain::Steps& steps, FramePlace place, u32 word0) {
  const u32 opcode = word0 & Header::kOpcodeMask;
  const Callee callee = callee_of(lease, opcode);
  observe::call(lease, nullptr, opcode, thread_rank());
  steps.call(callee, opcode, place);
  asm volatile("barrier.sync 2, %0;" ::"n"(kGroupThreads) : "memory");
  if (steps.look(lease, place).stops) return false;
  if (thread_rank() != 0) return true;
  const Head head = head_at(steps.address(), place);
  *const_cast<volatile u32*>(&steps.worker()->idle) = 1;  // the control warp may fill the other frame
  // As publish (completion.hpp): effects before completion.
  if ((head.word1 & flag::system << 4U) != 0)
    fence<Scope::system>();
  else if ((head.word1 & flag::memory << 4U) != 0)
    fence<Scope::device>();
  give_back(lease, head.position, status::ok);
  add<Order::release>(&lease.control->completed.value, 1U);
  return true;
}

}  // namespace dwell::device::plain

#endif
