// The critical path of a job: the tasks that determine its least duration.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "job.hpp"

namespace dwell::tool {

struct CriticalPath {
  std::vector<std::size_t> tasks;  // indices in the job, each ordered after the previous one
  std::chrono::nanoseconds time{0};
};

// Returns the chain of tasks, ordered by `after`, link, hard_link and drain, with the largest sum of `times`. `times` has one for each of
// job.tasks, with all its repetitions.
CriticalPath critical_path(const Job& job, const std::vector<std::chrono::nanoseconds>& times);

}  // namespace dwell::tool
