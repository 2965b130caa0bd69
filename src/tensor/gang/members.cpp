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
  const CostModel& costs = draft.limits.costs;
  std::int64_t wanted = 1;
  std::int64_t elements = 0;
  std::int64_t most_work = 0;
  std::int64_t all_work = 0;
  for (const Operation& operation : draft.operations) {
    elements = std::max(elements, elements_of(operation));
    if (elements_of(operation) > costs.most_elements) wanted = std::max(wanted, elements_of(operation) / costs.elements_of_member);
    if (operation.kind == NotedOperation::Kind::product) {
      most_work = std::max(most_work, operation.product.work());
      all_work += operation.product.work();
    }
    if (operation.kind != NotedOperation::Kind::product || operation.product.work() < costs.least_shared_work) continue;
    const std::int64_t for_outputs = std::min<std::int64_t>(operation.product.outputs() / costs.outputs_of_member, costs.usual_members);
    wanted = std::max({wanted, for_outputs, operation.product.work() / costs.work_of_member});
  }
  if (!draft.limits.on_cuda) return;
  if (draft.limits.on_call && all_work <= costs.most_work_alone && elements <= costs.elements_of_member) wanted = 1;
  draft.members = draft.limits.members != 0 ? std::min(draft.limits.members, draft.limits.most_members)
                                            : static_cast<std::uint32_t>(std::min<std::int64_t>(wanted, draft.limits.most_members));
  // More members where the weights of fewer do not fit.
  while (draft.members > 1 && draft.limits.members == 0 && kept_bytes(draft) > draft.limits.local_bytes / 2 &&
         draft.members * 2 <= draft.limits.most_members)
    draft.members *= 2;
  if (draft.limits.threads != 0)
    draft.threads = draft.limits.threads;
  else if (draft.members > 1)
    draft.threads = costs.threads_of_member;
  else
    draft.threads = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max(elements, most_work / costs.work_of_thread))), 128, 1024));
}

}  // namespace dwell::tensor::gang
