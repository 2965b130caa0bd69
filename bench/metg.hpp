// The shortest tasks that a scheduler runs at half of the machine's speed: METG.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace dwell::bench {

// Returns METG(50 %) of Task Bench: the least time of a run x places / tasks, in nanoseconds, of which tasks take half. run(rounds) returns
// the nanoseconds of a run of `tasks` tasks, each busy for `rounds`, on `places` workers; a round takes `round`. Precise to 3 % or one
// round. Nothing if that needs a run with more than 0.2 s of work per worker.
template <class Run>
std::optional<double> find_metg(Run run, double round, std::size_t tasks, std::size_t places) {
  const auto time = [&](std::uint32_t rounds) { return run(rounds) * static_cast<double>(places) / static_cast<double>(tasks); };
  const auto is_efficient = [&](std::uint32_t rounds, double granularity) { return 2 * rounds * round >= granularity; };
  std::uint32_t low = 0;  // too short
  const double most = 0.2e9 * static_cast<double>(places) / static_cast<double>(tasks) / round;
  auto high = static_cast<std::uint32_t>(std::clamp(time(0) / round, 1.0, std::max(most / 2, 1.0)));
  double granularity = time(high);
  while (!is_efficient(high, granularity)) {
    if (2 * high > most) return std::nullopt;
    low = high;
    high *= 2;
    granularity = time(high);
  }
  while (high - low > std::max(1U, high / 32)) {
    const std::uint32_t middle = low + (high - low) / 2;
    const double between = time(middle);
    if (is_efficient(middle, between)) {
      high = middle;
      granularity = between;
    } else {
      low = middle;
    }
  }
  return granularity;
}

}  // namespace dwell::bench
