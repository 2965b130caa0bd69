// The note in host memory of the task that a worker runs. The host blames it when the device is lost, and shows it for a stalled task. The
// flight recorder beside it keeps the last of these notes as a history.
#pragma once

#include "device/parts.hpp"
#include "device/worker_memory.hpp"

namespace dwell::device::in_flight {

// Stores a word to the in-flight record, and an entry to the flight recorder: its number plus 1, the word, the lease. Called by one thread,
// as those below are.
DWELL_DEVICE void put(Worker* worker, u64 word) {
  store<Order::relaxed, Scope::system>(&worker->in_flight->word, word);
  if (!has(part::flight) || worker->flight == nullptr) return;
  const u32 number = worker->flight_notes++;
  store_quad<Scope::system>(worker->flight + (number & ((1U << kFlightShift) - 1)),
                            Quad{number + 1, {static_cast<u32>(word), static_cast<u32>(word >> 32U), worker->context.lease}});
}

// Notes that the worker is about to run a task of the ring.
DWELL_DEVICE void note(Worker* worker, u32 position, u32 opcode) {
  put(worker, static_cast<u64>(position) | (static_cast<u64>(opcode) << 32U) | InFlight::kValid);
}

// Notes the next run of the noted repeated task, with `left` runs left, so an observer sees progress. The flight recorder has the task
// once.
DWELL_DEVICE void note_run(const Worker* worker, u32 position, u32 opcode, u32 left) {
  store<Order::relaxed, Scope::system>(&worker->in_flight->word, static_cast<u64>(position) | static_cast<u64>(opcode) << 32U |
                                                                     static_cast<u64>(left & 7U) << InFlight::kRunsAt | InFlight::kValid);
}

// Notes that the worker runs no task of the ring and no node.
DWELL_DEVICE void clear(const Worker* worker) { store<Order::relaxed, Scope::system>(&worker->in_flight->word, static_cast<u64>(0)); }

// Notes that the worker is about to run a task of any source, with these first words. Clears the note for a task that is neither in the
// ring nor in an exec.
DWELL_DEVICE void note(Worker* worker, u32 word0, u32 word1, u32 word2) {
  const Header header = Header::from(word0, word1);
  if (header.is_made() && !header.is_node()) {
    clear(worker);
    return;
  }
  const u64 node = header.is_node() ? InFlight::kNode : 0;
  put(worker, static_cast<u64>(word2) | static_cast<u64>(header.opcode) << 32U | node | InFlight::kValid);
}

// Notes that the last noted task of the ring is the launch of a graph, which now begins. Done here, so the hand-over of tasks need not
// check: until now the note had opcode 0.
DWELL_DEVICE void note_launch(Worker* worker, u32 position) {
  if (worker->flight != nullptr) --worker->flight_notes;
  put(worker, static_cast<u64>(position) | InFlight::kLaunch | InFlight::kValid);
}

}  // namespace dwell::device::in_flight
