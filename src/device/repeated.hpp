// Tasks of the host that run several times in sequence (repeat(n)). The header's `groups` counts the remaining runs, the current one
// included. Runs follow each other inside run_operator until the worker must check something else. Then, and every kLookEach runs, proceed
// is called: the task may move to another worker, and ends early if it has failed or the host has cancelled it.
#pragma once

#include "device/graph.hpp"
#include "device/in_flight.hpp"
#include "device/levels.hpp"
#include "device/members.hpp"
#include "device/source.hpp"

namespace dwell::device {

struct RepeatedTasks : SourceVerbs {
  static constexpr u32 kSources = 1U << source::repeated;
  static constexpr u32 kPart = part::repeats;

  static constexpr u32 kAgain = kSources;
  static DWELL_DEVICE bool pauses([[maybe_unused]] const Lease& lease, const Header& header) {
#if !DWELL_CONTROL_WARP
    if (cancels_wait(lease)) return true;
#endif
    return header.groups <= 1 || (header.groups - 1) % kLookEach == 0;
  }
  static DWELL_DEVICE void begin_again(Worker* worker, Frame* frame) {
    const u32 left = frame->header().groups - 1;
    frame->word[0] = (frame->word[0] & 0xFFFFU) | left << 16U;
    in_flight::note_run(worker, frame->position(), frame->word[0] & Header::kOpcodeMask, left);
  }
  static DWELL_DEVICE bool goes_on(const Header& header) { return header.groups > 1 && !header.runs_nothing(); }
  static DWELL_DEVICE Follows proceed(const Behind& at) { return run_again(at.lease, at.worker, at.to, at.whole); }

 private:
  // Runs between two loads of memory that others write.
  static constexpr u32 kLookEach = 32;

#if !DWELL_CONTROL_WARP
  // Returns whether cancels of the host wait to be processed.
  static bool cancels_wait(const Lease& lease) {
    return load<Order::relaxed, Scope::system>(&lease.report->cancels) != load<Order::relaxed, Scope::device>(&lease.control->crew.cancels);
  }
#endif

  // Reads the lease here alone: out of line, its members are loads of memory.
  static DWELL_DEVICE bool is_cancelled(const Lease& lease, u32 position) {
    const u32 noted = load<Order::relaxed, Scope::device>(&lease.wide[index_of(position, lease.ring_shift)].cancelled);
    return noted == lap_of(position, lease.ring_shift);
  }

  static DWELL_DEVICE_COLD Follows run_again(const Lease& lease, Worker* worker, Frame* frame, bool whole) {
    Context& context = worker->context;
    const u32 position = frame->position();
    const u32 left = frame->header().groups - 1;
    if (!whole) restore(lease, frame);
#if !DWELL_CONTROL_WARP
    graph::look_at_clock(lease, worker);
    // This may be the only worker that can process cancels, which it does between two tasks.
    if (cancels_wait(lease)) context.yield = 1;
#endif
    u32 follows = kFrame;
    sync_lanes();  // all have read the header
    if (lane() == 0) {
      frame->word[0] = (frame->word[0] & 0xFFFFU) | left << 16U;
      if (left % kLookEach == 0 && context.status == status::ok && is_cancelled(lease, position)) context.status = status::cancelled;
      if (context.status != status::ok)
        follows = kLaunch;
      else if (*const_cast<const volatile u32*>(&context.yield) != 0)
        follows = kNothing;
      if (follows == kNothing) {
        in_flight::clear(worker);
        context.yield = 0;
        fence<Scope::device>();  // release this run's effects to the next
      }
      if (follows == kFrame) in_flight::note_run(worker, position, frame->word[0] & Header::kOpcodeMask, left);
      if (follows != kLaunch) reset(&context);
    }
    follows = broadcast(follows);
    sync_lanes();
    if (follows == kNothing) {
      TaskQuads task = members::first_slot(*frame);
      if (lane() == 0) task.quad[0].word[1] |= flag::memory << 4U;  // whoever takes it acquires
      levels::pass_on(lease, task);
    }
    return static_cast<Follows>(follows);
  }

  // Reloads the task in `frame`, which has only its first three words, from the ring, which has the slots until the task is complete.
  static DWELL_DEVICE_COLD void restore(const Lease& lease, Frame* frame) {
    const u32 quads = frame->header().slots * 4;
    for (u32 i = lane(); i < quads; i += kLanes) {
      const Quad quad = load_quad<Scope::system>(&lease.ring[index_of(frame->position() + i / 4, lease.ring_shift)].quad[i % 4]);
      if (i == 0) continue;
      for (u32 j = 0; j < 3; ++j) frame->word[i * 3 + j] = quad.word[j];
    }
    sync_lanes();
  }
};

}  // namespace dwell::device
