// The memory of a recorded program: ranges that its tensors share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <dwell/gang_program.hpp>
#include <dwell/tensor.hpp>

#include "tensor/gang/forms.hpp"

namespace dwell::tensor::gang {

// Memory that tensors of the program share, as far as they overlap.
struct Range {
  TensorView::Extent extent;
  std::vector<TensorView::Extent> writes = {};  // of operations, without duplicates
  bool read_first = false;                      // before it has been written as a whole
  bool covered = false;                         // it has been
  bool out = false;                             // someone reads it behind the program
  const GangSlices* input = nullptr;            // of which it has another slice in each run
  std::vector<const GangSlices*> outputs = {};  // that get parts of it behind each run
  std::size_t first = 0;                        // operations that use it
  std::size_t last = 0;

  // The planner's decisions.
  bool used = false;        // by other steps than products that keep their weights
  bool local = false;       // each member has it in its own memory
  bool shared = false;      // it lies in global memory, and members share out the steps that write it
  std::int64_t period = 0;  // of the elements that a member may own of it; 0: members own none
  bool owned = false;       // each member has the elements alone that it owns, behind the operations looked at so far
  std::uint64_t place = 0;  // in the member's memory

  std::uint64_t bytes() const { return extent.end - extent.first; }
  bool written() const { return !writes.empty(); }
  // Returns whether members may own elements of it: outputs of a part of it need all of these.
  bool is_divisible() const {
    return std::ranges::all_of(
        outputs, [&](const GangSlices* output) { return output->memory.first == extent.first && output->memory.end == extent.end; });
  }
};

// The ranges of a list of operations, by address.
class Ranges {
 public:
  using Needed = std::function<bool(const TensorView::Extent&)>;

  Ranges() = default;
  // `needed`: whether someone may read this memory behind the program.
  Ranges(const std::vector<Operation>& operations, const Needed& needed);

  // The range of a tensor of one of the operations.
  Range& of(const View& view);
  const Range& of(const View& view) const { return const_cast<Ranges*>(this)->of(view); }
  std::size_t index_of(const View& view) const { return static_cast<std::size_t>(&of(view) - all_.data()); }
  // Returns whether the tensor is its range as a whole.
  bool covers(const View& view) const;
  // Returns whether the tensor is floats of its range from a place on, one behind the other.
  bool is_aligned(const View& view) const;
  // Returns whether the operation writes a range that members share.
  bool shares(const Operation& operation) const;

  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  std::size_t size() const { return all_.size(); }
  Range& operator[](std::size_t i) { return all_[i]; }

 private:
  std::vector<Range> all_;
};

// Drops operations whose results nobody reads. Returns whether there were any.
bool drop_dead(std::vector<Operation>& operations, const Ranges& ranges);

}  // namespace dwell::tensor::gang
