#include "critical_path.hpp"

#include <algorithm>
#include <optional>

namespace dwell::tool {

CriticalPath critical_path(const Job& job, const std::vector<std::chrono::nanoseconds>& times) {
  struct Chain {
    std::chrono::nanoseconds time{0};
    std::optional<std::size_t> before;
  };
  std::vector<Chain> chains(job.tasks.size());  // the longest chain that ends with each task
  std::optional<std::size_t> drain;             // the last so far
  std::optional<std::size_t> longest;
  // A task is submitted after all that it waits for.
  for (std::size_t i = 0; i < job.tasks.size(); ++i) {
    const JobTask& task = job.tasks[i];
    Chain& chain = chains[i];
    const auto follow = [&](std::size_t before) {
      if (!chain.before || chains[before].time > chains[*chain.before].time) chain.before = before;
    };
    if (task.after) std::for_each(task.after->begin(), task.after->end(), follow);
    if (task.links_to_previous() && i > 0) follow(i - 1);
    if (drain) follow(*drain);
    if (task.drain) {
      if (longest) follow(*longest);
      drain = i;
    }
    chain.time = times[i] + (chain.before ? chains[*chain.before].time : std::chrono::nanoseconds(0));
    if (!longest || chain.time > chains[*longest].time) longest = i;
  }
  CriticalPath path;
  if (longest) path.time = chains[*longest].time;
  for (std::optional<std::size_t> at = longest; at; at = chains[*at].before) path.tasks.push_back(*at);
  std::reverse(path.tasks.begin(), path.tasks.end());
  return path;
}

}  // namespace dwell::tool
