#include "tensor/gang/worth.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "tensor/device/program.hpp"

namespace dwell::tensor::gang {

namespace {

// Instructions for an element, of a step that is none of products.
std::int64_t instructions_of(const Operation& operation) {
  constexpr std::int64_t kOfRows = 4;
  return operation.kind == NotedOperation::Kind::program ? device::ProgramWords(operation.words.data()).instructions() : kOfRows;
}

}  // namespace

// Refuses a program that tasks would run faster, side by side: many steps that do not depend on each other. Nanoseconds, measured on an
// H200; a task behind another one takes about two microseconds.
void check_worth(const Draft& draft) {
  if (!draft.limits.on_cuda || draft.limits.members != 0) return;
  constexpr double kOfBurst = 60'000;
  constexpr double kOfTask = 2'000;
  constexpr double kOfSubmission = 50;
  constexpr double kOfStep = 100;
  constexpr double kOfMeeting = 1'000;
  constexpr double kOfInstruction = 0.06;    // and element, in a member
  constexpr double kOfMultiplication = 0.3;  // in a member
  constexpr double kTasksOfMember = 4;       // a group of a task has so many times fewer threads
  constexpr std::int64_t kElementsOfGroup = 1024;
  constexpr double kMuch = 1.5;  // the estimates are rough
  double whole = 0;
  double last = 0;
  std::map<const Range*, double> written;  // when tasks have
  std::map<const Range*, double> read;
  for (const Operation& operation : draft.operations) {
    const bool is_product = operation.kind == NotedOperation::Kind::product;
    const auto elements = static_cast<double>(elements_of(operation));
    const double work = is_product ? static_cast<double>(operation.product.work()) * kOfMultiplication
                                   : elements * static_cast<double>(instructions_of(operation)) * kOfInstruction;
    const bool meets = draft.ranges.shares(operation) || draft.is_handed_on(operation);
    whole += kOfStep + (meets ? kOfMeeting + work / draft.members : work);
    double begins = 0;
    for (const View& view : operation.tensors) {
      const Range* const range = &draft.ranges.of(view);
      begins = std::max(begins, written[range]);
      if (view.written) begins = std::max(begins, read[range]);
    }
    const double groups = std::max<double>(1, elements / kElementsOfGroup);
    const double ends = begins + kOfTask + work * kTasksOfMember / groups;
    last = std::max(last, ends);
    for (const View& view : operation.tensors) {
      double& of = view.written ? written[&draft.ranges.of(view)] : read[&draft.ranges.of(view)];
      of = std::max(of, ends);
    }
  }
  const double tasks = kOfBurst + last + kOfSubmission * static_cast<double>(draft.operations.size());
  if (whole > kMuch * tasks)
    refuse("its " + std::to_string(draft.operations.size()) + " steps hardly depend on each other: tasks run them side by side");
}

}  // namespace dwell::tensor::gang
