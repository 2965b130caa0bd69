// The control warp of a CUDA worker: takes tasks from the ring (a member of the fetch crew) or from the ready queue, and hands them over to
// the executing warps of its block.
//
// While the ring is quiet, only the owner of the window at the frontier reads host memory, so in an idle runtime one warp polls one line.
// While it is busy, each member reads its own window. The idle path is one load and one vote; all else is polled every kQuietRounds rounds
// (docs/adr/0001-one-ring.md has the measurements).
#pragma once

#include "device/reseat.hpp"
#include "device/worker.hpp"

namespace dwell::device {

inline constexpr u32 kBlockThreads = kGroupThreads + kLanes;
inline constexpr u32 kFrameBarrier = 1;  // the control warp arrives when a frame is ready, the executing warps wait; 2 is Group::sync's
inline constexpr u32 kQuit = ~0U;        // word 0 of the frame after which the executing warps leave
inline constexpr u32 kQuietRounds = 64;  // reads of host memory between polls of all else, by its only reader
inline constexpr u32 kBriefRounds = 8;   // the same while others are busy
inline constexpr u32 kDepth = 4;         // warp-wide loads in flight while busy, eight slots each
inline constexpr u32 kBusyAt = 8;        // tasks in one read from which on a member counts as busy
inline constexpr u32 kPatience = 4;      // polls of a place after which a waiting worker counts as idle
inline constexpr u32 kGrace = 4;         // ticks for which a taken task waits for the executing warps before another worker gets it

// The control warp's state for handing tasks over. Passed by value, so the cold functions below keep the loops' state in registers.
struct Hands {
  Worker* worker;
  u32 me;    // the worker's number
  u32 turn;  // frames handed over

  DWELL_DEVICE Frame* frame() const { return frame_at(worker, (turn & 1U) == 0 ? kFrame0 : kFrame1); }
  // The calling thread's view: other lanes may read another state a moment later.
  DWELL_DEVICE bool idle() const { return *const_cast<const volatile u32*>(&worker->idle) != 0; }
  // One view for all lanes, for a common decision. Called by all lanes.
  DWELL_DEVICE bool idle_to_all() const { return broadcast(idle() ? 1 : 0) != 0; }

  // Counts the worker as idle, or no longer (Control::idle). Called by one thread.
  DWELL_DEVICE void count_as_idle(const Lease& lease, u32 counted) {
    if (worker->counted == counted) return;
    worker->counted = counted;
    add<Order::relaxed>(&lease.control->idle.value, counted != 0 ? 1U : ~0U);
  }

  // Releases the frame to the executing warps.
  DWELL_DEVICE void arrive() {
    sync_lanes();
    ++turn;
    asm volatile("barrier.arrive %0, %1;" ::"n"(kFrameBarrier), "n"(kBlockThreads) : "memory");
  }

  // The acquire half, after the loads of a task: its own loads see what was written before its submission, whatever this multiprocessor's
  // L1 held.
  static DWELL_DEVICE void acquire(u32 flags) {
    if ((flags & flag::memory) == 0) return;
    if (lane() == 0) {
      if ((flags & flag::system) != 0)
        fence<Scope::system>();
      else
        fence<Scope::device>();
    }
    sync_lanes();
  }

  // Hands a task over to the idle executing warps. Lane l holds quad l; words and position are the same in all lanes. `Acquired`: the
  // caller has acquired.
  template <bool Acquired = false>
  DWELL_DEVICE void hand(const Lease& lease, const Quad& quad, u32 word0, u32 word1, u32 position) {
    const u32 flags = word1 >> 4U;
    if (!Acquired) acquire(flags);
    if (lane() < (word1 & 0xFU) * 4) {
      u32* const to = frame()->word + lane() * 3;
      to[0] = quad.word[0];
      to[1] = quad.word[1];
      to[2] = quad.word[2];
    }
    if (lane() == 0) {
      *const_cast<volatile u32*>(&worker->idle) = 0;
      set_level(lease, worker, word0);
      in_flight::note(worker, word0, word1, position);
    }
    arrive();
  }

