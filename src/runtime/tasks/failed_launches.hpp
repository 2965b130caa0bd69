// Which nodes of graphs have failed, in words.
#pragma once

#include "backend/backend.hpp"
#include "runtime/device/loop_memory.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {

// What the queue asks for when the launch of a graph, or of one inside of a task, has failed. The arguments outlive it.
SubmissionQueue::Launches failed_launches(backend::Backend& backend, const LoopMemory& memory, const Graphs& graphs);

}  // namespace dwell::runtime
