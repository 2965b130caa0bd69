// Which nodes of graphs have failed, in words.
#pragma once

#include "backend/backend.hpp"
#include "runtime/device/loop_memory.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {

// Returns how the queue words failures of launches, those inside of tasks too. The arguments outlive it.
SubmissionQueue::Launches failed_launches(backend::Backend& backend, const LoopMemory& memory, const Graphs& graphs);

}  // namespace dwell::runtime
