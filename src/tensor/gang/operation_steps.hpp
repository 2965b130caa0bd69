// Steps of operations, and the exchanges in which members get parts of results from each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/gang/draft.hpp"
#include "tensor/gang/forms.hpp"
#include "tensor/gang/step_list.hpp"

namespace dwell::tensor::gang {

class OperationSteps {
 public:
  // Writes to `steps`; both outlive it.
  OperationSteps(const Draft& draft, StepList& steps) : draft_(draft), steps_(steps) {}

  // Returns whether an exchange comes before the operation.
  bool waits_for_exchange(const Operation& operation) const;
  void write(const Operation& operation);
  // The step that gets all that others have handed on since the last exchange.
  void exchange();

  // Words of the largest exchange.
  std::uint32_t exchanged() const { return exchanged_; }

 private:
  // A result of which the others' words have not been got.
  struct Awaited {
    View to;  // of three dimensions
    std::int64_t elements = 0;
    bool owned = false;  // each member has its own elements of it
  };

  // Adds the first word of a result that the step hands on, and returns the text that finds it. `owned`: the member keeps its own elements.
  std::string word_in(MemberStep& step, const View& to, bool owned);

  const Draft& draft_;
  StepList& steps_;
  std::vector<Awaited> awaited_;
  std::int64_t words_ = 0;  // of them
  std::uint32_t exchanged_ = 0;
};

}  // namespace dwell::tensor::gang