  // Returns the frame address for this lane's words of a lone task. Computed while the load of the ring is pending.
  DWELL_DEVICE u32* words_of_lane() const { return frame()->word + (lane() & 3U) * 3; }

  // The same for an acquired task of one slot, stored to words_of_lane() without communication between lanes. A plain task is noted after
  // the hand-over, to save latency. The executing warps wait for that note if they do more than complete the task.
  DWELL_DEVICE void hand_lone(const Lease& lease, const Quad& quad, u32* to, u32 position) {
    if (lane() < 4) {
      to[0] = quad.word[0];
      to[1] = quad.word[1];
      to[2] = quad.word[2];
    }
    const u32 opcode = quad.word[0] & Header::kOpcodeMask;
    const bool first = !is_plain(quad.word[1]) || timed_by(lease) != 0;
    if (lane() == 0) {
      *const_cast<volatile u32*>(&worker->idle) = 0;
      set_level(lease, worker, 0);
      if (first)
        in_flight::note(worker, position, opcode);
      else
        *const_cast<volatile u32*>(&worker->noting) = 1;
    }
    arrive();
    if (lane() == 0 && !first) {
      in_flight::note(worker, position, opcode);
      *const_cast<volatile u32*>(&worker->noting) = 0;
    }
  }

  // Hands over a task from this place of the ready queue. Its first slot is in lanes 0 to 3. The caller has acquired.
  DWELL_DEVICE void hand_queued(const Lease& lease, TaskQuads* task, u32 place) {
    const u32 word0 = broadcast(task->quad[0].word[0]);
    const u32 word1 = broadcast(task->quad[0].word[1]);
    const u32 position = broadcast(task->quad[0].word[2]);
    const Header header = Header::from(word0, word1);
    if (header.slots > 1) sources::load_rest(lease, task, header, position);
    if (lane() == 0) {
      sources::take_up(lease, worker, header, position);
      count_as_idle(lease, 0);
    }
    hand<true>(lease, task->quad[0], word0, word1, position);
    if (lane() == 0) observe::queued(lease, worker, word0, word1, position, place);
  }
};

namespace control {

// Asks the running task to release the worker, since the lease is over. A graph complies after the running node, so only a long node delays
// the lease. A single operator does not. Called by one thread.
DWELL_DEVICE void keep_on(const Lease& lease, Hands hands) {
  volatile u32* const yield = &hands.worker->context.yield;
  const u32 now = now_ticks();
  if (*yield == 0) {
    *yield = 1;
    hands.worker->asked = now;
  }
  if (now - hands.worker->asked > seat::kLong) seat::note_overdue(lease, &hands.worker->way);
}

// Returns whether a worker may leave a lease that is over: its operator has returned, and seat::may_leave allows it. Called by all lanes.
DWELL_DEVICE_COLD bool may_leave(const Lease& lease, Hands hands) {
  u32 leaves = 0;
  if (lane() == 0) {
    if (hands.idle())
      leaves = seat::may_leave(lease, hands.me, &hands.worker->way) ? 1 : 0;
    else
      keep_on(lease, hands);
  }
  return broadcast(leaves) != 0;
}

// Counts a waiting worker as idle, if its executing warps are. Called by all lanes.
DWELL_DEVICE_COLD void note_wait(const Lease& lease, Hands hands) {
  if (lane() == 0 && hands.idle()) hands.count_as_idle(lease, 1);
}

// Gives up the seat of a worker outside the crew, if it may leave. False when the worker stays. Called by all lanes.
DWELL_DEVICE_COLD bool leave(const Lease& lease, Hands hands) {
  if (!may_leave(lease, hands)) return false;
  sync_lanes();
  u32 gone = 0;
  if (lane() == 0) {
    hands.count_as_idle(lease, 0);
    if (has(part::spawn)) spawn::give_up(lease, hands.worker);
    observe::leave_seat(lease, hands.worker);
    gone = seat::leave(lease, hands.me, hands.worker->way.may_free != 0) ? 1 : 0;
  }
  return broadcast(gone) != 0;
}

// Gives up the seat of a member of the fetch crew, and stores the state that goes with it. False when the worker stays. Called by all
// lanes.
DWELL_DEVICE_COLD bool leave_crew(const Lease& lease, Hands hands, OpenWindow window, bool reads) {
  sync_lanes();
  u32 gone = 0;
  if (lane() == 0) {
    Seat& seat = lease.seats[hands.me];
    seat.window = window;
    seat.quiet_since = hands.worker->quiet_since;
    seat.reads = reads ? 1 : 0;
    seat.drains = hands.worker->drains;
    if (has(part::spawn)) spawn::give_up(lease, hands.worker);
    observe::leave_seat(lease, hands.worker);
    gone = seat::leave(lease, hands.me, hands.worker->way.may_free != 0) ? 1 : 0;
  }
  return broadcast(gone) != 0;
}

// Asks a graph, or spawned tasks, to release the worker when more urgent tasks wait, as at the end of a lease. Called by all lanes.
DWELL_DEVICE_COLD void make_way(const Lease& lease, Hands hands) {
  const u32 level = broadcast(*const_cast<const volatile u32*>(&hands.worker->level));
  const bool urgent = levels::has_from(lease, levels::priority_of(level) + 1);
  if (urgent && lane() == 0) *const_cast<volatile u32*>(&hands.worker->context.yield) = 1;
}

// Waits for the end of a long task, on a worker without a claim. Called by all lanes.
DWELL_DEVICE_COLD void sit_out(const Lease& lease, Hands hands) {
  while (!hands.idle_to_all()) {
    if (lane() == 0 && seat::is_over(lease, seat::crew_word(&lease.control->crew.over))) keep_on(lease, hands);
    if (sorts(lease)) make_way(lease, hands);
    if (has(part::links)) linked::serve(lease, hands.worker);
    pause_briefly(0);
  }
  sync_lanes();
}

// Takes a task from the ready queue, if any, for the idle executing warps. Returns the turn after it.
DWELL_DEVICE_COLD u32 help(const Lease& lease, Hands hands) {
  u32 place = 0;
  u32 claimed = 0;
  if (lane() == 0) claimed = ready_queue::try_claim(lease, hands.me, &place) ? 1 : 0;
  if (broadcast(claimed) == 0) return hands.turn;
  place = broadcast(place);
  TaskQuads task;
  while (!ready_queue::poll(lease, place, &task)) {}
  if (lane() == 0) ready_queue::clear_claim(lease, hands.me);
  Hands::acquire(broadcast(task.quad[0].word[1]) >> 4U);
  hands.hand_queued(lease, &task, place);
  return hands.turn;
}

// Returns the `turn`-th window since the seats were laid out: one left over from before, or a fresh one.
DWELL_DEVICE OpenWindow window_at(const Lease& lease, u32 turn) {
  // All loads at once, in the latency of one.
  const u32 open = lease.control->open_count;
  const u32 base = lease.control->window_base;
  const OpenWindow left = lease.control->open[turn % kMaxCrew];
  return turn < open ? left : OpenWindow{base + (turn - open), 0};
}

// One poll by a member of the fetch crew: words of several lines, one a lane, in the latency of one load.
class CrewView {
 public:
  enum Word : u32 {
    frontier,
    busy,
    drains,
    over,
    end,
    low_water,
    head,
    tail,
    completed,
    waiter,
    gates,
    callers,
    overdue,
    cancels,
    host_over,
    host_end,
    host_cancels,
    kWords
  };

