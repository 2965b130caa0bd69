#include "runtime/device/blame.hpp"

#include <algorithm>
#include <cstddef>

namespace dwell::runtime {

std::string blame(const std::vector<InFlightTasks::Holder>& holders, bool running, const std::string& kernels,
                  const std::function<std::string(std::uint32_t opcode)>& name_of,
                  const std::function<std::string(std::uint64_t position)>& title_of) {
  constexpr std::size_t kMost = 8;
  std::string beside = kernels.empty() ? "" : "; kernels were in flight beside the loop, which may be to blame: " + kernels;
  if (holders.empty()) return beside;
  std::string text = holders.size() == 1 && running ? "; it was running"
                     : running                      ? "; one of the tasks that were running is to blame:"
                               : "; no task was running, one that ended before is to blame, perhaps of these last ones:";
  for (std::size_t i = 0; i < std::min(holders.size(), kMost); ++i) {
    text += (i == 0 ? " " : ", ") + (holders[i].launch ? title_of(holders[i].position) : name_of(holders[i].opcode)) + ", ticket " +
            std::to_string(holders[i].position) + ", on worker " + std::to_string(holders[i].worker);
  }
  if (holders.size() > kMost && running) text += ", and " + std::to_string(holders.size() - kMost) + " more";
  return text + beside;
}

}  // namespace dwell::runtime
