// The host's table of task sources, one row each. src/device/sources.hpp is the device's.
#pragma once

#include <array>
#include <cstdint>

#include <dwell/detail/task.hpp>

#include "device/header.hpp"
#include "device/part.hpp"

namespace dwell::runtime {

struct SourceRow {
  const char* name;        // of its tasks in messages: "a gang"
  std::uint32_t parts;     // parts of the loop that they need
  bool is_task = true;     // false: its places in the ring are only skipped
  bool launches = false;   // its first two words are the offset of an exec
  bool needs_all = false;  // its groups start only when each has a worker
};

// The rows, by number in device::source.
constexpr std::array<SourceRow, device::source::kCount> sources() {
  namespace source = device::source;
  namespace part = device::part;
  std::array<SourceRow, source::kCount> all{};
  all[source::ring] = {"a task", 0};
  all[source::launch] = {.name = "the launch of a graph", .parts = part::graphs | part::host_nodes, .launches = true};
  all[source::gang] = {.name = "a gang", .parts = part::gangs, .needs_all = true};
  all[source::member] = {"the share of a gang", part::gangs};
  all[source::gate] = {"a gate", part::gates};
  all[source::pass] = {.name = "an entry to pass over", .parts = 0, .is_task = false};
  all[source::repeated] = {"a repeated task", part::repeats};
  all[source::node] = {"a node", part::graphs};
  all[source::control] = {"a node without an operator", part::graphs};
  all[source::spawned] = {"a task that an operator has made", part::spawn};
  all[source::spawned_launch] = {"a launch that an operator has made", part::spawn | part::graphs};
  all[source::node_member] = {"the share of a gang that runs a node", part::gangs | part::graphs};
  all[source::token] = {"a token", part::levels};
  return all;
}
inline constexpr std::array<SourceRow, device::source::kCount> kSources = sources();

// Returns the source of a task with these flags (detail::Task::flags).
constexpr const SourceRow& source_of(std::uint32_t flags) { return kSources[(flags & detail::kSource) >> detail::kSourceAt]; }
constexpr const SourceRow& source_of(const device::Header& header) { return kSources[header.source]; }

}  // namespace dwell::runtime
