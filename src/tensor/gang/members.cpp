#include "tensor/gang/members.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <tuple>

#include "tensor/device/product.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;

constexpr std::int64_t kOutputsOfMember = 8;  // elements of a product's result
constexpr std::uint32_t kUsualMembers = 32;
constexpr std::int64_t kElementsOfMember = 2048;  // of a step that members share out
constexpr std::int64_t kWorkOfMember = std::int64_t{1} << 15U;
constexpr std::uint32_t kThreadsOfMember = 256;
constexpr std::int64_t kWorkOfThread = 64;
// On call, a single member does so many multiplications in the time that several take to hand on a call and an exchange.
constexpr std::int64_t kMostWorkAlone = std::int64_t{1} << 15U;

std::uint64_t kept_bytes(const Draft& draft) {
  std::set<std::tuple<std::uint64_t, std::int64_t, std::int64_t>> known;
  std::uint64_t bytes = 0;
  for (const Operation& operation : draft.operations)
    if (draft.keeps(operation) &&
        known.emplace(operation.tensors[ProductWords::b].address, operation.product.n, operation.product.k).second)
      bytes += draft.kept_bytes_of(operation);
  return bytes;
}

}  // namespace

void choose_members(Draft& draft) {
  std::int64_t wanted = 1;
  std::int64_t elements = 0;
  std::int64_t most_work = 0;
  std::int64_t all_work = 0;
  for (const Operation& operation : draft.operations) {
    elements = std::max(elements, elements_of(operation));
    if (elements_of(operation) > kMostElements) wanted = std::max(wanted, elements_of(operation) / kElementsOfMember);
    if (operation.kind == NotedOperation::Kind::product) {
      most_work = std::max(most_work, operation.product.work());
      all_work += operation.product.work();
    }
    if (operation.kind != NotedOperation::Kind::product || operation.product.work() < kLeastShared) continue;
    const std::int64_t for_outputs = std::min<std::int64_t>(operation.product.outputs() / kOutputsOfMember, kUsualMembers);
    wanted = std::max({wanted, for_outputs, operation.product.work() / kWorkOfMember});
  }
  if (!draft.limits.on_cuda) return;
  if (draft.limits.on_call && all_work <= kMostWorkAlone && elements <= kElementsOfMember) wanted = 1;
  draft.members = draft.limits.members != 0 ? std::min(draft.limits.members, draft.limits.most_members)
                                            : static_cast<std::uint32_t>(std::min<std::int64_t>(wanted, draft.limits.most_members));
  // More members where the weights of fewer do not fit.
  while (draft.members > 1 && draft.limits.members == 0 && kept_bytes(draft) > draft.limits.local_bytes / 2 &&
         draft.members * 2 <= draft.limits.most_members)
    draft.members *= 2;
  if (draft.limits.threads != 0)
    draft.threads = draft.limits.threads;
  else if (draft.members > 1)
    draft.threads = kThreadsOfMember;
  else
    draft.threads = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(elements, most_work / kWorkOfThread))), 128, 1024));
}

}  // namespace dwell::tensor::gang
