// Finds the tasks in flight that have begun.
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

// Reads the workers' state from the arena. A task that waits for others, in the ring, in the ready queue, or for its graph's exec, has not
// begun. An incomplete task whose operator was called is one of these:
//   the launch of a graph, which has its exec (GraphHead::pending, position)
//   a task that has made others, which has a record (Spawned)
//   a wide task, of which groups were drawn (Wide::next)
//   a gang that has yielded (GangState::resumed)
// Does not own the parts, which outlive it.
class BegunTasks {
 public:
  struct Parts {
    backend::Backend& backend;
    const Arena& arena;
    RingView ring;
    const Graphs& graphs;
  };
  explicit BegunTasks(const Parts& parts) : parts_(parts) {}

  // Returns the begun, incomplete tasks, with a description of their progress. Called while no lease is on the device and nothing is
  // submitted. Throws errc::device_lost and std::bad_alloc.
  Reaper::Begun find() const;

 private:
  class Search;

  const Parts parts_;
};

}  // namespace dwell::runtime
