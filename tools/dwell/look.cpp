#include "look.hpp"

#include <algorithm>
#include <string>

#include <dwell/error.hpp>

#include "failure.hpp"

namespace dwell::tool {

live::Client open_process(const LookOptions& options) {
  try {
    return options.pid == 0 ? live::Client::of_the_only_one() : live::Client::of(options.pid);
  } catch (const Error& error) {
    if (error.kind() != errc::invalid_argument) throw;
    throw Failure(Exit::mistake, "dwell: error: " + error.message());
  }
}

std::uint64_t choose_runtime(const live::Client& client, const LookOptions& options) {
  const live::RuntimeIds runtimes = client.runtimes();
  if (options.runtime == 0 && runtimes.size() == 1) return runtimes.front();
  if (std::ranges::count(runtimes, options.runtime) != 0) return options.runtime;
  std::string list;
  for (const std::uint64_t runtime : runtimes) list += (list.empty() ? "" : ", ") + std::to_string(runtime);
  throw Failure(Exit::mistake, "dwell: error: process " + std::to_string(client.process().pid) + " has the runtimes " + list +
                                   ": name one with --runtime");
}

}  // namespace dwell::tool
