// A graph as it lies in device memory: what the host writes once, and what its launches change.
//
// An exec is one piece of device memory in cells of 64 bytes: its head, records, states, edges. Cells are numbered from the exec's first
// one. A record is a task in slots as the ring has them; the words where a slot has its laps say what depends on it. A node is named by the
// cell of its record, everywhere.
//
//   record, quad i of the first slot: {link i, three payload words}
//     link 0   the node's own cell
//     link 1   number of successors
//     link 2   the first of at most two successors; of more, the place of the first in the edges
//     link 3   the second of two
//   payload as in ring.hpp, but the header's `drains` (upper bits) and word 2 hold the record's address divided by 64, and a control node,
//   which has no operator, has no groups
//   edge: cell of the successor (31 bits) | 1 << 31 if it waits for nothing else
//
// A branch (flag::control::branch) is a control node with several choices of successors. Its own links lead past all of them. Words of its
// arguments: 0 to 2 a span, of which the first u32 is the value; then kBranchLast and kBranchChoices. A choice is links 1 to 3, in three
// words. What a branch leads to may lead back to it.
//
// A host node (flag::control::host) is a control node too. Word 0 of its arguments is its number among the host nodes of the exec.
//
// A clock node (flag::control::clock) is a control node too, before or behind a node whose time is taken. Words of its arguments: 0 and 1
// the address of that node's NodeTime, 2 not 0 behind it.
//
// Invariants: a node is made ready by the last arrival at its state (arrivals reach 0) or by the only one. The last arriver arms the state
// for the next time. Nobody arrives for that before the node has ended: launches of an exec follow each other, and what leads back to a
// branch comes behind all that the branch has led to. So nothing of a node is in use when it runs again, but shares of its successors
// (flag::control::spread) may be: behind a branch no node has more than kFewSuccessors.
#pragma once

#include "device/arena.hpp"

namespace dwell::device {

inline constexpr u32 kCell = sizeof(Slot);
// The offset of a cell of the arena, in bytes from its start.
DWELL_HOST_DEVICE u64 offset_of(u32 cell) { return static_cast<u64>(cell) * kCell; }
inline constexpr u32 kOnly = 1U << 31U;  // of an edge: the successor waits for nothing else
inline constexpr u32 kMostCells = 1U << 30U;
inline constexpr u32 kChainSlots = 2;  // that the record of a node behind another one of its chain takes at most
inline constexpr u32 kPadding = 24;    // cells behind the last record that a worker may read ahead
// Successors that the completer of a node makes ready by itself; more are shared out among workers.
inline constexpr u32 kFewSuccessors = 32;

// A launch, in the ring or made by an operator (Group::launch). Words of its arguments: 0 and 1 the head's offset in the arena, 2 the
// number of changes to records before it begins; then the changes, each the place of a word in the exec, counted in words, and its value.
// More than kMostChanges lie in host memory, at the address in words 3 and 4. One that an operator has made has none.
inline constexpr u32 kMostChanges = (kMaxArgumentWords - 3) / 2;

// Of a branch, behind its value: the number of its last choice, which larger values take too, and the place of its choices in the edges.
inline constexpr u32 kBranchLast = 3;
inline constexpr u32 kBranchChoices = 4;
inline constexpr u32 kChoiceWords = 3;

// How far the predecessors of a node are.
struct alignas(16) NodeState {
  u64 arrivals;  // predecessors that have not ended (32) | those of them that failed or were cancelled (32)
  u32 in_degree;
  u32 next;  // while the node is in the exec's overflow: the one below, kPoisoned if this one is cancelled
};
static_assert(sizeof(NodeState) == 16);
inline constexpr u32 kPoisoned = 1U << 31U;

// What clock nodes note of a node.
struct NodeTime {
  u64 begun;  // when it began last, in nanoseconds
  u64 total;  // of all its runs
  u64 runs;
};

// Each node that fails or is cancelled counts as such where it arrives.
DWELL_HOST_DEVICE u64 arrivals(u32 left) { return static_cast<u64>(left) << 32U; }

// In the cell behind the slots of a record that has several groups, or more than kFewSuccessors successors: the counters of those who share
// it. The first is of its groups, the second of its successors (graph::drawn).
struct NodeShares {
  Wide groups;
  Wide successors;
};
static_assert(sizeof(NodeShares) <= kCell);

// The first cells of an exec.
struct alignas(128) GraphHead {
  // Written by the host.
  u32 states;  // cell of the first NodeState; that of the record in cell c is number c - kFirstRecord
  u32 edges;   // cell of the first edge
  u32 sinks;   // nodes without successors
  u32 start;   // cell of the record before all: its successors are the nodes that wait for nothing
  // Of an exec with host nodes (host_nodes.hpp).
  u64 calls;        // address of its rings in host memory
  u32 calls_shift;  // each has 1 << calls_shift quads
  // Of any exec: what the host knows it by, and no other of its runtime, whatever comes to lie here.
  u32 number;
  // Written by the worker that begins a launch.
  u32 position;  // its sink: the launch's position; of one that an operator has made, the number of its record
  u32 word0;     // and its header
  u32 word1;
  u32 ticket;  // of an exec with host nodes: position of the task of the ring from which the launch descends, or its own
  u32 reserved0[20];
  // Changed by all that work on a launch.
  // Who may use the exec (launch_line.hpp): kLineMore, kLineFailed and the launch that came last (32) | sinks that have not ended, shares
  // of spread successors, workers that answer for the overflow (32).
  u64 pending;
  u64 overflow;  // ready nodes for which the ready queue had no room: the topmost (32) | count of changes (32)
  u64 failure;   // node that failed first (32) | its status (32), or 0
  // Of an exec with host nodes.
  u32 next_caller;  // the exec behind it on the list of those that wait for answers, as CrewLine::callers names it
  u32 called;       // calls so far
  u32 answered;     // answers that were read
  u32 unanswered;   // calls whose answer was not read
  u32 first;        // with kLineMore: the launch in line that is next, which leads to others, or 0
  u32 reserved1[20];
};
static_assert(sizeof(GraphHead) == 256);
inline constexpr u32 kFirstRecord = sizeof(GraphHead) / kCell;

}  // namespace dwell::device
