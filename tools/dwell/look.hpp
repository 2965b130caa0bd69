// Which process and which of its runtimes a command looks at.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "live/client.hpp"

namespace dwell::tool {

struct LookOptions {
  pid_t pid = 0;              // 0: the only process of this user that runs dwell
  std::uint64_t runtime = 0;  // 0: its only one
};

// Throws Failure when there is no such process, or several and none is named.
live::Client open_process(const LookOptions& options);

// The runtime to look at. Throws Failure when the process has none of that number, or several and none is named.
std::uint64_t choose_runtime(const live::Client& client, const LookOptions& options);

}  // namespace dwell::tool
