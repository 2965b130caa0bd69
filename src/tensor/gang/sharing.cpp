#include "tensor/gang/sharing.hpp"

#include <cstdint>
#include <string>

namespace dwell::tensor::gang {

namespace {

constexpr std::int64_t kMostWork = std::int64_t{1} << 20U;           // multiplications of a product that each member does
constexpr std::int64_t kMostElementsOnCpu = std::int64_t{1} << 17U;  // where tasks would use several threads
constexpr std::int64_t kMostWorkOnCpu = std::int64_t{1} << 22U;

// Tensors that are written and too large for each member's memory are shared; so are all others that the same steps write.
void spread(Draft& draft) {
  if (draft.members == 1) return;
  for (Range& range : draft.ranges) range.shared = range.written() && range.bytes() > kMostLocal;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Operation& operation : draft.operations) {
      const bool large = elements_of(operation) > kMostElements || (operation.kind == NotedOperation::Kind::product &&
                                                                    operation.product.work() > kMostWork && !draft.is_handed_on(operation));
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
  for (const Operation& operation : draft.operations) {
    if (draft.ranges.shares(operation) || draft.is_handed_on(operation)) continue;
    const std::int64_t most = draft.limits.on_cuda ? kMostElements : kMostElementsOnCpu;
    if (elements_of(operation) > most)
      refuse("an operation has " + std::to_string(elements_of(operation)) + " elements, " + std::to_string(most) + " at most");
    if (operation.kind == NotedOperation::Kind::product && operation.product.work() > (draft.limits.on_cuda ? kMostWork : kMostWorkOnCpu))
      refuse("a product of " + std::to_string(operation.product.work()) + " multiplications");
  }
}

}  // namespace

void choose_shared(Draft& draft) {
  spread(draft);
  check_sizes(draft);
}

}  // namespace dwell::tensor::gang
