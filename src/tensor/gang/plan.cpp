#include "tensor/gang/plan.hpp"

#include <cstddef>
#include <utility>

#include "tensor/device/member.hpp"
#include "tensor/gang/copy_steps.hpp"
#include "tensor/gang/draft.hpp"
#include "tensor/gang/members.hpp"
#include "tensor/gang/operation_steps.hpp"
#include "tensor/gang/placement.hpp"
#include "tensor/gang/sharing.hpp"
#include "tensor/gang/slices.hpp"
#include "tensor/gang/step_list.hpp"
#include "tensor/gang/worth.hpp"

namespace dwell::tensor::gang {

namespace {

Plan written(const Draft& draft) {
  StepList steps;
  CopySteps copies(draft, steps);
  OperationSteps operations(draft, steps);
  copies.begin();
  if (draft.limits.is_repeated()) {
    steps.end_list();
    copies.begin_run();
  }
  const std::size_t last = draft.operations.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    if (operations.waits_for_exchange(draft.operations[i])) operations.exchange();
    // Early enough to arrive by the end of the run, and where most plans have a barrier of the member's threads.
    if (i == last) copies.fetch_next([&](const Range& range) { return range.last < last; });
    operations.write(draft.operations[i]);
  }
  copies.fetch_next([&](const Range& range) { return range.last == last; });
  copies.end_fetches();
  operations.exchange();
  if (draft.limits.is_repeated()) {
    copies.end_run();
    steps.end_repeated();
  }
  copies.end();
  steps.end_list();
  steps.begins.pop_back();  // behind the last end
  return {.members = draft.members,
          .threads = draft.threads,
          .local_bytes = draft.local_bytes,
          .exchanged = operations.exchanged(),
          .arrived = copies.arrived(),
          .list = std::move(steps.words),
          .on_call = draft.limits.on_call,
          .begins = std::move(steps.begins),
          .forms = std::move(steps.forms),
          .remarks = std::move(steps.remarks)};
}

}  // namespace

std::vector<std::size_t> steps_of(const Plan& plan, std::size_t list) {
  std::vector<std::size_t> steps;
  for (std::size_t at = plan.begins[list]; plan.list[at] != 0; at += plan.list[at] >> device::kStepFormBits & device::kStepWords)
    steps.push_back(at);
  return steps;
}

Plan plan_of(const Noted& noted, const std::function<bool(const TensorView::Extent&)>& needed, const Limits& limits) {
  Draft draft(noted, needed, limits);
  choose_members(draft);
  find_slices(draft);
  choose_shared(draft);
  check_worth(draft);
  place_all(draft);
  return written(draft);
}

}  // namespace dwell::tensor::gang
