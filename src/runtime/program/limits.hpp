// Whether an image may take over: its resources against Options::limits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <dwell/error.hpp>
#include <dwell/options.hpp>

#include "backend/backend.hpp"
#include "jit/compiler.hpp"

namespace dwell::runtime {

// An operator that an image would add or replace, as its user names it and by its entry in the image.
struct Newcomer {
  std::string name;
  std::string symbol;
};

// An image that is linked and does not run yet.
struct Proposal {
  const jit::Image& image;
  std::span<const Newcomer> newcomers;         // none: the same operators, linked in another way
  std::uint32_t workers_before = 0;            // of the image that runs; 0: none does
  std::optional<std::uint32_t> workers_after;  // that the device would hold; empty: not known yet
  std::uint32_t scratch_bytes = 0;             // of Group::shared, a worker
};

// Workers that the device can hold at once with the image, computed before it is loaded. Empty where only loading tells.
std::optional<std::uint32_t> room_for(const jit::Image& image, const backend::DeviceInfo& device, std::uint32_t scratch_bytes);

// Why the image may not take over, as errc::resource_limit: the limit, the figures of the image and of the newcomers, and what to change.
// Nothing when it may. A figure that the device does not have is 0 and exceeds nothing.
std::optional<Error> refusal(const Limits& limits, const Proposal& proposal);

}  // namespace dwell::runtime
