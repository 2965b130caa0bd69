#include "runtime/complete/launch_gates.hpp"

#include <optional>

#include <dwell/error.hpp>

namespace dwell::runtime {

bool LaunchGates::are_needed(const detail::Waits& waits) {
  for (std::uint32_t i = 0; i < waits.count; ++i)
    if ((waits.position[i] & detail::kLaunch) != 0) return true;
  return false;
}

void LaunchGates::await(const detail::Waits& waits) const {
  if (!bursts_) return;
  for (std::uint32_t i = 0; i < waits.count; ++i)
    if ((waits.position[i] & detail::kLaunch) != 0) launches_.wait(waits.position[i] & detail::kPosition, std::nullopt);
}

bool LaunchGates::try_replace(detail::Waits& waits, const std::atomic<std::uint32_t>& alias) {
  detail::Waits left;
  left.shell = waits.shell;
  const auto add = [&](std::uint64_t position, std::uint32_t i) {
    left.any_result |= (waits.any_result >> i & 1U) << left.count;
    left.position[left.count++] = position;
  };
  for (std::uint32_t i = 0; i < waits.count; ++i) {
    if ((waits.position[i] & detail::kLaunch) == 0) {
      add(waits.position[i], i);
      continue;
    }
    const std::uint64_t launch = waits.position[i] & detail::kPosition;
    if (launches_.done(launch)) continue;
    if (bursts_) return false;
    const Lock lock(mutex_);
    auto at = gates_.find(launch);
    if (at == gates_.end()) {
      at = gates_.emplace(launch, kNotPlaced).first;
      bool asked = false;
      try {
        asked = notifier_.when([this, launch] { return launches_.done(launch); }, [this, launch] { open(launch); });
      } catch (...) {
        gates_.erase(at);
        throw;
      }
      if (!asked) {
        gates_.erase(at);
        throw Error(errc::closed, "the runtime is closed");
      }
    }
    if (at->second == kNotPlaced && !queue_.try_submit_gate(alias, &at->second)) return false;
    add(at->second, i);
  }
  waits = left;
  return true;
}

std::map<std::uint64_t, std::uint64_t> LaunchGates::closed() const {
  std::map<std::uint64_t, std::uint64_t> all;
  const Lock lock(mutex_);
  for (const auto& [launch, position] : gates_)
    if (position != kNotPlaced) all.emplace(position, launch);
  return all;
}

void LaunchGates::open(std::uint64_t launch) {
  const Lock lock(mutex_);
  const auto at = gates_.find(launch);
  if (at->second != kNotPlaced) queue_.open_gate(at->second);
  gates_.erase(at);
}

}  // namespace dwell::runtime