  // Called by all lanes of the worker `me`. `asks_host`: also loads the last three words, from host memory.
  static DWELL_DEVICE CrewView look(const Lease& lease, u32 me, bool asks_host) {
    const Control& all = *lease.control;
    const u32* from = &all.crew.frontier;
    if (lane() == busy) from = &all.crew.busy;
    if (lane() == drains) from = &all.crew.drains;
    if (lane() == over) from = &all.crew.over;
    if (lane() == end) from = &all.crew.end;
    if (lane() == waiter) from = seat::waiter_word(lease, me);
    if (lane() == low_water) from = &all.crew.low_water;
    if (lane() == gates) from = &all.crew.gates;
    if (lane() == callers) from = &all.crew.callers;
    if (lane() == overdue) from = &all.crew.overdue;
    if (lane() == head) from = &all.head.value;
    if (lane() == tail) from = &all.tail.value;
    if (lane() == completed) from = &all.completed.value;
    if (lane() == cancels) from = &all.crew.cancels;
    if (lane() == host_over && asks_host) from = &lease.report->over;
    if (lane() == host_end && asks_host) from = &lease.report->end;
    if (lane() == host_cancels && asks_host) from = &lease.report->cancels;
    return CrewView(load<Order::relaxed, Scope::system>(from));
  }
  DWELL_DEVICE u32 operator[](Word word) const { return broadcast(seen_, word); }

