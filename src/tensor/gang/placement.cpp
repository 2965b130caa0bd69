#include "tensor/gang/placement.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/device/member.hpp"
#include "tensor/device/product.hpp"
#include "tensor/gang/local_memory.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;

// Returns whether members may own the result of a product.
bool may_be_owned(const Draft& draft, const Operation& operation) {
  if (!draft.keeps(operation) || operation.product.m != 1) return false;
  const View& to = operation.tensors[ProductWords::to];
  return draft.ranges.covers(to) && to.strides[2] == 1 && draft.ranges.of(to).is_divisible();
}

void choose_owners(Draft& draft) {
  draft.ownership = find_owners(draft.operations, draft.ranges,
                                {.members = draft.members, .most_bytes = kMostLocal, .repeats = draft.limits.is_repeated()},
                                [&](const Operation& operation) { return may_be_owned(draft, operation); });
}

// Returns whether a product reads it, again and again.
bool is_factor(const Draft& draft, const Range& range) {
  return std::ranges::any_of(draft.operations, [&](const Operation& operation) {
    return operation.kind == NotedOperation::Kind::product && (&draft.ranges.of(operation.tensors[ProductWords::a]) == &range ||
                                                               &draft.ranges.of(operation.tensors[ProductWords::b]) == &range);
  });
}

// Returns whether the member's memory is better for it. On a CPU that is memory as any other: it only has intermediate results, which
// share places there that stay in the caches.
bool is_worth_a_copy(const Draft& draft, const Range& range, std::uint64_t most_input) {
  if (range.input != nullptr || !range.outputs.empty()) return true;
  if (!draft.limits.on_cuda) return range.written() && !range.out;
  return range.written() || range.bytes() <= (is_factor(draft, range) ? most_input : std::min(most_input, kMostLocal));
}

std::uint64_t list_bytes(const Draft& draft) {
  std::uint64_t words = 16;
  for (const Operation& operation : draft.operations) words += 4 + 2 * operation.tensors.size();
  return (words + 4 * draft.ranges.size()) * sizeof(std::uint32_t);
}

// `most_input`: bytes of a tensor that is only read, and that each member has. Returns whether all fits into a member's memory. Lowers
// `least` to the bytes that it takes.
bool try_to_place(Draft& draft, std::uint64_t most_input, std::uint64_t* least) {
  const std::uint64_t most_factor = draft.limits.costs.most_factor_bytes;
  std::vector<Life> lives;
  const std::size_t last = draft.operations.size();
  draft.kept.clear();
  draft.kept_at.clear();
  for (Range& range : draft.ranges) range.used = false;
  for (const Operation& operation : draft.operations) {
    const bool kept = draft.keeps(operation);
    for (std::size_t i = 0; i < operation.tensors.size(); ++i)
      if (!kept || i != ProductWords::b) draft.ranges.of(operation.tensors[i]).used = true;
    if (kept) draft.keep(operation);
  }
  std::vector<Range*> local;
  for (Range& range : draft.ranges) {
    const std::uint64_t most = draft.members == 1 && !range.written() && range.input == nullptr ? most_factor : kMostLocal;
    range.local = range.used && !range.shared && range.bytes() <= most && is_worth_a_copy(draft, range, most_input);
    if (!range.local && (range.input != nullptr || !range.outputs.empty()))
      refuse("members share out the tensor of a slice, or it is larger than " + std::to_string(kMostLocal) + " bytes");
    if (!range.local) continue;
    local.push_back(&range);
    lives.push_back({.first = range.read_first ? 0 : range.first,
                     .last = range.out || (draft.limits.is_repeated() && range.read_first) ? last : range.last,
                     .bytes = range.bytes(),
                     // Slices lie anywhere.
                     .shift = range.input != nullptr ? 0 : range.extent.first % device::kMemberAlignment});
  }
  for (const Kept& weights : draft.kept) lives.push_back({.first = 0, .last = last, .bytes = weights.bytes});
  draft.tiles_at.clear();
  for (std::size_t step = 0; step < draft.operations.size(); ++step) {
    const std::optional<Tile> tile = draft.tile_for(draft.operations[step]);
    if (!tile) continue;
    draft.tiles_at.emplace(step, lives.size());
    lives.push_back({.first = step, .last = step, .bytes = tile->bytes()});
  }
  const std::uint64_t bytes = place(lives, device::kMemberAlignment);
  // The list takes some words a step.
  const std::uint64_t all = bytes + list_bytes(draft);
  *least = std::min(*least, all);
  if (all > draft.limits.local_bytes) return false;
  for (std::size_t i = 0; i < local.size(); ++i) local[i]->place = lives[i].place;
  for (std::size_t i = 0; i < draft.kept.size(); ++i) draft.kept[i].place = lives[local.size() + i].place;
  for (auto& [step, at] : draft.tiles_at) at = lives[at].place;
  draft.local_bytes = bytes;
  return true;
}

}  // namespace

void place_all(Draft& draft) {
  const CostModel& costs = draft.limits.costs;
  std::uint64_t least = ~std::uint64_t{0};
  for (const bool keeps : {true, false}) {
    draft.keeps_weights = keeps;
    choose_owners(draft);
    // Inputs of a program that repeats stay as long as it runs: the large ones rather lie where they are.
    for (std::uint64_t most_input = draft.members == 1 ? costs.most_factor_bytes : kMostLocal; most_input >= costs.least_far_bytes;
         most_input /= 2) {
      if (try_to_place(draft, most_input, &least)) return;
      if (!draft.limits.is_repeated() && !draft.limits.in_loop && most_input <= kMostLocal) break;
    }
  }
  if (draft.limits.in_loop)
    refuse("its tensors take " + std::to_string(least) + " bytes of a worker's memory; the option scratch_bytes gives it " +
           std::to_string(draft.limits.local_bytes));
  refuse("its tensors take more than a member's " + std::to_string(draft.limits.local_bytes) + " bytes");
}

}  // namespace dwell::tensor::gang
