// The control warp of a CUDA worker: takes tasks from the ring (a member of the fetch crew) or from the ready queue, and hands them to
// the executing warps of its block.
//
// Only the owner of the window at the frontier reads host memory while the ring is quiet, so an idle runtime has one warp reading one
// line; while it is busy each member reads the window it owns. The idle path is nothing but one load and one vote: everything else is
// looked at every kQuietRounds rounds (docs/adr/0001-one-ring.md has the measurements).
#pragma once

#include "device/books.hpp"
#include "device/worker.hpp"

namespace dwell::device {

// Barrier 1: the control warp arrives when a frame is ready, the executing warps wait there. Barrier 2 belongs to the group.
inline constexpr u32 kBlockThreads = kGroupThreads + kLanes;
inline constexpr u32 kQuit = ~0U;         // word 0 of the frame after which the executing warps leave
inline constexpr u32 kQuietRounds = 128;  // reads of host memory between looks at anything else, by whoever alone reads it
inline constexpr u32 kBriefRounds = 8;    // the same while others are busy
inline constexpr u32 kDepth = 4;          // warp-wide loads in flight while busy, eight slots each
inline constexpr u32 kBusyAt = 8;         // tasks in one read from which on a member counts as busy
inline constexpr u32 kGrace = 4;          // ticks a taken task waits for the executing warps before another worker gets it

// What the control warp needs to hand tasks over. A value, so that the cold functions below keep the loops' state in registers.
struct Hands {
  Worker* worker;
  u32 me;    // the worker's number
  u32 turn;  // frames handed over

  DWELL_DEVICE Frame* frame() const { return &worker->frame[turn & 1U]; }
  DWELL_DEVICE bool idle() const { return *const_cast<const volatile u32*>(&worker->idle) != 0; }

  // Lets the executing warps go on with the frame.
  DWELL_DEVICE void arrive() {
    sync_lanes();
    ++turn;
    asm volatile("barrier.arrive 1, 160;" ::: "memory");
  }

  // The acquire half, behind the loads that brought a task: what was written before it was submitted is seen by its own loads, whatever
  // this multiprocessor's L1 held.
  static DWELL_DEVICE void acquire(u32 flags) {
    if ((flags & flag::memory) == 0) return;
    if (lane() == 0) {
      if ((flags & flag::system) != 0)
        release_fence<Scope::system>();
      else
        release_fence<Scope::device>();
    }
    sync_lanes();
  }

  // Gives a task to the executing warps, which are idle. Lane l holds quad l; words and position are the same in all lanes. `Acquired`:
  // the quads were loaded so.
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
      record_in_flight(lease, me, position, word0 & 0xFFFFU);
    }
    arrive();
  }

  // The same for a task of one slot that was acquired, without a word between the lanes.
  DWELL_DEVICE void hand_lone(const Lease& lease, const Quad& quad, u32 position) {
    if (lane() < 4) {
      u32* const to = frame()->word + lane() * 3;
      to[0] = quad.word[0];
      to[1] = quad.word[1];
      to[2] = quad.word[2];
    }
    if (lane() == 0) {
      *const_cast<volatile u32*>(&worker->idle) = 0;
      record_in_flight(lease, me, position, quad.word[0] & 0xFFFFU);
    }
    arrive();
  }

  // Hands over a task taken from the ready queue: its first slot is in lanes 0 to 3. The caller has acquired.
  DWELL_DEVICE void hand_queued(const Lease& lease, TaskQuads* task) {
    const u32 word0 = broadcast(task->quad[0].word[0]);
    const u32 word1 = broadcast(task->quad[0].word[1]);
    const u32 position = broadcast(task->quad[0].word[2]);
    if ((word1 & 0xFU) > 1) load_held(lease, task, position, 1, word1 & 0xFU);
    hand<true>(lease, task->quad[0], word0, word1, position);
  }
};

