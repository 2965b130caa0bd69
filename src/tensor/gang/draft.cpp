#include "tensor/gang/draft.hpp"

#include <algorithm>
#include <cstddef>

#include <dwell/error.hpp>

#include "tensor/device/product.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;
using Extent = TensorView::Extent;

// Returns whether it is memory of the batch's own, which nobody else reads.
bool is_copy(const Noted& noted, const Extent& memory) {
  return std::ranges::any_of(noted.copies, [&](const Buffer<std::byte>& copy) {
    const auto first = reinterpret_cast<std::uint64_t>(copy.data());
    return first <= memory.first && memory.end <= first + copy.size();
  });
}

bool is_output(const Limits& limits, const Extent& memory) {
  return std::ranges::any_of(limits.slices, [&](const GangSlices& slices) { return slices.output && slices.memory.overlaps(memory); });
}

// Returns whether all runs read the same of it.
bool stays(const Range& range) { return !range.written() && range.input == nullptr; }

}  // namespace

void refuse(const std::string& why) { throw Error(errc::unsupported, "the program does not fit a gang: " + why); }

Draft::Draft(const Noted& noted, const std::function<bool(const Extent&)>& needed, const Limits& its_limits) : limits(its_limits) {
  for (const NotedOperation& operation : noted.operations) operations.push_back(operation_of(operation));
  if (operations.empty()) refuse("it has no operations");
  const auto is_needed = [&](const Extent& memory) { return is_output(limits, memory) || (!is_copy(noted, memory) && needed(memory)); };
  ranges = Ranges(operations, is_needed);
  if (drop_dead(operations, ranges)) ranges = Ranges(operations, is_needed);
  if (operations.empty()) refuse("nobody reads its results");
  for (const Operation& operation : operations)
    if (!operation.refusal.empty()) throw Error(errc::unsupported, "a program of the whole has no form for " + operation.refusal);
}

bool Draft::is_handed_on(const Operation& operation) const {
  return members > 1 && operation.kind == NotedOperation::Kind::product && operation.product.work() >= limits.costs.least_shared_work &&
         operation.product.outputs() >= static_cast<std::int64_t>(members) && operation.product.outputs() <= limits.costs.most_exchanged &&
         !ranges.shares(operation);
}

bool Draft::keeps(const Operation& operation) const {
  return keeps_weights && is_handed_on(operation) && operation.product.batch == 1 &&
         operation.product.n >= static_cast<std::int64_t>(members) && stays(ranges.of(operation.tensors[ProductWords::b]));
}

std::int64_t Draft::outputs_of_member(const Operation& operation) const { return (operation.product.outputs() + members - 1) / members; }

std::uint64_t Draft::kept_bytes_of(const Operation& operation) const {
  const std::int64_t columns = (operation.product.n + members - 1) / members;
  return static_cast<std::uint64_t>(columns * pitch_of(operation.product, threads, outputs_of_member(operation))) * sizeof(float);
}

std::optional<Tile> Draft::tile_for(const Operation& operation) const {
  if (operation.kind != NotedOperation::Kind::product || !ranges.shares(operation)) return {};
  return tile_of(operation.product, members);
}

Draft::WeightsKey Draft::key_of(const Operation& operation) const {
  const View& b = operation.tensors[ProductWords::b];
  const std::int64_t pitch = pitch_of(operation.product, threads, outputs_of_member(operation));
  return {b.address, b.sizes, b.strides, pitch, owned_by(operation).period};
}

void Draft::keep(const Operation& operation) {
  if (kept_at.emplace(key_of(operation), kept.size()).second)
    kept.push_back({.of = &operation, .outputs = outputs_of_member(operation), .bytes = kept_bytes_of(operation)});
}

const Kept& Draft::kept_for(const Operation& operation) const { return kept.at(kept_at.at(key_of(operation))); }

}  // namespace dwell::tensor::gang
