// The resident loop of a CPU worker: one thread that fetches, runs and completes.
//
// The crew is one worker at a time. An idle worker takes the fetch lock, claims one task, or a range of simple ones, and releases the lock
// before it runs the first. Others take from its range meanwhile, so a long task delays no other. Shares of wide tasks pass through the
// ready queue. A worker that finds nothing in the queue and the ring steals nodes of graphs from other workers' deques.
#pragma once

#include "device/reseat.hpp"
#include "device/worker.hpp"

namespace dwell::device {

class CpuWorker {
 public:
  // `worker` and `scratch` are the calling thread's own and outlive the lease.
  CpuWorker(const Lease& lease, Worker* worker, u8* scratch, u32 me) : lease_(lease), worker_(worker), me_(me) {
    worker_->me = me;
    set_up(lease, worker_);
    worker_->context.scratch = scratch;
    worker_->context.started = now_ticks();
    worker_->context.lease_ticks = lease.lease_ticks;
    worker_->context.yield = 0;
    worker_->graph = {};
    worker_->level = 0;
    spawn::begin(lease_, worker_);
  }

  // Serves until the worker leaves the lease.
  void serve() {
    if (reseat::is_for(lease_, me_))
      reseat::lay_out(lease_);
    else if (lease_.lays_out != 0)
      reseat::await(lease_);
    if (seat::take(lease_, me_)) {
      seat::begin(lease_);
      observe::take_seat(lease_, worker_);
      work();
      spawn::give_up(lease_, worker_);
      observe::leave_seat(lease_, worker_);
      seat::leave(lease_, me_, true);  // this thread takes it again in the next lease
    }
    seat::count_out(lease_);
  }

 private:
  // `ready`: the task is plain, and loaded into its frame.
  enum class Taken : u8 { nothing, blocked, passed, run, stolen, ready };

  void work() {
    const LeaseReport& report = *lease_.report;
    const CrewLine& crew = lease_.control->crew;
    u32 quiet = 0;
    bool idle = true;  // the last round has found nothing
    Seat& mine = lease_.seats[me_];
    worker_->way = {};
    worker_->since = now_ticks();
    worker_->quiet_since = lease_.wakes != 0 ? worker_->since : mine.quiet_since;
    for (u32 round = 1;; ++round) {
      const u32 end = load<Order::relaxed, Scope::system>(&report.end);
      if (seat::is_over(lease_, end)) seat::call_over(lease_, end, true);
      if (const u32 over = load<Order::relaxed, Scope::system>(&report.over); seat::is_over(lease_, over))
        seat::call_over(lease_, over, false);
      if (seat::is_over(lease_, seat::crew_word(&crew.over)) && seat::may_leave(lease_, me_, &worker_->way)) break;
      const bool looks = (round & 15U) == 0 || worker_->turn_over != 0;
      if (looks && load<Order::relaxed, Scope::device>(&crew.gates) != 0) gates::look(lease_);
      if ((idle || looks) && load<Order::relaxed, Scope::device>(&crew.callers) != 0) host_nodes::look(lease_);
      worker_->turn_over = 0;
      cancels::look_if_asked(lease_);
      TaskQuads task;
      const Taken taken = take(&task);
      idle = taken == Taken::nothing;
      steals_ = taken != Taken::run && taken != Taken::ready;
      if (taken == Taken::ready) {
        run_plain();
        ran_ = true;
      } else if (taken == Taken::run || taken == Taken::stolen) {
        run_taken(task);
        ran_ = true;
      } else if (taken == Taken::nothing) {
        relax(quiet++);
      }
      if ((round & (taken == Taken::nothing ? 15U : 255U)) == 0 || taken == Taken::blocked) tick();
    }
    count_completed();
    mine.quiet_since = ran_ ? now_ticks() : worker_->quiet_since;
  }

  // Takes the next task that may run: from the ready queue, from the ring, or stolen. Alternates between queue and ring, so neither starves
  // the other.
  Taken take(TaskQuads* task) {
    if (sorts(lease_)) {
      const Taken sorted = sort();
      return take_queued(task) ? Taken::run : sorted;
    }
    if (was_queued_ && graph::ring_has_next(lease_)) {
      was_queued_ = false;
      const Taken taken = take_fetched(task);
      if (taken != Taken::nothing && taken != Taken::blocked) return taken;
    }
    was_queued_ = take_queued(task);
    if (was_queued_) return Taken::run;
    if (steals_ && lease_.deques != nullptr && steal(task)) return Taken::stolen;
    const Taken taken = take_fetched(task);
    return taken == Taken::nothing || taken == Taken::blocked ? take_of_others(task, taken) : taken;
  }