namespace control {

// Leaves the lease if all workers do; false if the gate has opened again, or if this worker's operator has not returned.
// `claim` is a place of the ready queue with kClaimed, or 0; `window` is a crew member's own.
DWELL_DEVICE_COLD bool depart(const Lease& lease, Hands hands, u64 claim, OpenWindow window) {
  while (!hands.idle()) {
    if (!gate::closing(broadcast(load<Order::relaxed, Scope::device>(gate::word(lease))))) return false;
  }
  u32 passage = 0;
  if (lane() == 0) {
    store<Order::relaxed, Scope::device>(lease.claims + hands.me, claim);
    if (hands.me < lease.crew) lease.control->leaving[hands.me] = window;
    passage = static_cast<u32>(gate::pass(lease));
  }
  passage = broadcast(passage);
  sync_lanes();  // what lane 0 has acquired, all lanes have
  if (passage == static_cast<u32>(gate::Passage::leave_last)) books::close(lease);
  return passage != static_cast<u32>(gate::Passage::stay);
}

// Takes a task from the ready queue if there is one. The executing warps are idle. Returns the turn after it.
DWELL_DEVICE_COLD u32 help(const Lease& lease, Hands hands) {
  u32 place = 0;
  u32 claimed = 0;
  if (lane() == 0) claimed = ready_queue::try_claim(lease, &place) ? 1 : 0;
  if (broadcast(claimed) == 0) return hands.turn;
  place = broadcast(place);
  TaskQuads task;
  while (!ready_queue::poll(lease, place, &task)) {}
  Hands::acquire(broadcast(task.quad[0].word[1]) >> 4U);
  hands.hand_queued(lease, &task);
  return hands.turn;
}

// The `turn`-th window of this lease: one left over from the lease before, or a fresh one.
DWELL_DEVICE OpenWindow window_at(const Lease& lease, u32 turn) {
  // All that may be needed, in the latency of one load.
  const u32 open = lease.control->open_count;
  const u32 base = lease.control->window_base;
  const OpenWindow left = lease.control->open[turn % kMaxCrew];
  return turn < open ? left : OpenWindow{base + (turn - open), 0};
}

// What fetch_singly has done: slots passed, and the caller's state after it.
struct Singly {
  u32 passed;
  u32 turn;
  u32 drains;
};

// Fetches one after the other the tasks of `batch` (eight slots from `position` on, of which `left` belong to the window), whatever
// they ask for.
DWELL_DEVICE_COLD Singly fetch_singly(const Lease& lease, Hands hands, Quad batch, u32 position, u32 left, u32 drains) {
  const u32 votes = ballot(batch.lap == lap_of(position + lane() / 4, lease.ring_shift));
  u32 passed = 0;
  while (passed < 8 && passed < left) {
    TaskQuads task;
    const u32 from = (lane() + passed * 4) & 31U;
    task.quad[0].lap = broadcast(batch.lap, from);
    for (u32 i = 0; i < 3; ++i) task.quad[0].word[i] = broadcast(batch.word[i], from);
    const u32 word0 = broadcast(task.quad[0].word[0]);
    const u32 word1 = broadcast(task.quad[0].word[1]);
    const u32 here = votes >> (passed * 4);
    if ((here & 15U) != 15U) break;
    const Header header = Header::from(word0, word1);
    // A task that reaches beyond this batch is read again with itself in front.
    const u32 needed = header.slots >= 8 ? ~0U : (1U << (header.slots * 4)) - 1;
    if (header.slots > 8 - passed || (here & needed) != needed) break;
    const Admission admission = admission::admit(lease, task, header, position + passed, &drains);
    if (admission == Admission::not_yet) break;
    if (admission == Admission::run) {
      if (broadcast(hands.idle() ? 1 : 0) != 0)
        hands.hand(lease, task.quad[0], word0, word1, position + passed);
      else
        ready_queue::push(lease, task);
    }
    passed += header.slots;
  }
  return Singly{passed, hands.turn, drains};
}

}  // namespace control

class ControlWarp {
 public:
  DWELL_DEVICE ControlWarp(const Lease& lease, Worker* worker, u32 me) : lease_(lease), hands_{worker, me, 0} {}

  // Serves until all workers leave the lease.
  DWELL_DEVICE void serve() {
    if (hands_.me < lease_.crew)
      fetch();
    else
      consume();
    if (lane() == 0) hands_.frame()->word[0] = kQuit;
    hands_.arrive();
  }

