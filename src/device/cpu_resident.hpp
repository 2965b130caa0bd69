// The resident loop of a CPU worker: one thread that fetches, runs and completes.
//
// The crew is one at a time here: whoever is idle takes the fetch lock, takes one task and gives the lock back before it runs it, so a
// long task holds up nobody. Shares of wide tasks come through the ready queue.
#pragma once

#include "device/books.hpp"
#include "device/worker.hpp"

namespace dwell::device {

class CpuWorker {
 public:
  // `worker` and `scratch` are the calling thread's own and outlive the lease.
  CpuWorker(const Lease& lease, Worker* worker, u8* scratch, u32 me) : lease_(lease), worker_(worker), me_(me) {
    worker_->context.scratch_bytes = lease.scratch_bytes;
    worker_->context.scratch = scratch;
    worker_->context.lease = lease.number;
    worker_->context.lease_over = &lease.control->crew.lease_over;
    worker_->context.started = now_ticks();
    worker_->context.lease_ticks = lease.lease_ticks;
    reset(&worker_->context);
  }

  // Serves until all workers leave the lease.
  void serve() {
    u32 quiet = 0;
    for (u32 round = 1;; ++round) {
      if (load<Order::relaxed, Scope::system>(&lease_.report->end) == lease_.number) gate::close(lease_, true);
      const u32 gate_word = load<Order::relaxed, Scope::device>(gate::word(lease_));
      if (gate::closing(gate_word)) {
        if (depart()) return;
        ran_ = true;
        continue;
      }
      TaskQuads task;
      const Taken taken = take(&task);
      if (taken == Taken::run) {
        run_taken(task);
        ran_ = true;
      } else if (taken == Taken::nothing) {
        relax(quiet++);
      }
      if ((round & (taken == Taken::nothing ? 15U : 255U)) == 0 || taken == Taken::blocked) tick();
    }
  }

 private:
  enum class Taken : u8 { nothing, blocked, passed, run };

  bool depart() {
    store<Order::relaxed, Scope::device>(lease_.claims + me_, static_cast<u64>(0));
    const gate::Passage passage = gate::pass(lease_);
    if (passage == gate::Passage::leave_last) books::close(lease_);
    return passage != gate::Passage::stay;
  }

  // The next task that may run: from the ready queue, else from the ring.
  Taken take(TaskQuads* task) {
    if (ready_queue::try_take(lease_, task)) {
      const u32 slots = task->quad[0].word[1] & 0xFU;
      if (slots > 1) load_held(lease_, task, task->quad[0].word[2], 1, slots);
      return Taken::run;
    }
    u32* const lock = &lease_.control->fetch_lock.value;
    if (load<Order::relaxed, Scope::device>(lock) != 0) return Taken::nothing;
    // Pairs with the release below: the fetch position and all that admission has done.
    if (exchange<Order::acq_rel>(lock, 1U) != 0) return Taken::nothing;
    const Taken taken = fetch(task);
    store<Order::release, Scope::device>(lock, 0U);
    return taken;
  }

  // Takes the task at the fetch position out of the ring. The caller holds the fetch lock.
  Taken fetch(TaskQuads* task) {
    const u32 position = load<Order::relaxed, Scope::device>(&lease_.control->fetch_position);
    drains_ = load<Order::acquire, Scope::device>(&lease_.control->crew.drains);
    if (!load_slot(task, position, 0)) return Taken::nothing;
    const Header header = Header::from(task->quad[0].word[0], task->quad[0].word[1]);
    for (u32 slot = 1; slot < header.slots; ++slot)
      if (!load_slot(task, position + slot, slot)) return Taken::nothing;
    if (!Header::simple(task->quad[0].word[1], drains_)) {
      const Admission admission = admission::admit(lease_, *task, header, position, &drains_);
      if (admission == Admission::not_yet) return Taken::blocked;
      store<Order::relaxed, Scope::device>(&lease_.control->fetch_position, position + header.slots);
      return admission == Admission::run ? Taken::run : Taken::passed;
    }
    store<Order::relaxed, Scope::device>(&lease_.control->fetch_position, position + 1);
    return Taken::run;
  }

  bool load_slot(TaskQuads* task, u32 position, u32 slot) const {
    const Slot& from = lease_.ring[index_of(position, lease_.ring_shift)];
    const u32 lap = lap_of(position, lease_.ring_shift);
    for (u32 i = 0; i < 4; ++i) {
      task->quad[slot * 4 + i] = load_quad<Scope::system>(&from.quad[i]);
      if (task->quad[slot * 4 + i].lap != lap) return false;
    }
    return true;
  }

  void run_taken(const TaskQuads& task) {
    Frame* const frame = &worker_->frame[0];
    const u32 slots = task.quad[0].word[1] & 0xFU;
    for (u32 i = 0; i < slots * 4; ++i)
      for (u32 j = 0; j < 3; ++j) frame->word[i * 3 + j] = task.quad[i].word[j];
    record_in_flight(lease_, me_, frame->position(), frame->word[0] & 0xFFFFU);
    run(lease_, worker_, frame, me_, 0);
  }

  // Ends the lease when its time is over, or when nothing has happened for long enough.
  void tick() {
    if (ran_) timer_.quiet_since = now_ticks();
    ran_ = false;
    const u32 gate_word = load<Order::relaxed, Scope::device>(gate::word(lease_));
    const u32 lease_over = load<Order::relaxed, Scope::device>(&lease_.control->crew.lease_over);
    // Another worker changes the fetch position only under the lock; a stale value errs towards staying.
    const u32 fetched = load<Order::relaxed, Scope::device>(&lease_.control->fetch_position);
    const bool done = load<Order::relaxed, Scope::device>(&lease_.control->completed.value) == fetched;
    timer_ = gate::tick(lease_, timer_, gate_word, lease_over, done);
  }

  const Lease& lease_;
  Worker* worker_;
  u32 me_;
  u32 drains_ = 0;
  bool ran_ = false;  // something since the last tick
  gate::Timer timer_ = gate::Timer::start();
};

}  // namespace dwell::device
