// Describes failed nodes of graphs.
#pragma once

#include "backend/backend.hpp"
#include "runtime/device/loop_memory.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {

// Returns the functions by which the queue describes failures of launches, including launches by tasks. The arguments outlive it.
SubmissionQueue::Launches failed_launches(backend::Backend& backend, const LoopMemory& memory, const Graphs& graphs);

}  // namespace dwell::runtime