 private:
  // A worker outside the crew: claims one place of the ready queue after the other and watches only that.
  DWELL_DEVICE void consume() {
    u32 place = 0;
    bool claimed = false;
    for (;;) {
      if (!claimed) {
        if (lane() == 0) place = ready_queue::claim(lease_);
        place = broadcast(place);
        claimed = true;
      }
      TaskQuads task{};
      const u32 lap = lap_of(place, lease_.queue_shift);
      const Quad* const mine = &ready_queue::slot(lease_, place)->quad[lane() & 3U];
      u32 gate_word = 0;
      bool here = false;
      for (u32 round = 0;; ++round) {
        // The gate is read beside the place, in the same latency, and rarely enough that all workers together do not crowd its line.
        if (lane() == 4 && (round & 1U) == 0) gate_word = load<Order::relaxed, Scope::device>(gate::word(lease_));
        if (lane() < 4) task.quad[0] = load_quad<Scope::device>(mine);
        here = __all_sync(~0U, lane() >= 4 || task.quad[0].lap == lap) != 0;
        if (here || gate::closing(broadcast(gate_word, 4))) break;
      }
      if (gate::closing(broadcast(gate_word, 4))) {
        // Also with a task in hand: to work off the whole queue would take longer than others wait at the gate.
        if (here) ready_queue::push(lease_, task);
        claimed = !here;
        if (control::depart(lease_, hands_, claimed ? kClaimed | place : 0, OpenWindow{})) return;
        continue;
      }
      // While the task before still runs.
      Hands::acquire(broadcast(task.quad[0].word[1]) >> 4U);
      if (!hands_.idle()) {
        const u32 taken = now_ticks();
        while (!hands_.idle() && now_ticks() - taken < kGrace) {}
      }
      if (broadcast(hands_.idle() ? 1 : 0) != 0) {
        // The next claim is under way while the task is handed over.
        if (lane() == 0) place = ready_queue::claim(lease_);
        hands_.hand_queued(lease_, &task);
        place = broadcast(place);
        continue;
      }
      // A long task runs here: another worker gets this one, and no place is claimed before the operator has returned.
      ready_queue::push(lease_, task);
      claimed = false;
      while (!hands_.idle()) {}
      sync_lanes();
    }
  }

  // A member of the fetch crew.
  DWELL_DEVICE void fetch() {
    gate::Timer timer = gate::Timer::start();
    OpenWindow window = control::window_at(lease_, hands_.me);
    drains_ = broadcast(load<Order::relaxed, Scope::device>(&lease_.control->crew.drains));
    bool quiet = false;  // the last read found nothing
    bool alone = false;  // no other member reads
    for (u32 round = 0;; ++round) {
      // A busy member looks up from its reads now and then only. It needs no leave for its next window: windows are given out in order,
      // one a member, so none lies further ahead than the crew is large.
      if (!busy_ || (round & 3U) == 0) {
        // Everything there is to know, in the latency of one load: the crew's line, and whether the ready queue has tasks.
        const Control* const all = lease_.control;
        const u32* from = reinterpret_cast<const u32*>(&all->crew) + (lane() & 7U);
        if (lane() == 8) from = &all->head.value;
        if (lane() == 9) from = &all->tail.value;
        if (lane() == 10) from = &all->completed.value;
        // The host's wish to end the lease usually comes through the ring; here it is found behind tasks that hold the ring up.
        const bool ask = quiet || (busy_ && (round & 15U) == 0);
        if (lane() == 11 && ask) from = &lease_.report->end;
        const u32 seen = load<Order::relaxed, Scope::system>(from);
        if (ask && broadcast(seen, 11) == lease_.number) {
          if (lane() == 0) gate::close(lease_, true);
          quiet = false;
          continue;
        }
        const u32 frontier = broadcast(seen, 0);
        drains_ = broadcast(seen, 2);  // never so old that it could be mistaken for one 4096 drains later
        const u32 gate_word = broadcast(seen, 4 + (lease_.number & 1U));
        if (gate::closing(gate_word)) {
          set_busy(false);
          if (control::depart(lease_, hands_, 0, window)) return;
          timer.quiet_since = now_ticks();
          continue;
        }
        alone = broadcast(seen, 1) == 0 && window.number == frontier;
        const bool mine = broadcast(seen, 1) != 0 || static_cast<i32>(window.number - frontier) <= 0;
        // Tasks in the queue that nobody has claimed: all workers outside the crew are occupied, or there are none.
        const bool backlog = static_cast<i32>(broadcast(seen, 9) - broadcast(seen, 8)) > 0;
        if (backlog && (!busy_ || lease_.workers == lease_.crew) && broadcast(hands_.idle() ? 1 : 0) != 0)
          hands_.turn = control::help(lease_, hands_);
        if (!mine) timer.quiet_since = now_ticks();
        // Only who may read closes the gate: while the ring is quiet the others follow at once, and nobody waits for the one that reads.
        if (mine && (quiet || (round & 15U) == 0)) {
          const bool done = window.number == frontier && broadcast(seen, 10) == window.number * kWindow + window.offset;
          timer = gate::tick(lease_, timer, gate_word, broadcast(seen, 3), done);
          if (timer.over != 0) continue;  // the others are on their way to the gate: a quiet read would keep them waiting
        }
        quiet = false;
        if (!mine) continue;
      }
      const u32 got = busy_ ? read_busy(&window) : read_quiet(&window, alone ? kQuietRounds : kBriefRounds);
      quiet = got == 0;
      if (!quiet) timer.quiet_since = now_ticks();
    }
  }

