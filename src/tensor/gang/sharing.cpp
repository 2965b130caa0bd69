#include "tensor/gang/sharing.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace dwell::tensor::gang {

namespace {

// Tensors that are written and too large for each member's memory are shared; so are all others that the same steps write.
void spread(Draft& draft) {
  if (draft.members == 1) return;
  const CostModel& costs = draft.limits.costs;
  for (Range& range : draft.ranges) range.shared = range.written() && range.bytes() > kMostLocal;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Operation& operation : draft.operations) {
      const bool large =
          elements_of(operation) > costs.most_elements ||
          (operation.kind == NotedOperation::Kind::product && operation.product.work() > costs.most_work && !draft.is_handed_on(operation));
      if (!large && !draft.ranges.shares(operation)) continue;
      for (const View& view : operation.tensors) {
        if (!view.written || draft.ranges.of(view).shared) continue;
        draft.ranges.of(view).shared = true;
        changed = true;
      }
    }
  }
}

void check_sizes(const Draft& draft) {
  const CostModel& costs = draft.limits.costs;
  for (const Operation& operation : draft.operations) {
    if (draft.ranges.shares(operation) || draft.is_handed_on(operation)) continue;
    const std::int64_t most = draft.limits.on_cuda ? std::max(costs.most_elements, costs.most_elements_alone) : costs.most_elements_on_cpu;
    if (elements_of(operation) > most)
      refuse("an operation has " + std::to_string(elements_of(operation)) + " elements, " + std::to_string(most) + " at most");
    const std::int64_t most_work = draft.limits.on_cuda ? costs.most_work : costs.most_work_on_cpu;
    if (operation.kind == NotedOperation::Kind::product && operation.product.work() > most_work)
      refuse("a product of " + std::to_string(operation.product.work()) + " multiplications");
  }
}

}  // namespace

void choose_shared(Draft& draft) {
  spread(draft);
  check_sizes(draft);
}

}  // namespace dwell::tensor::gang
