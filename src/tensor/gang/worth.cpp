#include "tensor/gang/worth.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "tensor/device/program.hpp"

namespace dwell::tensor::gang {

namespace {

// Instructions for an element, of a step that is none of products.
std::int64_t instructions_of(const Operation& operation, const CostModel& costs) {
  if (operation.kind != NotedOperation::Kind::program) return costs.instructions_of_rows;
  return device::ProgramWords(operation.words.data()).instructions();
}

}  // namespace

// Refuses a program that tasks would run faster, side by side: many steps that do not depend on each other. In nanoseconds.
void check_worth(const Draft& draft) {
  if (!draft.limits.on_cuda || draft.limits.members != 0) return;
  const CostModel& costs = draft.limits.costs;
  const CostTimes& times = costs.times;
  double whole = 0;
  double last = 0;
  std::map<const Range*, double> written;  // when tasks have
  std::map<const Range*, double> read;
  for (const Operation& operation : draft.operations) {
    const bool is_product = operation.kind == NotedOperation::Kind::product;
    const auto elements = static_cast<double>(elements_of(operation));
    const double work = is_product ? static_cast<double>(operation.product.work()) * times.multiplication_ns
                                   : elements * static_cast<double>(instructions_of(operation, costs)) * times.instruction_ns;
    const bool shares = draft.ranges.shares(operation);
    const bool meets = shares || draft.is_handed_on(operation);
    whole += times.step_ns + (meets ? (shares ? times.barrier_ns : times.exchange_ns) + work / draft.members : work);
    double begins = 0;
    for (const View& view : operation.tensors) {
      const Range* const range = &draft.ranges.of(view);
      begins = std::max(begins, written[range]);
      if (view.written) begins = std::max(begins, read[range]);
    }
    const double groups = std::max<double>(1, elements / static_cast<double>(costs.elements_of_group));
    const double ends = begins + costs.task_ns + work * costs.task_slowdown / groups;
    last = std::max(last, ends);
    for (const View& view : operation.tensors) {
      double& of = view.written ? written[&draft.ranges.of(view)] : read[&draft.ranges.of(view)];
      of = std::max(of, ends);
    }
  }
  const double tasks = costs.burst_ns + last + costs.submission_ns * static_cast<double>(draft.operations.size());
  if (whole > costs.worth_margin * tasks)
    refuse("its " + std::to_string(draft.operations.size()) + " steps hardly depend on each other: tasks run them side by side");
}

}  // namespace dwell::tensor::gang
