// Which of the tasks in flight have begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/backend.hpp"
#include "device/arena.hpp"
#include "runtime/device/arena.hpp"
#include "runtime/device/reaper.hpp"
#include "runtime/device/ring_view.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {

// Reads out of the arena what the workers have left there. A task that waits for others, or in the ring, in the ready queue, or for its
// graph's exec, has not begun. One whose operator has been called and that is not complete is one of these:
//   the launch of a graph, which has its exec (GraphHead::pending, position)
//   a task that has made others, which has a record (Spawned)
//   a wide task, of which groups were drawn (Wide::next)
//   a gang that has yielded (GangState::resumed)
// Owns none of the parts, which outlive it.
class BegunTasks {
 public:
  struct Parts {
    backend::Backend& backend;
    const Arena& arena;
    RingView ring;
    const Graphs& graphs;
  };
  explicit BegunTasks(const Parts& parts) : parts_(parts) {}

  // Those that have begun and are not complete, with words that say how far they came. Called while no lease is on the device and nothing
  // is submitted. Throws errc::device_lost and std::bad_alloc.
  Reaper::Begun find() const;

 private:
  class Search;

  const Parts parts_;
};

}  // namespace dwell::runtime
