// Checks an image's resources against Options::limits.
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

// An operator that an image would add or replace: its name and its entry in the image.
struct Newcomer {
  std::string name;
  std::string symbol;
};

// A linked image that does not run yet.
struct Proposal {
  const jit::Image& image;
  std::span<const Newcomer> newcomers;         // none: the same operators, linked again
  std::uint32_t workers_before = 0;            // of the running image; 0: none
  std::optional<std::uint32_t> workers_after;  // that the device would hold; empty: unknown yet
  std::uint32_t scratch_bytes = 0;             // of Group::shared, a worker
};

// Computes the workers that the device can hold at once with the image, before loading it. Empty if only loading can tell.
std::optional<std::uint32_t> room_for(const jit::Image& image, const backend::DeviceInfo& device, std::uint32_t scratch_bytes);

// Returns errc::resource_limit if the image may not take over: with the limit, the figures of the image and of the newcomers, and what to
// change. Nothing if it may. A figure that the device does not have is 0 and exceeds nothing.
std::optional<Error> refusal(const Limits& limits, const Proposal& proposal);

}  // namespace dwell::runtime
