// Graphs on the device: how a launch begins, how a node becomes ready, and how the launch ends.
//
// A worker that has run a node arrives at its successors. Those at which it is the last arrival are ready. It continues with one of them,
// without synchronisation, and adds the others to the ready queue. A CPU worker pushes them to its deque instead, from which idle workers
// steal. Within a chain (flag::node::chain) run_operator steps from node to node without a call here. Many successors are shared out: each
// worker that takes a share draws some, until none is left. Ready nodes that find no room in the ready queue go to a stack of the exec, its
// overflow. So no worker ever waits for another.
//
// End of a launch. GraphHead::pending counts sinks that have not ended, shares of spread successors, and workers that have put nodes on the
// overflow. Each worker counts its ended ones (GraphWork::ended), and subtracts them when it leaves the graph. The worker that brings
// `pending` to 0 completes the launch, and hands the exec to the next launch in line (launch_line.hpp).
//
// Access to the exec. After the end of a launch, its memory may be freed, or the next launch begin. So a worker touches the exec only while
// it holds the launch open: it has a node that has not arrived yet, or something that counts in `pending`. After the last arrival of its
// node it pops from the overflow only if it counts in `pending` for it. A worker that has pushed there does, and pops until none is left.
//
// Control nodes have no operator: they hold edges together. Workers take them like other nodes, but skip run_operator. A host node ends
// when the host has answered (host_nodes.hpp), and a node that a gang runs when all groups have ended (members.hpp). Until then it holds
// the launch open, but occupies no worker.
//
// Effects. A worker's fence releases a node's effects before the arrivals at its successors. The last arrival acquires them. The queue
// hands nodes over with an acquire, and chains stay on their worker.
#pragma once

#include "device/completion.hpp"
#include "device/gangs.hpp"
#include "device/graph_arrivals.hpp"
#include "device/host_nodes.hpp"
#include "device/in_flight.hpp"
#include "device/launch_line.hpp"
#include "device/observe.hpp"
#include "device/source.hpp"

