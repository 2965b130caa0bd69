// Selects the process and the runtime of a command.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "live/client.hpp"

namespace dwell::tool {

struct LookOptions {
  pid_t pid = 0;              // 0: the only process of this user that runs dwell
  std::uint64_t runtime = 0;  // 0: the only one of the process
};

// Connects to the process. Throws Failure if there is no such process, or several and none is named.
live::Client open_process(const LookOptions& options);

// Returns the selected runtime. Throws Failure if the process has none of this number, or several and none is named.
std::uint64_t choose_runtime(const live::Client& client, const LookOptions& options);

}  // namespace dwell::tool