  bool take_queued(TaskQuads* task) {
    u32 place = 0;
    if (!ready_queue::try_take(lease_, task, &place)) return false;
    const u32 slots = task->quad[0].word[1] & 0xFU;
    if (slots > 1) sources::load_rest(lease_, task, Header::from(task->quad[0].word[0], task->quad[0].word[1]), task->quad[0].word[2]);
    observe::queued(lease_, worker_, task->quad[0].word[0], task->quad[0].word[1], task->quad[0].word[2], place);
    return true;
  }

  Taken take_fetched(TaskQuads* task) {
    u32 position = 0;
    if (range::take(lease_, me_, &position)) return begin_ranged(task, position);
    count_completed();  // another worker may have taken the last one
    if (!lock_fetching()) return Taken::nothing;
    const Taken taken = fetch(task);
    unlock_fetching();
    return taken;
  }

  // Takes the fetch lock if it is free. The only worker of all leases needs none.
  bool lock_fetching() {
    if (lease_.max_workers == 1) return true;
    u32* const lock = &lease_.control->fetch_lock.value;
    // Acquire: the fetch position and all effects of admission. Pairs with unlock_fetching.
    return load<Order::relaxed, Scope::device>(lock) == 0 && exchange<Order::acq_rel>(lock, 1U) == 0;
  }
  void unlock_fetching() { store<Order::release, Scope::device>(&lease_.control->fetch_lock.value, 0U); }

  // Takes a task from the range of a busy worker. `otherwise`: the result if there is none.
  Taken take_of_others(TaskQuads* task, Taken otherwise) {
    if (!range::are_there(lease_)) return otherwise;
    for (u32 i = 1; i < lease_.max_workers; ++i) {
      u32 position = 0;
      const u32 victim = me_ + i < lease_.max_workers ? me_ + i : me_ + i - lease_.max_workers;
      if (range::take(lease_, victim, &position)) return begin_ranged(task, position);
    }
    return otherwise;
  }

  // Loads a task taken from a range. The host may have cancelled it meanwhile.
  Taken begin_ranged(TaskQuads* task, u32 position) {
    const Slot& slot = lease_.ring[index_of(position, lease_.ring_shift)];
    u32* const words = frame_at(worker_, kFrame0)->word;
    DWELL_UNROLL
    for (u32 i = 0; i < 4; ++i) load_words<Scope::system>(&slot.quad[i], words + i * 3);
    if (is_plain(words[1]) && timed_by(lease_) == 0) return Taken::ready;
    load_slot(task, position, 0);
    const u32 word1 = unranked(task->quad[0].word[1]);
    task->quad[0].word[1] = word1;
    if (Header::simple(word1, word1 >> 20U)) return Taken::run;
    share_out(lease_, *task, Header::from(task->quad[0].word[0], word1), position, true);
    return Taken::passed;
  }

  // Steals a ready node from another worker's deque. That may be a worker of a former lease, whose node still runs.
  bool steal(TaskQuads* task) {
    for (u32 i = 1; i < lease_.max_workers; ++i) {
      const u32 victim = me_ + i < lease_.max_workers ? me_ + i : me_ + i - lease_.max_workers;
      u64 put = 0;
      if (!graph::steal(lease_, victim, task, &put)) continue;
      const u32* const words = task->quad[0].word;
      if (put != 0) observe::note_queued(lease_, worker_, words[0], words[1], put);
      observe::stolen(lease_, worker_, words[1], words[2]);
      return true;
    }
    return false;
  }

  // Fetches all tasks of the ring onto the levels, so the most urgent runs first.
  Taken sort() {
    if (!lock_fetching()) return Taken::nothing;
    Taken last = Taken::nothing;
    for (u32 tasks = 0;; ++tasks) {
      TaskQuads task;
      const Taken taken = fetch(&task);
      if (taken == Taken::nothing || taken == Taken::blocked) {
        last = taken == Taken::nothing && tasks != 0 ? Taken::passed : taken;
        break;
      }
      if (taken == Taken::run) levels::push(lease_, task);
    }
    unlock_fetching();
    return last;
  }

