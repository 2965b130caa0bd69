// Maps Parts to bits of DWELL_PARTS.
#pragma once

#include <array>
#include <cstdint>

#include <dwell/parts.hpp>

#include "device/part.hpp"

namespace dwell::runtime {

// A part, and the bits of DWELL_PARTS that it needs beside the base.
struct PartRow {
  Part part;
  std::uint32_t bits;
};
inline constexpr std::array<PartRow, kPartNames.size()> kParts = {{
    {Part::links, device::part::links},
    {Part::gates, device::part::gates},
    {Part::priorities, device::part::levels},
    {Part::gangs, device::part::gangs},
    {Part::graphs, device::part::graphs | device::part::host_nodes},  // the host may add a callback to any graph
    {Part::times, device::part::times},
    {Part::repeats, device::part::repeats},
}};

// Returns DWELL_PARTS for `parts`.
constexpr std::uint32_t loop_bits(Parts parts) {
  if (parts == Parts::all) return device::part::all;
  std::uint32_t bits = device::part::base;
  for (const PartRow& row : kParts)
    if (parts.has(row.part)) bits |= row.bits;
  return bits;
}

}  // namespace dwell::runtime