 private:
  explicit DWELL_DEVICE CrewView(u32 seen) : seen_(seen) {}
  u32 seen_;
};
static_assert(CrewView::kWords <= kLanes, "a lane a word");

// The result of fetch_singly: slots passed, and the caller's state after it.
struct Singly {
  u32 passed;
  u32 turn;
  u32 drains;
};

// Returns whether a task with this word 0 precedes all waiting tasks. Called by all lanes.
DWELL_DEVICE_COLD bool comes_first(const Lease& lease, u32 word0) { return !levels::has_from(lease, levels::priority_in(word0)); }

// Fetches the tasks of `batch` one by one, with any flags. `batch` has eight slots from `position` on, of which `left` belong to the
// window.
DWELL_DEVICE_COLD Singly fetch_singly(const Lease& lease, Hands hands, Quad batch, u32 position, u32 left, u32 drains) {
  const u32 votes = ballot(batch.lap == lap_of(position + lane() / 4, lease.ring_shift));
  u32 passed = 0;
  while (passed < 8 && passed < left) {
    TaskQuads task;
    const u32 from = (lane() + passed * 4) & 31U;
    task.quad[0].lap = broadcast(batch.lap, from);
    for (u32 i = 0; i < 3; ++i) task.quad[0].word[i] = broadcast(batch.word[i], from);
    const u32 word0 = broadcast(task.quad[0].word[0]);
    const u32 word1 = unranked(broadcast(task.quad[0].word[1]));
    if (lane() == 0) task.quad[0].word[1] = word1;
    const u32 here = votes >> (passed * 4);
    if ((here & 15U) != 15U) break;
    const Header header = Header::from(word0, word1);
    // A task that reaches beyond this batch is read again with itself in front.
    const u32 needed = header.slots >= 8 ? ~0U : (1U << (header.slots * 4)) - 1;
    if (header.slots > 8 - passed || (here & needed) != needed) break;
    const Admission admission = admission::admit(lease, &task, header, position + passed, &drains);
    if (admission == Admission::not_yet) break;
    if (admission == Admission::run) {
      if (hands.idle_to_all() && (!sorts(lease) || comes_first(lease, word0)))
        hands.hand(lease, task.quad[0], word0, word1, position + passed);
      else
        levels::push(lease, task);
    }
    passed += header.slots;
  }
  return Singly{passed, hands.turn, drains};
}

}  // namespace control

class ControlWarp {
 public:
  DWELL_DEVICE ControlWarp(const Lease& lease, Worker* worker, u32 me) : lease_(lease), hands_{worker, me, 0} {}

