// Steps that bring tensors to the members and results out: before all runs and behind them; the slices of a run; the numbers of a call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <dwell/gang_program.hpp>
#include <dwell/tensor.hpp>

#include "tensor/gang/draft.hpp"
#include "tensor/gang/ranges.hpp"
#include "tensor/gang/step_list.hpp"

namespace dwell::tensor::gang {

class CopySteps {
 public:
  // Writes to `steps`; both outlive it.
  CopySteps(const Draft& draft, StepList& steps) : draft_(draft), steps_(steps) {}

  // Tensors come to the member's memory, before all runs.
  void begin();
  // The slices of a run come, and go; or a call and its answer.
  void begin_run();
  void end_run();
  // Begins to fetch slices of the next run, of the ranges that `of` tells. No step of this one reads its own any more.
  void fetch_next(const std::function<bool(const Range&)>& of);
  void end_fetches();
  // Results go out, behind all runs.
  void end();

  // Words of a call's inputs.
  std::uint32_t arrived() const { return arrived_; }

 private:
  // Returns whether a run's slice comes at the end of the run before: while members wait for each other's words.
  bool is_fetched_ahead(const Range& range) const;
  void copy_slice(const Range& range, const std::string& turn, const std::string& condition);
  // The number of the first word of what lies at this address of a call's inputs, or of its outputs.
  std::uint64_t call_word(const GangSlices& of, std::uint64_t address) const;
  void await_call();
  void answer();
  // Copies memory of a range out, to where `to` says: by its owners, or by one member, another one each time. `outside`: places there,
  // or'ed.
  void copy_out(const Range& range, const TensorView::Extent& memory, std::uint64_t outside,
                const std::function<std::string(MemberStep&, const std::string&)>& to);

  const Draft& draft_;
  StepList& steps_;
  bool fetches_ = false;      // slices of the next run
  std::uint32_t writer_ = 0;  // the member that copies the next result out
  std::uint32_t arrived_ = 0;
};

}  // namespace dwell::tensor::gang