namespace dwell::device {

namespace graph {

// Returns the address of the exec that the launch in `frame` names.
DWELL_DEVICE u64 exec_of(const Lease& lease, const Frame& frame) {
  return lease.arena + (static_cast<u64>(frame.arguments()[0]) | static_cast<u64>(frame.arguments()[1]) << 32U);
}

// Applies the changes of the launch in `frame` to the exec (graph_layout.hpp has their layout). Applied for a cancelled launch too: the
// host relies on it. Called by all lanes, after all earlier launches of the exec.
DWELL_DEVICE_COLD void change(const Lease& lease, const Frame& frame) {
  const u32* arguments = frame.arguments();
  const u64 base = exec_of(lease, frame);
  const u32 count = arguments[2];
  const u32* changes = arguments + 3;
  if (count > kMostChanges) changes = pointer_to_global<const u32>(static_cast<u64>(arguments[3]) | static_cast<u64>(arguments[4]) << 32U);
  for (u32 i = lane(); i < count; i += kLanes)
    store<Order::relaxed, Scope::device>(pointer_to_global<u32>(base) + changes[2 * i], changes[2 * i + 1]);
}

// Finds the task of the ring from which a launch by an operator, with this record, descends. Returns its position. Sets `own` if the launch
// descends from a launch of the exec at `base`, whose end it would wait for. Called by one thread, while the launch is not complete: until
// then its ancestors are open.
DWELL_DEVICE u32 find_ticket(const Lease& lease, u32 number, u64 base, bool* own) {
  for (;;) {
    for (u32 parent = number; parent != 0; parent = spawn::get(&spawn::at(lease, number)->parent)) number = parent;
    const u32* const root = spawn::at(lease, number)->words;
    const Header header = Header::from(spawn::get(root), spawn::get(root + 1));
    const u32 word2 = spawn::get(root + 2);
    if (!header.is_node()) return word2;
    const u64 at = address_of(lease, word2);
    const u64 above = at - static_cast<u64>(load<Order::relaxed, Scope::device>(&pointer_to_global<const Slot>(at)->quad[0].lap)) * kCell;
    *own = *own || above == base;
    const GraphHead* const of = head(above);
    if (!Header::from(0, of->word1).is_spawned()) return of->position;
    number = of->position;
  }
}
DWELL_DEVICE_COLD u32 ticket_of(const Lease& lease, u32 number, u64 base, bool* own) { return find_ticket(lease, number, base, own); }

// Begins the launch in `frame`, which has its exec. Returns the start record (GraphHead::start). Called by all lanes.
DWELL_DEVICE_COLD u32 begin(const Lease& lease, const Frame& frame, u32* states) {
  const Header header = frame.header();
  GraphHead* const of = head(exec_of(lease, frame));
  change(lease, frame);
  if (lane() == 0) {
    const bool spawned = header.is_spawned();
    of->position = frame.position();
    of->word0 = header.word0();
    // It completes as a task of the operator that has made it, with all children ended.
    const u32 word1 = frame.word[1] & ~((flag::launch::turn | (spawned ? flag::share : 0U)) << 4U);
    of->word1 = spawned ? with_source(word1, source::spawned) : word1;
    if (of->calls != 0) {
      bool own = false;
      of->ticket = spawned ? ticket_of(lease, frame.position(), 0, &own) : frame.position();
    }
    store<Order::relaxed, Scope::device>(&of->failure, static_cast<u64>(0));
    fetch_add<Order::relaxed>(&of->pending, static_cast<u64>(of->sinks) - 1);  // the one is the launch's since it has the exec
  }
  *states = of->states;
  const u32 start = of->start;
  fence<Scope::device>();
  sync_lanes();
  return start;
}

// Notes in the timeline that a launch by the host begins. Called by all lanes.
DWELL_DEVICE_COLD void note_begin(const Lease& lease, Worker* worker, const Frame& frame) {
  if (lane() == 0 && !frame.header().is_spawned())
    observe::note_instant(worker, Event::kBegin, frame.position(), head(exec_of(lease, frame))->number);
}

// Notes that a node has failed, if it is the launch's first. Called by one thread.
DWELL_DEVICE_COLD void note_failure(u64 base, u32 cell, i32 status) {
  const u64 failure = static_cast<u64>(cell) << 32U | static_cast<u32>(status);
  // The node has not arrived yet, so whoever ends the launch sees the mark, and reads the failure.
  if (compare_exchange<Order::relaxed>(&head(base)->failure, static_cast<u64>(0), failure) == 0)
    fetch_add<Order::relaxed>(&head(base)->pending, line::upper(line::kFailed));
}

// Notes for the host the failed node of a launch by an operator, once for each task of the ring. Called by one thread, which has ended the
// launch, before the next one has the exec. Calls nothing: the loop's stack is deepest here.
DWELL_DEVICE_COLD void note_inside(const Lease& lease, const GraphHead* of) {
  bool own = false;
  const u32 position = find_ticket(lease, of->position, 0, &own);
  const u32 index = index_of(position, lease.ring_shift);
  const u32 lap = lap_of(position, lease.ring_shift);
  if (exchange<Order::relaxed>(&lease.wide[index].failed_inside, lap) == lap) return;
  const u64 failure = load<Order::relaxed, Scope::device>(&of->failure);
  store_quad<Scope::system>(lease.failed_inside + index,
                            Quad{lap, {static_cast<u32>(failure), of->number, static_cast<u32>(failure >> 32U)}});
  // Before the completion entry, whose reader reads this note. The thread that completes the task has synchronised with this one, and
  // fences too (spawn::end, leave).
  fence<Scope::system>();
}

// Returns the links of the choice that the branch in `frame` takes. Called by all lanes, after the acquire of its predecessors' effects.
DWELL_DEVICE_COLD Links choose(u64 base, u32 cell, const Frame& frame) {
  const u32* const arguments = frame.arguments();
  u32 chosen = 0;
  if (lane() == 0) {
    // The host may have written it.
    const u32 value = load<Order::acquire, Scope::system>(
        pointer_to_global<const u32>(static_cast<u64>(arguments[0]) | static_cast<u64>(arguments[1] & 0xFFFFFU) << 32U));
    chosen = value < arguments[kBranchLast] ? value : arguments[kBranchLast];
  }
  chosen = broadcast(chosen);
  const u32* const edges = pointer_to_global<const u32>(base + static_cast<u64>(head(base)->edges) * kCell);
  const u32* const choice = edges + arguments[kBranchChoices] + chosen * kChoiceWords;
  return Links{cell, choice[0], choice[1], choice[2]};
}

// Reads the clock for the clock node in `frame`. Called by all lanes.
DWELL_DEVICE_COLD void read_clock(const Frame& frame) {
  const u32* const arguments = frame.arguments();
  NodeTime* const of = pointer_to_global<NodeTime>(static_cast<u64>(arguments[0]) | static_cast<u64>(arguments[1]) << 32U);
  if (lane() == 0) {
    const u64 now = now_ns();
    if (arguments[2] == 0) {
      store<Order::relaxed, Scope::device>(&of->begun, now);
    } else {
      // The runs of a node follow each other.
      const u64 took = now - load<Order::relaxed, Scope::device>(&of->begun);
      store<Order::relaxed, Scope::device>(&of->total, load<Order::relaxed, Scope::device>(&of->total) + took);
      store<Order::relaxed, Scope::device>(&of->runs, load<Order::relaxed, Scope::device>(&of->runs) + 1);
    }
  }
  sync_lanes();
}

// Calls the host for the host node in `frame`, or ends the node if the host has answered. Returns whether it has ended. Called by all
// lanes.
DWELL_DEVICE_COLD bool ends_host_node(const Lease& lease, u64 base, u32 cell, const Frame& frame) {
  const u32 flags = frame.header().flags;
  const bool failed = (flags & flag::cancelled) != 0;
  if ((flags & flag::control::answered) != 0) {
    if (failed && lane() == 0) note_failure(base, cell, status::threw);
    return true;
  }
  if (failed) return true;  // it is cancelled
  if (lane() == 0) host_nodes::call(lease, base, frame.arguments()[0]);
  sync_lanes();
  return false;
}

// Leaves the graph: subtracts GraphWork::ended from `pending`. The worker that brings it to 0 puts the launch's header into `frame`. Called
// by all lanes.
DWELL_DEVICE_COLD Follows leave(const Lease& lease, Worker* worker, Frame* frame) {
  GraphWork& work = worker->graph;
  GraphHead* const of = head(work.base);
  u32 follows = kNothing;
  constexpr u32 kInside = 2;
  u32 more = 0;  // 1: launches wait for the exec, or a failure is noted there; kInside: of a launch by an operator
  sync_lanes();
  if (lane() == 0) {
    const u32 ended = work.ended;
    work.ended = 0;
    worker->context.yield = 0;
    if (ended != 0) {
      // Before the launch ends: afterwards the exec may be another's.
      const u32 word0 = load<Order::relaxed, Scope::device>(&of->word0);
      const u32 word1 = load<Order::relaxed, Scope::device>(&of->word1);
      const u32 position = load<Order::relaxed, Scope::device>(&of->position);
      fence<Scope::device>();
      // acq_rel: the last one sees the effects of all nodes, and completes for all. Pairs with line::take too.
      const u64 left = fetch_add<Order::acq_rel>(&of->pending, 0 - static_cast<u64>(ended)) - ended;
      if (static_cast<u32>(left) == 0) {
        fence<Scope::device>();
        frame->word[0] = word0;
        frame->word[1] = word1;
        frame->word[2] = position;
        const u64 failure = (left & line::upper(line::kFailed)) != 0 ? load<Order::relaxed, Scope::device>(&of->failure) : 0;
        worker->context.status = static_cast<i32>(static_cast<u32>(failure));
        if (frame->header().is_spawned()) {
          // The note may name a node of an exec that is freed.
          in_flight::clear(worker);
        } else if (failure != 0) {
          // Before the completion entry, whose reader reads it.
          store<Order::relaxed, Scope::system>(lease.failed_nodes + index_of(position, lease.ring_shift), failure);
          fence<Scope::system>();
        }
        follows = kLaunch;
        more = left == 0 ? 0 : failure != 0 && frame->header().is_spawned() ? kInside : 1;
      }
    }
    // The launch continues without this worker: its time no longer counts for the launch.
    if (work.launched != 0 && follows == kNothing) in_flight::clear(worker);
    work.launched = 0;
    work.base = 0;
  }
  follows = broadcast(follows);
  more = broadcast(more);
  if (more == kInside && lane() == 0) note_inside(lease, of);
  if (more != 0) line::pass_on(lease, worker, of);
  sync_lanes();
  return static_cast<Follows>(follows);
}

// Hands the worker's remaining work on the graph back to the queue, with the overflow that it counts for. False if there is no room: then
// the worker continues. Called by all lanes.
DWELL_DEVICE_COLD bool hand_back(const Lease& lease, Worker* worker) {
  GraphWork& work = worker->graph;
  while (work.spread != 0) {
    u32 taken = 0;
    if (lane() == 0) taken = (work.spread_flags & kQueued) != 0 ? 1 : ready_queue::take_spare(lease, 1);
    if (broadcast(taken) == 0) return false;
    const u32 cell = work.spread;
    const u32 flags = flag::control::spread | ((work.spread_flags & kFailed) != 0 ? flag::cancelled : 0U);
    sync_lanes();
    if (lane() == 0) {
      close_draw(work);  // before others can end the share, and with it the launch
      fence<Scope::device>();
    }
    sync_lanes();
    add_shares(lease, work.base, cell, source::control, flags, 1);
    sync_lanes();
  }
  for (;;) {
    if (!has_room(lease)) return false;
    if (lane() == 0) {
      u32 kept = work.kept;
      while (kept < kNodesAtOnce) {
        u32 node = pop_deque(lease, worker);
        if (node == 0 && work.ended != 0) node = pop_overflow(work.base);
        if (node == 0) break;
        work.node[kept++] = node;
      }
      work.kept = kept;
      fence<Scope::device>();
    }
    sync_lanes();
    const u32 kept = work.kept;
    if (kept == 0) break;
    add_ready(lease, work, 0, kept);
    sync_lanes();
    if (lane() == 0) work.kept = 0;
    sync_lanes();
  }
  return true;
}

#if !DWELL_CONTROL_WARP
// Ticks for which a worker stays with a graph while other tasks wait.
inline constexpr u32 kTurn = 100;

// Returns whether there is work for a worker outside of graphs.
DWELL_DEVICE bool others_wait(const Lease& lease) {
  const CrewLine& crew = lease.control->crew;
  return ready_queue::has_unclaimed(lease) || ring_has_next(lease) || load<Order::relaxed, Scope::device>(&crew.callers) != 0 ||
         load<Order::relaxed, Scope::device>(&crew.gates) != 0;
}

// Asks the worker to leave its graph when the lease is over, or when other tasks wait at the end of its turn.
DWELL_DEVICE_COLD void look_at_turn(const Lease& lease, Worker* worker) {
  const u32 now = now_ticks();
  if (now - worker->context.started > lease.lease_ticks) seat::call_over(lease, lease.number, false);
  const bool over = seat::is_over(lease, load<Order::relaxed, Scope::device>(&lease.control->crew.over));
  const u32 since = load<Order::relaxed, Scope::device>(&lease.seats[worker->me].running_since);
  if (since != 0 && is_after(now, since + kTurn) && others_wait(lease)) worker->turn_over = 1;
  if (over || worker->turn_over != 0) worker->context.yield = 1;
}
// The same when more urgent tasks may wait. Those still in the ring count as such: they are not sorted yet.
DWELL_DEVICE_COLD void look_at_levels(const Lease& lease, Worker* worker) {
  if (ring_has_next(lease) || levels::has_from(lease, levels::priority_of(worker->level) + 1)) worker->context.yield = 1;
}
// Called after each node: no other thread checks while the worker is in the graph.
DWELL_DEVICE void look_at_clock(const Lease& lease, Worker* worker) {
  if (sorts(lease)) look_at_levels(lease, worker);
  if ((++worker->steps & 63U) == 0) look_at_turn(lease, worker);
}
#endif

// Takes the exec for a launch of the ring; false if the launch now waits in line. Called by all lanes.
DWELL_DEVICE bool takes(const Lease& lease, Worker* worker, const Frame& frame) {
  GraphHead* const of = head(exec_of(lease, frame));
  u32 taken = 0;
  if (lane() == 0) taken = line::take(of) ? 1 : 0;
  return broadcast(taken) != 0 || !line::stand_ring(lease, worker, of, frame);
}

// Continues the graph after the task in `from`, and puts the next task into `frame`, which is the same or another. `from` is a node that
// has ended (`completes`), a control node, a launch, or a node of which others still run groups. It touches nothing of the last kind: the
// launch may have ended with that node. Called by the lanes of warp 0, after a barrier of the group.
DWELL_DEVICE_COLD Follows proceed(const Lease& lease, Worker* worker, const Frame& from, Frame* frame, bool completes) {
  GraphWork& work = worker->graph;
  const Header header = from.header();
  const i32 status = worker->context.status;
  u32 states = 0;
  Links links{};
  bool ends = completes;  // a node has ended
  bool failed = false;
  sync_lanes();
  if (lane() == 0) reset(&worker->context);
  if (header.is_launch()) {
    const u64 base = exec_of(lease, from);
    if (lane() == 0 && !header.is_spawned()) in_flight::note_launch(worker, from.position());
    if ((header.flags & flag::launch::turn) == 0 && !takes(lease, worker, from)) return kNothing;
    if ((timed_by(lease) & timed::timeline) != 0) note_begin(lease, worker, from);
    const u32 start = begin(lease, from, &states);
    if (lane() == 0) {
      work.base = base;
      work.launched = 1;
    }
    links = links_of(record(base, start));
  } else if (completes) {
    const u64 at = address_of(lease, from.position());
    links = links_of(pointer_to_global<const Slot>(at));
    const u64 base = at - static_cast<u64>(links.cell) * kCell;
    if (lane() == 0) work.base = base;
    states = head(base)->states;
    failed = (header.flags & flag::cancelled) != 0;
    if (header.source == source::control) {
      if ((header.flags & flag::control::spread) != 0) {
        if (lane() == 0) {
          work.spread = links.cell;
          work.spread_flags = kQueued | (failed ? kFailed : 0U);
        }
        ends = false;
      } else if (has(part::gangs) && !failed && (header.flags & flag::control::gang) != 0) {
        gangs::stand_in_line(lease, from.position());
        ends = false;  // the launch is held open by the gang, and no longer by this worker
      } else if (!failed && header.groups != 0) {
        share_groups(lease, frame, base, links.cell);
        return kFrame;
      } else if (!failed && (header.flags & flag::control::clock) != 0) {
        read_clock(from);
      } else if ((header.flags & flag::control::host) != 0) {
        ends = ends_host_node(lease, base, links.cell, from);
      } else if (!failed && (header.flags & flag::control::branch) != 0) {
        links = choose(base, links.cell, from);
      }
    } else {
      failed = status != status::ok;
      if (failed && lane() == 0) note_failure(base, links.cell, status);
    }
  }
  sync_lanes();
  if (ends) {
    if (links.count > kFewSuccessors) {
      spread(lease, work, links, failed);
    } else if (links.count == 0) {
      if (lane() == 0) ++work.ended;
    } else {
      const u32* const edges = pointer_to_global<const u32>(work.base + static_cast<u64>(head(work.base)->edges) * kCell) + links.first;
      const u32 first = work.kept;
      expect_arrivals(work.base, states, links, edges);
      const bool crosses = links.count > 1 || (links.first & kOnly) == 0;
      if (crosses) fence<Scope::device>();
      // On CUDA one round: there are no more than lanes.
      for (u32 at = lane(); at - lane() < links.count; at += kLanes) {
        const bool mine = at < links.count;
        u32 edge = at == 0 ? links.first : links.second;
        if (mine && links.count > 2) edge = edges[at];
        arrive_all(work, states, mine, edge, failed);
      }
      // Others may want all but one.
      const u32 ready = work.kept - first;
      sync_lanes();
      if (ready > 1) {
        const u32 done = 1 + push_deque(lease, worker, first + 1, ready - 1);
        if (done != ready) {
          if (has_room(lease))
            add_ready(lease, work, first + done, ready - done);
          else
            add_overflow(work, first + done, ready - done);
        }
        if (lane() == 0) work.kept = first + 1;
      }
    }
    sync_lanes();
  }
#if !DWELL_CONTROL_WARP
  look_at_clock(lease, worker);
#endif
  // Not before some progress: else workers whose lease is over could hand one share to each other forever.
  bool lets_go = ends;
  for (;;) {
    if (lets_go && broadcast(*const_cast<const volatile u32*>(&worker->context.yield)) != 0 && hand_back(lease, worker))
      return leave(lease, worker, frame);
    u32 node = 0;
    bool popped = false;
    const u32 kept = work.kept;
    if (kept != 0) {
      node = work.node[kept - 1];
      sync_lanes();
      if (lane() == 0) work.kept = kept - 1;
    } else {
      node = pop_deque(lease, worker);
      popped = node != 0;
      if (!popped && work.spread != 0) {
        if (!draw(lease, work)) {
          sync_lanes();
          if (lane() == 0) end_draw(lease, work);
          lets_go = true;
        }
        sync_lanes();
        continue;
      }
      if (!popped) {
        if (lane() == 0 && work.ended != 0) node = pop_overflow(work.base);
        node = broadcast(node);
        if (node == 0) return leave(lease, worker, frame);
      }
    }
    load_frame(work.base, node, frame);
    if (popped) note_popped(worker, *frame);
    return kFrame;
  }
}

}  // namespace graph

// Nodes, and launches by the host. A control node has no operator, or only its successors are left to do.
struct GraphTasks : SourceVerbs {
  static constexpr u32 kSources = 1U << source::node | 1U << source::control | 1U << source::launch;
  static constexpr u32 kPart = part::graphs;

  static DWELL_DEVICE bool calls(const Header& header) { return header.source != source::control && !header.launches(); }
  static DWELL_DEVICE bool goes_on(const Header& header) { return header.source != source::launch || header.launches(); }
  static DWELL_DEVICE Follows proceed(const Behind& at) { return graph::proceed(at.lease, at.worker, *at.from, at.to, at.completes); }
  static DWELL_DEVICE Slot* record(const Lease& lease, const Header& header, u32 word2) {
    return header.source != source::launch ? pointer_to_global<Slot>(graph::address_of(lease, word2)) : nullptr;
  }
  // A launch that has its exec has begun.
  static DWELL_DEVICE bool may_cancel(const Header& header) {
    return header.source == source::launch && (header.flags & flag::launch::turn) == 0;
  }
  static DWELL_DEVICE void cancel(const Lease& lease, const Frame& frame) {
    if (frame.header().source == source::launch) graph::change(lease, frame);
  }
};

}  // namespace dwell::device