  // Serves until the worker leaves the lease.
  DWELL_DEVICE void serve() {
    if (reseat::is_for(lease_, hands_.me))
      reseat::lay_out(lease_);
    else if (lease_.lays_out != 0 && lane() == 0)
      reseat::await(lease_);
    sync_lanes();
    u32 seated = 0;
    if (lane() == 0) seated = seat::take(lease_, hands_.me) ? 1 : 0;
    if (broadcast(seated) != 0) {
      // By a worker outside the crew, if any, which delays no fetch.
      const bool fetches = hands_.me < lease_.crew;
      if (lane() == 0) observe::take_seat(lease_, hands_.worker);
      if (lane() == 0 && (!fetches || lease_.workers == lease_.crew)) seat::begin(lease_);
      if (fetches)
        fetch();
      else
        consume();
    }
    if (lane() == 0) {
      hands_.frame()->word[0] = kQuit;
      seat::count_out(lease_);
    }
    hands_.arrive();
  }

 private:
  // A worker outside the crew: claims places of the ready queue one by one, and polls only the claimed one.
  DWELL_DEVICE void consume() {
    const u64 left = load<Order::relaxed, Scope::device>(lease_.claims + hands_.me);
    u32 place = static_cast<u32>(left);
    bool claimed = (left & kClaimed) != 0;
    for (;;) {
      if (!claimed) {
        if (lane() == 0) place = ready_queue::claim_first(lease_, hands_.me);
        place = broadcast(place);
        claimed = true;
      }
      TaskQuads task{};
      const u32 lap = lap_of(place, lease_.queue_shift);
      const Quad* const mine = &ready_queue::slot(lease_, place)->quad[lane() & 3U];
      u32 over = lease_.number - 1;
      bool here = false;
      for (u32 round = 0;; ++round) {
        // Loaded with the place, in the same latency, and rarely enough to avoid contention on its line.
        if (lane() == 4 && (round & 1U) == 0) over = load<Order::relaxed, Scope::device>(&lease_.control->crew.over);
        if (lane() < 4) task.quad[0] = load_quad<Scope::device>(mine);
        const bool links = has(part::links) && linked::is_on(hands_.worker);  // in the shadow of the load
        here = __all_sync(~0U, lane() >= 4 || task.quad[0].lap == lap) != 0;
        if (here) break;
        if (has(part::links) && ballot(links) != 0) linked::serve(lease_, hands_.worker);
        if (round % kPatience == kPatience - 1) control::note_wait(lease_, hands_);
        if (!seat::is_over(lease_, broadcast(over, 4))) continue;
        if (control::leave(lease_, hands_)) return;  // the successor watches the place
      }
      // While the previous task still runs.
      Hands::acquire(broadcast(task.quad[0].word[1]) >> 4U);
      if (sorts(lease_) && !hands_.idle_to_all()) control::make_way(lease_, hands_);
      if (!hands_.idle()) {
        const u32 taken = now_ticks();
        while (!hands_.idle() && now_ticks() - taken < kGrace) {}
      }
      if (hands_.idle_to_all()) {
        // The place stays claimed, so no producer refills it: the successor reads it again.
        if (seat::is_over(lease_, broadcast(over, 4)) && control::leave(lease_, hands_)) return;
        // The next claim is under way while the task is handed over.
        const u32 here = place;
        if (lane() == 0) place = ready_queue::claim_next(lease_);
        hands_.hand_queued(lease_, &task, here);
        if (lane() == 0) ready_queue::set_claim(lease_, hands_.me, place);
        place = broadcast(place);
        continue;
      }
      // A long task runs here: requeue this one, and claim no place before the operator has returned.
      if (lane() == 0) ready_queue::clear_claim(lease_, hands_.me);
      levels::pass_on(lease_, task);
      claimed = false;
      control::sit_out(lease_, hands_);
    }
  }