  DWELL_DEVICE const Quad* ring_quad(u32 position) const {
    return &lease_.ring[index_of(position + lane() / 4, lease_.ring_shift)].quad[lane() & 3U];
  }

  DWELL_DEVICE void set_busy(bool busy) {
    if (busy == busy_) return;
    if (lane() == 0) fetch_add<Order::relaxed>(&lease_.control->crew.busy, busy ? 1U : ~0U);
    busy_ = busy;
  }

  // Counts `got` slots of the window as fetched; at its end, takes the next. Part of this warp's latency overlaps what it does in between,
  // so the turn is drawn (draw) before and used after.
  DWELL_DEVICE u32 draw(const OpenWindow& window, u32 got) {
    u32 turn = 0;
    if (window.offset + got == kWindow && lane() == 0) {
      turn = lease_.crew + fetch_add<Order::relaxed>(&lease_.control->window_turns.value, 1U);
      add<Order::relaxed>(&lease_.control->crew.frontier, 1U);
    }
    return turn;
  }
  DWELL_DEVICE void advance(OpenWindow* window, u32 got, u32 turn) {
    window->offset += got;
    if (window->offset == kWindow) *window = control::window_at(lease_, broadcast(turn));
  }

  // Polls the first slots of a window. Returns the slots passed.
  DWELL_DEVICE u32 read_quiet(OpenWindow* window, u32 rounds) {
    u32 got = 0;
    for (u32 round = 0; round < rounds; ++round) {
      const u32 position = window->number * kWindow + window->offset;
      // An acquire spares the lone task the fence before it: 0.3 us of its 3.4. It empties the multiprocessor's L1 each time, which is
      // cheap here, where one warp polls, and too dear for read_busy.
      const bool idle = hands_.idle();  // in the shadow of the load; once true, it stays so until a task is handed over
      const Quad quad = acquire_quad(ring_quad(position));
      const u32 votes = ballot(quad.lap == lap_of(position + lane() / 4, lease_.ring_shift));
      if ((votes & 15U) != 15U) continue;
      // The lone task, which is what latency is about: nothing between the votes and the executing warps.
      const bool plain = ballot(Header::simple(quad.word[1], drains_) && idle) % 2 != 0;  // lane 0 has the header
      if ((votes >> 4U & 15U) == 15U || !plain) {
        const u32 passed = take<1>(&quad, window);
        if (passed >= kBusyAt) set_busy(true);
        return got + passed;
      }
      hands_.hand_lone(lease_, quad, position);
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

  // Takes the tasks at the window's offset out of `Depth` batches of eight slots (a single one was acquired): one for the own executing
  // warps if they are idle, the rest for the ready queue, with one atomic.
  template <u32 Depth>
  DWELL_DEVICE u32 take(const Quad* batch, OpenWindow* window) {
    const u32 position = window->number * kWindow + window->offset;
    const u32 left = kWindow - window->offset;
    u32 got = 0;
    bool stopped = false;
#pragma unroll
    for (u32 k = 0; k < Depth; ++k) {
      const u32 index = k * 8 + lane() / 4;
      bool ok = index < left && batch[k].lap == lap_of(position + index, lease_.ring_shift);
      if ((lane() & 3U) == 0) ok = ok && Header::simple(batch[k].word[1], drains_);
      const u32 votes = ballot(ok);
      // A nibble of four ones is a whole slot; count those before the first that is not.
      const u32 missing = ~(votes & (votes >> 1U) & (votes >> 2U) & (votes >> 3U)) & 0x11111111U;
      const u32 count = stopped ? 0 : missing == 0 ? 8 : (static_cast<u32>(__ffs(static_cast<int>(missing))) - 1) / 4;
      stopped = stopped || count < 8;
      got += count;
    }
    if (got == 0) {
      const control::Singly singly = control::fetch_singly(lease_, hands_, batch[0], position, left, drains_);
      hands_.turn = singly.turn;
      drains_ = singly.drains;
      advance(window, singly.passed, draw(*window, singly.passed));
      return singly.passed;
    }
    const u32 turn = draw(*window, got);
    const u32 own = broadcast(hands_.idle() ? 1 : 0);
    u32 place = 0;  // is on its way while the own task is handed over
    if (got > own && lane() == 0) place = fetch_add<Order::relaxed>(&lease_.control->tail.value, got - own);
    if (own != 0) hands_.hand<Depth == 1>(lease_, batch[0], broadcast(batch[0].word[0]), broadcast(batch[0].word[1]), position);
    if (got > own) {
      place = broadcast(place) - own;
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
  u32 drains_ = 0;  // drains completed, as last seen
  bool busy_ = false;
};

}  // namespace dwell::device
