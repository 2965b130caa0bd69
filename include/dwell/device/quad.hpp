// Sixteen bytes that are loaded and stored as one.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// Four words that are loaded and stored as one. The first is the lap, by which a reader validates the quad.
struct alignas(16) Quad {
  u32 lap;
  u32 word[3];
};
static_assert(sizeof(Quad) == 16, "a quad is loaded and stored as one 16-byte access");

}  // namespace device
}  // namespace dwell