  // A member of the fetch crew.
  DWELL_DEVICE void fetch() {
    using View = control::CrewView;
    // All loads before the first use, in one latency.
    OpenWindow window = seat()->window;
    const u32 quiet_since = seat()->quiet_since;
    const u32 former_drains = seat()->drains;
    bool alone = seat()->reads != 0;  // no other member reads
    hands_.worker->low_water = load<Order::relaxed, Scope::device>(&lease_.control->crew.low_water);
    hands_.worker->since = now_ticks();
    hands_.worker->quiet_since = lease_.wakes != 0 ? now_ticks() : quiet_since;
    drains() = former_drains;
    bool quiet = false;  // the last read found nothing
    bool calls = false;  // calls of the host are unanswered
    for (u32 round = alone ? 0 : 1;; ++round) {
      // A member whose predecessor was the only reader reads at once: the host may be waiting for a lone task. A busy member polls all else
      // only at times. It takes its next window without a check: windows are assigned in order, one a member, so none is further ahead than
      // the crew's size.
      if (round != 0 && (!busy_ || (round & 3U) == 0)) {
        // The host usually ends a lease through the ring. This poll finds the request when tasks block the ring.
        const bool asks = (quiet && (round & 1U) != 0) || (busy_ && (round & 15U) == 0);
        const View seen = View::look(lease_, hands_.me, asks);
        const u32 frontier = seen[View::frontier];
        drains() = seen[View::drains];  // never so old that it could be mistaken for one 4096 drains later
        hands_.worker->low_water = seen[View::low_water];
        over_ = seat::is_over(lease_, seen[View::over]);
        if (over_) {
          const bool ends = seat::is_over(lease_, seen[View::end]);
          // The usual way out, without further loads.
          bool leaves = (ends || seen[View::waiter] != 0) && broadcast(hands_.idle() && hands_.worker->way.overdue == 0 ? 1 : 0) != 0;
          if (leaves)
            hands_.worker->way.may_free = ends ? 1 : 0;
          else
            leaves = control::may_leave(lease_, hands_);
          if (leaves) {
            set_busy(false);
            if (control::leave_crew(lease_, hands_, window, alone)) return;
          }
          // Let running tasks finish; waiting ones stay.
          if (ends) {
            control::sit_out(lease_, hands_);
            continue;
          }
        } else if (now_ticks() - hands_.worker->since > lease_.lease_ticks) {
          if (lane() == 0) seat::call_over(lease_, lease_.number, false);
        }
        if (asks) {
          const u32 end = seen[View::host_end];
          const u32 over = seen[View::host_over];
          if (seat::is_over(lease_, end) && lane() == 0) seat::call_over(lease_, end, true);
          if (seat::is_over(lease_, over) && !over_ && lane() == 0) seat::call_over(lease_, over, false);
          if (has(part::cancels) && seen[View::host_cancels] != seen[View::cancels]) cancels::look(lease_);
        }
        if (has(part::links) && ballot(linked::is_on(hands_.worker)) != 0) linked::serve(lease_, hands_.worker);
        alone = seen[View::busy] == 0 && window.number == frontier;
        const bool mine = seen[View::busy] != 0 || !is_after(window.number, frontier);
        const bool looks = alone || (busy_ && (round & 63U) == 0);
        if (has(part::gates) && seen[View::gates] != 0 && looks) gates::look(lease_);
        calls = has(part::host_nodes) && seen[View::callers] != 0;
        if (calls && looks) host_nodes::look(lease_);
        // The queue has unclaimed tasks: all workers outside the crew are busy, or there are none.
        const bool backlog = is_after(seen[View::tail], seen[View::head]);
        if (sorts(lease_) && lane() == 0) hands_.worker->backlog = backlog ? 1 : 0;
        // The operator here may be the one to yield: of a gang, only the worker of its first group.
        if (sorts(lease_) && backlog && !hands_.idle_to_all()) control::make_way(lease_, hands_);
        // In a lease that is over, only while a long task keeps all workers in it: a gang may need this one too.
        if (backlog && (!over_ || seen[View::overdue] != 0) && (!busy_ || lease_.workers == lease_.crew) && hands_.idle_to_all())
          hands_.turn = control::help(lease_, hands_);
        if (!mine) {
          hands_.worker->quiet_since = now_ticks();
          quiet = false;
          continue;
        }
        if (quiet && window.number == frontier && seen[View::completed] == window.number * kWindow + window.offset &&
            now_ticks() - hands_.worker->quiet_since > lease_.idle_ticks && lane() == 0)
          seat::call_over(lease_, lease_.number, true);
      }
      const u32 got =
          busy_ ? read_busy(&window) : read_quiet(&window, alone && !over_ && !calls && round != 0 ? kQuietRounds : kBriefRounds);
      quiet = got == 0;
      if (!quiet) hands_.worker->quiet_since = now_ticks();
    }
  }