  // Fetches the task at the fetch position, and the simple tasks behind it into this worker's empty range. The caller holds the fetch lock.
  Taken fetch(TaskQuads* task) {
    const u32 position = load<Order::relaxed, Scope::device>(&lease_.control->fetch_position);
    drains_ = load<Order::acquire, Scope::device>(&lease_.control->crew.drains);
    if (!load_slot(task, position, 0)) return Taken::nothing;
    task->quad[0].word[1] = unranked(task->quad[0].word[1]);
    const Header header = Header::from(task->quad[0].word[0], task->quad[0].word[1]);
    for (u32 slot = 1; slot < header.slots; ++slot)
      if (!load_slot(task, position + slot, slot)) return Taken::nothing;
    if (!Header::simple(task->quad[0].word[1], drains_)) {
      const Admission admission = admission::admit(lease_, task, header, position, &drains_);
      if (admission == Admission::not_yet) return Taken::blocked;
      observe::fetched(lease_, worker_, position, header.slots);
      store<Order::relaxed, Scope::device>(&lease_.control->fetch_position, position + header.slots);
      return admission == Admission::run ? Taken::run : Taken::passed;
    }
    u32 count = 1;
    if (!sorts(lease_))
      while (count < range::kMost && is_simple_at(position + count)) ++count;
    observe::fetched(lease_, worker_, position, count);
    store<Order::relaxed, Scope::device>(&lease_.control->fetch_position, position + count);
    if (count > 1) range::put(lease_, me_, position + 1, count - 1);
    return Taken::run;
  }

  bool is_simple_at(u32 position) const {
    const Slot& from = lease_.ring[index_of(position, lease_.ring_shift)];
    const u32 lap = lap_of(position, lease_.ring_shift);
    for (u32 i = 3; i > 0; --i)
      if (load_quad<Scope::system>(&from.quad[i]).lap != lap) return false;
    const Quad head = load_quad<Scope::system>(&from.quad[0]);
    return head.lap == lap && Header::simple(head.word[1], drains_);
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
    Frame* const frame = frame_at(worker_, kFrame0);
    const u32 slots = task.quad[0].word[1] & 0xFU;
    for (u32 i = 0; i < slots * 4; ++i)
      for (u32 j = 0; j < 3; ++j) frame->word[i * 3 + j] = task.quad[i].word[j];
    set_level(lease_, worker_, frame->word[0]);
    if (is_plain(frame->word[1]) && timed_by(lease_) == 0) return run_plain();
    count_completed();
    in_flight::note(worker_, frame->word[0], frame->word[1], frame->position());
    sources::take_up(lease_, worker_, frame->header(), frame->position());
    u32* const running = &lease_.seats[me_].running_since;
    store<Order::relaxed, Scope::device>(running, static_cast<u32>(worker_clock::now(&worker_->clock) >> kTickShift) | 1U);
    run(lease_, worker_, kFrame0);
    store<Order::relaxed, Scope::device>(running, 0U);
  }

  // Runs a task that only needs to be run and completed.
  void run_plain() {
    const Frame& frame = *frame_at(worker_, kFrame0);
    const u32 position = frame.position();
    const u32 opcode = frame.word[0] & Header::kOpcodeMask;
    in_flight::note(worker_, position, opcode);
    u32* const running = &lease_.seats[me_].running_since;
    store<Order::relaxed, Scope::device>(running, kRuns);
    observe::call(lease_, worker_, opcode, kCountingThread);
    chain::Steps(worker_).call(callee_of(lease_, opcode), opcode, kFrame0);
    const Context& context = worker_->context;
    if ((static_cast<u32>(context.status) | context.scratch_used | context.spawned) != 0) {
      count_completed();
      run(lease_, worker_, kFrame0, true);
    } else {
      give_back(lease_, position, status::ok);
      ++completed_;
      if (!range::has_any(lease_, me_)) count_completed();
    }
    store<Order::relaxed, Scope::device>(running, 0U);
  }

  // Adds this worker's completed tasks to the shared count. May wait until the range is empty: drains compare the count only for positions
  // after the range.
  void count_completed() {
    // Release: the effects of these tasks. Pairs with the acquire in admission::drained.
    if (completed_ != 0) add<Order::release>(&lease_.control->completed.value, completed_);
    completed_ = 0;
  }

  // Declares the lease over when its time is up, and ends it after a long enough idle time.
  void tick() {
    const u32 now = now_ticks();
    if (ran_) worker_->quiet_since = now;
    ran_ = false;
    if (now - worker_->since > lease_.lease_ticks) {
      seat::call_over(lease_, lease_.number, false);
      return;
    }
    if (now - worker_->quiet_since <= lease_.idle_ticks) return;
    // Another worker changes the fetch position only under the lock; a stale value errs towards staying.
    const u32 fetched = load<Order::relaxed, Scope::device>(&lease_.control->fetch_position);
    if (load<Order::relaxed, Scope::device>(&lease_.control->completed.value) == fetched) seat::call_over(lease_, lease_.number, true);
  }

  const Lease& lease_;
  Worker* worker_;
  u32 me_;
  u32 drains_ = 0;
  u32 completed_ = 0;        // tasks not counted yet
  bool ran_ = false;         // a task ran since the last tick
  bool was_queued_ = false;  // the last task came from the ready queue
  bool steals_ = false;      // the last round found no task, or stole one
};

}  // namespace dwell::device
