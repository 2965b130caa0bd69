// Answers requests.
#pragma once

#include <string_view>

#include "live/channel.hpp"
#include "live/sources.hpp"

namespace dwell::live {

// Sends the answer to `request`, or an error. Holds a use of the source meanwhile. Throws errc::io_failed when the channel fails.
//   runtimes
//   metrics RUNTIME
//   diagnosis RUNTIME
//   trace RUNTIME SECONDS perfetto|chrome    traces that long, and sends the trace as it grows
//   logs RUNTIME AFTER MOST
//   inspect RUNTIME NAME                     the name goes to the end of the line
void answer(std::string_view request, Sources& sources, Channel& channel);

}  // namespace dwell::live