  DWELL_DEVICE Seat* seat() const { return lease_.seats + hands_.me; }

  DWELL_DEVICE const Quad* ring_quad(u32 position) const {
    return &lease_.ring[index_of(position + lane() / 4, lease_.ring_shift)].quad[lane() & 3U];
  }

  DWELL_DEVICE void set_busy(bool busy) {
    if (busy == busy_) return;
    if (lane() == 0) fetch_add<Order::relaxed>(&lease_.control->crew.busy, busy ? 1U : ~0U);
    busy_ = busy;
  }

  // Counts `got` slots of the window as fetched; at its end, takes the next window. In two halves, draw and advance, so the atomic's
  // latency overlaps the work in between.
  DWELL_DEVICE u32 draw(const OpenWindow& window, u32 got) {
    u32 turn = 0;
    if (window.offset + got == kWindow && lane() == 0) {
      turn = lease_.crew + fetch_add<Order::relaxed>(&lease_.control->window_turns.value, 1U);
      add<Order::relaxed>(&lease_.control->crew.frontier, 1U);
    }
    return turn;
  }
  DWELL_DEVICE void advance(OpenWindow* window, u32 got, u32 turn) {
    if (lane() == 0 && got != 0) observe::fetched(lease_, hands_.worker, window->number * kWindow + window->offset, got);
    window->offset += got;
    if (window->offset == kWindow) *window = control::window_at(lease_, broadcast(turn));
  }

  // Polls the first slots of a window. Returns the slots passed.
  DWELL_DEVICE u32 read_quiet(OpenWindow* window, u32 rounds) {
    u32 got = 0;
    const u32 known = drains();
    for (u32 round = 0; round < rounds; ++round) {
      const u32 position = window->number * kWindow + window->offset;
      // An acquire saves the lone task the fence before it: 0.3 us of its 3.4. It empties the multiprocessor's L1 each time, which is cheap
      // here, where one warp polls, and too expensive for read_busy.
      const bool idle = hands_.idle();  // in the shadow of the load; once true, it stays so until a task is handed over
      const bool links = has(part::links) && linked::is_on(hands_.worker);
      u32* const to = hands_.words_of_lane();
      Quad quad = acquire_quad(ring_quad(position));
      const u32 votes = ballot(quad.lap == lap_of(position + lane() / 4, lease_.ring_shift));
      if ((votes & 15U) != 15U) {
        if (ballot(links) != 0) break;  // to serve the run
        continue;
      }
      // The lone task, the latency-critical case: nothing between the votes and the executing warps.
      const bool plain = ballot(Header::simple(quad.word[1], known) && idle) % 2 != 0;  // lane 0 has the header
      if ((votes >> 4U & 15U) == 15U || !plain) {
        const u32 passed = take<1>(&quad, window);
        if (passed >= kBusyAt) set_busy(true);
        return got + passed;
      }
      hands_.hand_lone(lease_, quad, to, position);
      ++got;
      advance(window, 1, draw(*window, 1));
      if (window->offset == 0) return got;
    }
    return got;
  }

