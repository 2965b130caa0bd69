// The resident kernel: one block a worker, four executing warps and a control warp.
#pragma once

#include "device/cuda_control.hpp"
#include "device/plain.hpp"

// Called by operators that make tasks, in the lanes of warp 0.
#if (DWELL_PARTS) & (1U << 7U)
extern "C" __device__ __noinline__ void dwell_spawn(dwell::device::Context* context, dwell::u32 opcode, dwell::device::Make how,
                                                    dwell::u64 bytes) {
  dwell::device::spawn::make(context, opcode, how, bytes);
}
#endif

// DWELL_WORKERS: least workers for which a multiprocessor must have registers. src/jit defines it where operators are inlined; without it
// the compiler chooses.
#if defined(DWELL_WORKERS)
#define DWELL_BOUNDS __launch_bounds__(dwell::device::kBlockThreads, DWELL_WORKERS)
#else
#define DWELL_BOUNDS __launch_bounds__(dwell::device::kBlockThreads)
#endif

// One lease. Launched with lease.workers blocks of kBlockThreads threads and lease.scratch_bytes of dynamic shared memory.
extern "C" __global__ void DWELL_BOUNDS dwell_resident(const __grid_constant__ dwell::device::Lease lease) {
  using namespace dwell;
  using namespace dwell::device;
  __shared__ Worker worker;
  extern __shared__ __align__(16) u8 scratch[];
  if (threadIdx.x == 0) {
    worker.idle = 1;
    worker.noting = 0;
    worker.backlog = 0;
    worker.counted = 0;
    worker.level = 0;
    worker.me = blockIdx.x;
    set_up(lease, &worker);
    worker.context.yield = 0;
    worker.graph = {};
    worker.linked = {};
    if (has(part::spawn)) spawn::begin(lease, &worker);
    worker.way = {};
    worker.context.scratch = scratch;
  }
  __syncthreads();
  if (threadIdx.x >= kGroupThreads) {
    ControlWarp(lease, &worker, blockIdx.x).serve();
    return;
  }
  const chain::Steps steps(&worker);
  for (u32 turn = 0;; ++turn) {
    asm volatile("barrier.sync %0, %1;" ::"n"(kFrameBarrier), "n"(kBlockThreads) : "memory");
    const FramePlace place = (turn & 1U) == 0 ? kFrame0 : kFrame1;
    const plain::Head head = plain::head_at(steps.address(), place);
    if (head.word0 == kQuit) return;
    const bool is_plain_one = is_plain(head.word1) && timed_by(lease) == 0;
    if (is_plain_one && plain::run(lease, steps, place, head.word0)) continue;
    if (is_plain_one && threadIdx.x == 0) plain::await_note(steps.worker());
    run(lease, steps.worker(), place, is_plain_one);
  }
}
#undef DWELL_BOUNDS
