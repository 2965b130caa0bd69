// Layout of a graph in device memory: what the host writes once, and what launches change.
//
// An exec is one piece of device memory in cells of 64 bytes: its head, records, states, edges. Cells are numbered from the exec's first
// one. A record is a task in ring slots, with links to its successors in place of the laps. A node is named by the cell of its record.
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
// words. Its successors may lead back to the branch.
//
// A node that a gang runs (flag::control::gang) is a control node with groups. Its workers take it as shares (source::node_member).
//
// A host node (flag::control::host) is a control node too. Word 0 of its arguments is its number among the host nodes of the exec.
//
// A clock node (flag::control::clock) is a control node before or after a node that is timed. Words of its arguments: 0 and 1 the address
// of that node's NodeTime; 2 is not 0 after the node.
//
// Invariants: the last arrival at a node's state (arrivals reach 0), or the only one, makes the node ready. The last arriver rearms the
// state for the next run. No arrival for that run precedes the end of the node: launches of an exec follow each other, and a path back to a
// branch starts after all that the branch has started. So a node that runs again has nothing in use, except shares of its successors
// (flag::control::spread). Hence nodes behind a branch have at most kFewSuccessors.
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
// Most successors that the completer of a node makes ready alone. More are shared out among workers.
inline constexpr u32 kFewSuccessors = 32;

// A launch, in the ring or made by an operator (Group::launch). Words of its arguments: 0 and 1 the head's offset in the arena, 2 the
// number of changes to records before it begins; then the changes, each the place of a word in the exec, counted in words, and its value.
// More than kMostChanges lie in host memory, at the address in words 3 and 4. One that an operator has made has none.
inline constexpr u32 kMostChanges = (kMaxArgumentWords - 3) / 2;

// Of a branch, behind its value: the number of its last choice, which larger values take too, and the place of its choices in the edges.
inline constexpr u32 kBranchLast = 3;
inline constexpr u32 kBranchChoices = 4;
inline constexpr u32 kChoiceWords = 3;

// Arrivals of a node's predecessors.
struct alignas(16) NodeState {
  u64 arrivals;  // predecessors that have not ended (32) | those of them that failed or were cancelled (32)
  u32 in_degree;
  u32 next;  // while the node is in the exec's overflow: the one below, kPoisoned if this one is cancelled
};
static_assert(sizeof(NodeState) == 16);
inline constexpr u32 kPoisoned = 1U << 31U;

// Times of a node, written by clock nodes.
struct NodeTime {
  u64 begun;  // when it began last, in nanoseconds
  u64 total;  // of all its runs
  u64 runs;
};

// The initial `arrivals` of `left` predecessors. A failed or cancelled one also adds to the lower half.
DWELL_HOST_DEVICE u64 arrivals(u32 left) { return static_cast<u64>(left) << 32U; }

// The counters of a shared record, in the cell behind its slots: for several groups, and for more than kFewSuccessors successors
// (graph::drawn).
struct NodeShares {
  Wide groups;
  Wide successors;
};
static_assert(sizeof(NodeShares) <= kCell);

// What a gang that runs a node has, in the two cells behind the slots.
struct alignas(kCell) NodeGang {
  alignas(kCell) NodeShares shares;
  alignas(kCell) GangState state;
};
static_assert(sizeof(NodeGang) == 2 * kCell);

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
  // Of any exec: its number for the host, never reused in a runtime, even if another exec is placed here.
  u32 number;
  // Written by the worker that begins a launch.
  u32 position;  // its sink: the launch's position; of one that an operator has made, the number of its record
  u32 word0;     // and its header
  u32 word1;
  u32 ticket;  // of an exec with host nodes: position of the task of the ring from which the launch descends, or its own
  u32 reserved0[20];
  // Changed by all workers of a launch.
  // Access to the exec (launch_line.hpp): line::kMore, line::kFailed and the newest launch in line (32) | sinks that have not ended, shares
  // of spread successors, workers that answer for the overflow (32).
  u64 pending;
  u64 overflow;  // ready nodes for which the ready queue had no room: the topmost (32) | count of changes (32)
  u64 failure;   // first failed node (32) | its status (32), or 0
  // Of an exec with host nodes.
  u32 next_caller;  // the exec behind it on the list of those that wait for answers, as CrewLine::callers names it
  u32 called;       // calls so far
  u32 answered;     // answers that were read
  u32 unanswered;   // calls whose answer was not read
  u32 first;        // with line::kMore: the next launch in line, which leads to the others, or 0
  u32 reserved1[20];
};
static_assert(sizeof(GraphHead) == 256);
inline constexpr u32 kFirstRecord = sizeof(GraphHead) / kCell;

}  // namespace dwell::device