  // Reads up to kDepth * 8 slots at once. Returns the slots passed.
  DWELL_DEVICE u32 read_busy(OpenWindow* window) {
    const u32 position = window->number * kWindow + window->offset;
    Quad batch[kDepth];
#pragma unroll
    for (u32 k = 0; k < kDepth; ++k) batch[k] = load_quad<Scope::system>(ring_quad(position + k * 8));
    const u32 got = take<kDepth>(batch, window);
    set_busy(got >= kBusyAt);
    return got;
  }

  // Takes the tasks at the window's offset from `Depth` batches of eight slots (a single one was acquired). Hands one over to the own
  // executing warps, if idle, and adds the rest to the ready queue with one atomic.
  template <u32 Depth>
  DWELL_DEVICE u32 take(Quad* batch, OpenWindow* window) {
    const u32 position = window->number * kWindow + window->offset;
    const u32 left = kWindow - window->offset;
    u32 got = 0;
    bool stopped = false;
#pragma unroll
    for (u32 k = 0; k < Depth; ++k) {
      const u32 index = k * 8 + lane() / 4;
      bool ok = index < left && batch[k].lap == lap_of(position + index, lease_.ring_shift);
      if ((lane() & 3U) == 0) ok = ok && Header::simple(batch[k].word[1], drains());
      const u32 votes = ballot(ok);
      // A nibble of four ones is a whole slot; count those before the first that is not.
      const u32 missing = ~(votes & (votes >> 1U) & (votes >> 2U) & (votes >> 3U)) & 0x11111111U;
      const u32 count = stopped ? 0 : missing == 0 ? 8 : (static_cast<u32>(__ffs(static_cast<int>(missing))) - 1) / 4;
      stopped = stopped || count < 8;
      got += count;
    }
    if (got == 0) {
      const control::Singly singly = control::fetch_singly(lease_, hands_, batch[0], position, left, drains());
      hands_.turn = singly.turn;
      drains() = singly.drains;
      advance(window, singly.passed, draw(*window, singly.passed));
      return singly.passed;
    }
    const u32 turn = draw(*window, got);
    // A member that is about to leave runs no task itself.
    const u32 own = broadcast(hands_.idle() && !over_ && hands_.worker->backlog == 0 ? 1 : 0);
    u32 place = 0;  // pending while the own task is handed over
    if (got > own && !sorts(lease_) && lane() == 0) place = fetch_add<Order::relaxed>(&lease_.control->tail.value, got - own);
    if (own != 0) hands_.hand<Depth == 1>(lease_, batch[0], broadcast(batch[0].word[0]), broadcast(batch[0].word[1]), position);
    if (got > own && sorts(lease_)) {
      levels::push_ring(lease_, position + own, got - own);
    } else if (got > own) {
      place = broadcast(place) - own;
      if (!ready_queue::has_room(lease_, place + got, hands_.worker->low_water)) {
        ready_queue::wait_for_room(lease_, place + got);
        // Read again rather than kept across the call, where each quad would cost every operator registers. The slots are still in use.
#pragma unroll
        for (u32 k = 0; k < Depth; ++k) batch[k] = load_quad<Scope::system>(ring_quad(position + k * 8));
      }
#pragma unroll
      for (u32 k = 0; k < Depth; ++k) {
        const u32 index = k * 8 + lane() / 4;
        if (index >= own && index < got) ready_queue::put_quad(lease_, place + index, lane() & 3U, batch[k]);
      }
    }
    advance(window, got, turn);
    return got;
  }

  const Lease& lease_;
  Hands hands_;
  // Drains completed, as last seen.
  DWELL_DEVICE u32& drains() { return hands_.worker->drains; }

  bool busy_ = false;
  bool over_ = false;
};

}  // namespace dwell::device
