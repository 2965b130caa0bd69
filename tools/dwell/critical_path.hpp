// Which tasks of a job decide how long it takes at least.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "job.hpp"

namespace dwell::tool {

struct CriticalPath {
  std::vector<std::size_t> tasks;  // of the job, each ordered behind the one before
  std::chrono::nanoseconds time{0};
};

// The chain of tasks, ordered by `after`, link, hard_link and drain, with the longest sum of `times`: one each of job.tasks, with all its
// repetitions.
CriticalPath critical_path(const Job& job, const std::vector<std::chrono::nanoseconds>& times);

}  // namespace dwell::tool
