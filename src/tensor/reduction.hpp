// Reductions as operations of a batch (tensor/device/rows.hpp).
#pragma once

#include <array>
#include <cstdint>

#include <dwell/reduction.hpp>
#include <dwell/tensor.hpp>

#include "base/inplace_vector.hpp"
#include "tensor/device/rows.hpp"
#include "tensor/operation.hpp"
#include "tensor/operators.hpp"

namespace dwell::tensor {

extern const OwnSource kReduce;

// Returns which dimensions `axes` contains; all if it is empty. Throws as reduced_shape.
std::array<bool, Dims::kMost> axes_of(const Dims& shape, const Dims& axes);

// The computation for each row, and its result.
struct RowsPlan {
  device::RowStatistic statistic = device::RowStatistic::fold;
  device::RowMap map = device::RowMap::none;
  device::RowFold fold = device::RowFold::sum;
  device::RowResult result = device::RowResult::number;
  device::NumberClass number = device::NumberClass::f32;
  double parameter = 0;
};
// Returns the plan of a reduction from type `from` to type `to`. `parameter`: the correction of var and stddev, or the exponent of a norm.
// Throws errc::invalid_argument for unsupported types.
RowsPlan plan_of(Reduction reduction, ElementType from, ElementType to, double parameter);
// Returns the class in which numbers are computed. Throws errc::invalid_argument if `to` has integers or bool, but `from` or the
// computation has others.
device::NumberClass computed_in(std::string_view what, ElementType from, ElementType to, bool floating);

// A tensor split into rows, with other tensors as views of its shape, with strides of 0 where they repeat.
class Rows {
 public:
  // `axes` of the input run along rows. With `ordered`, columns are in the order of the input's rows. `third` and `fourth` may be null.
  // Throws errc::unsupported when elements are 2^31 or more apart.
  Rows(const RowsPlan& plan, const std::array<bool, Dims::kMost>& axes, bool ordered, bool on_cuda, const TensorView& input,
       const TensorView& result, const TensorView* third, const TensorView* fourth);

  // Parts of a row: 1 if one task computes all.
  std::uint32_t parts() const noexcept { return parts_; }
  // The number of 64-bit numbers of all parts' statistics.
  std::int64_t statistics() const noexcept { return std::int64_t{2} * rows_ * parts_; }
  // Returns the number of groups of a phase.
  std::uint32_t groups(device::RowPhase phase) const noexcept;
  // Returns the words of a task; `statistics`: the address of the parts' statistics.
  InplaceVector<std::uint32_t, kMostOwnWords> words(device::RowPhase phase, std::uint64_t statistics) const;

 private:
  void cut(bool on_cuda);
  // Returns how often the elements are passed over.
  std::int64_t passes() const noexcept;

  RowsPlan plan_;
  std::uint32_t rows_ = 1;
  std::uint32_t columns_ = 1;
  std::uint32_t parts_ = 1;
  std::uint32_t part_columns_ = 1;
  std::uint32_t shift_ = 0;  // binary logarithm of the rows that a group of CUDA takes at once
  bool on_cuda_ = false;
  bool rows_first_ = false;  // neighbouring threads or lanes take neighbouring rows
  std::uint32_t rows_at_once_ = 1;
  std::uint32_t row_dims_ = 1;
  std::uint32_t column_dims_ = 1;
  InplaceVector<std::uint32_t, kMostOwnWords - device::RowsWords::kSizes> dims_;  // words: sizes, and the place of each tensor
  bool third_;
  bool fourth_;
};

}  // namespace dwell::tensor
