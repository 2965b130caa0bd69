#include "tensor/gang/slices.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include <dwell/error.hpp>

namespace dwell::tensor::gang {

namespace {

using Extent = TensorView::Extent;

[[noreturn]] void refuse_slices(const std::string& why) { throw Error(errc::invalid_argument, "slices of a program: " + why); }

// All memory of the slices.
Extent all_of(const GangSlices& slices, const Limits& limits) {
  const std::int64_t last = slices.stride * (static_cast<std::int64_t>(limits.repeats) - 1);
  const std::uint64_t least = slices.first + static_cast<std::uint64_t>(std::min<std::int64_t>(last, 0));
  const std::uint64_t most = slices.first + static_cast<std::uint64_t>(std::max<std::int64_t>(last, 0));
  return {least, most + slices.memory.end - slices.memory.first};
}

void check(const GangSlices& slices, const Draft& draft) {
  const std::uint64_t bytes = slices.memory.end - slices.memory.first;
  if (draft.limits.on_call) {
    if ((slices.memory.first | bytes) % 4 != 0) refuse_slices("addresses and sizes are multiples of 4 bytes");
    for (const GangSlices& other : draft.limits.slices)
      if (&other != &slices && slices.output == other.output && slices.memory.overlaps(other.memory))
        refuse_slices(slices.output ? "two outputs overlap" : "two inputs overlap");
    return;
  }
  if ((slices.memory.first | slices.first | static_cast<std::uint64_t>(slices.stride) | bytes) % 4 != 0)
    refuse_slices("addresses, sizes and strides are multiples of 4 bytes");
  if (bytes > kMostLocal) refuse_slices("of " + std::to_string(bytes) + " bytes, " + std::to_string(kMostLocal) + " at most");
  const Extent all = all_of(slices, draft.limits);
  if (std::ranges::any_of(draft.ranges, [&](const Range& range) { return range.extent.overlaps(all); }))
    refuse_slices("the operations name memory of the whole tensor, not only of the slice");
  for (const GangSlices& other : draft.limits.slices)
    if (&other != &slices && (slices.output || other.output) && all.overlaps(all_of(other, draft.limits)))
      refuse_slices("an output's tensor is that of another input or output");
}

}  // namespace

void find_slices(Draft& draft) {
  for (const GangSlices& slices : draft.limits.slices) {
    check(slices, draft);
    bool found = false;
    for (Range& range : draft.ranges) {
      if (!range.extent.overlaps(slices.memory)) continue;
      const Extent& outer = slices.output ? range.extent : slices.memory;
      const Extent& inner = slices.output ? slices.memory : range.extent;
      if (range.input != nullptr && !slices.output) refuse_slices("memory has slices of two tensors");
      if (inner.first < outer.first || inner.end > outer.end) refuse_slices("the operations name memory around the slice");
      if (slices.output)
        range.outputs.push_back(&slices);
      else
        range.input = &slices;
      found = true;
    }
    if (slices.output && !found) refuse_slices("no operation writes the output's memory");
  }
}

}  // namespace dwell::tensor::gang
