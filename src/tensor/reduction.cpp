#include "tensor/reduction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include <dwell/detail/checked.hpp>
#include <dwell/error.hpp>

#include "tensor/layout.hpp"
#include "tensor/operation.hpp"
#include "tensor/promotion.hpp"

namespace dwell {

namespace {

constexpr std::string_view kNames[] = {
#define DWELL_NAME(name, ...) #name,
    DWELL_REDUCTIONS(DWELL_NAME)
#undef DWELL_NAME
};

enum class Gives : std::uint8_t { same, wide, real, floats, place, truth };
constexpr Gives kGives[] = {
#define DWELL_GIVES(name, pytorch, numpy, gives, ...) Gives::gives,
    DWELL_REDUCTIONS(DWELL_GIVES)
#undef DWELL_GIVES
};
Gives gives(Reduction reduction) { return kGives[static_cast<std::size_t>(reduction)]; }

}  // namespace

std::string_view name_of(Reduction reduction) { return kNames[static_cast<std::size_t>(reduction)]; }

ElementType result_of(Reduction reduction, ElementType type) {
  tensor::require_computable(name_of(reduction), type);
  const bool floating = tensor::is_floating(type);
  switch (gives(reduction)) {
    case Gives::same: return type;
    case Gives::wide: return floating ? type : ElementType::i64;
    case Gives::real: return floating ? type : ElementType::f32;
    case Gives::place: return ElementType::i64;
    case Gives::truth: return ElementType::boolean;
    case Gives::floats: break;
  }
  if (floating) return type;
  throw Error(errc::invalid_argument, std::string(name_of(reduction)) + " of " + std::string(dwell::name_of(type)) +
                                          " has no type: give a result of floating point, or convert the elements");
}

Dims reduced_shape(const Dims& shape, const Dims& axes, bool keep) {
  const std::array<bool, Dims::kMost> along = tensor::axes_of(shape, axes);
  Dims reduced;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (!along.at(dim))
      reduced.push_back(shape[dim]);
    else if (keep)
      reduced.push_back(1);
  }
  return reduced;
}

namespace tensor {

namespace {

constexpr const char* kReduceText = R"(#include "tensor/device/reduce.hpp"

struct ReduceWords {
  dwell::u32 at[64];
};

DWELL_OPERATOR(dwell_reduce)(dwell::Group g, const ReduceWords& task) {
  dwell::device::run_rows(g, task.at);
}
)";
// Nine words, nine sizes, four tensors of nine dimensions.
static_assert(device::RowsWords::kSizes + 9 + 4 * (2 + 9) <= 64 && 64 <= kMostOwnWords, "the operator takes as many");

// The minimum length of a row's part.
constexpr std::int64_t kElementsOfPart = 8192;
// On CUDA, so many elements are passed over by one group: the way to other workers takes as long.
constexpr std::int64_t kElementsAlone = 32768;
// With this many concurrent tasks rows are not split.
constexpr std::int64_t kEnoughTiles = 64;

constexpr std::uint64_t kMostElements = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse_size(const TensorView& tensor) {
  throw Error(errc::unsupported, "a tensor of shape " + to_string(tensor.shape()) + " and strides " + to_string(tensor.strides()) +
                                     " spans 2^31 elements or more: reduce parts of it");
}

// Returns the product of dimensions of a tensor; it may be large even if the tensor is empty.
std::uint32_t product_of(const Dims& sizes, const TensorView& tensor) {
  const detail::Checked product = detail::product_of(sizes);
  if (!product.is_in(0, kMostElements)) refuse_size(tensor);
  return static_cast<std::uint32_t>(product.value());
}

std::uint32_t ceiling(std::int64_t a, std::int64_t b) { return static_cast<std::uint32_t>((a + b - 1) / b); }

}  // namespace

const OwnSource kReduce{"dwell_reduce", kReduceText};

std::array<bool, Dims::kMost> axes_of(const Dims& shape, const Dims& axes) {
  std::array<bool, Dims::kMost> along{};
  if (axes.size() == 0) {
    std::fill_n(along.begin(), shape.size(), true);
    return along;
  }
  const auto dims = static_cast<std::int64_t>(shape.size());
  for (const std::int64_t axis : axes) {
    // As in PyTorch, a tensor without dimensions accepts axis 0 or -1.
    if (dims == 0 && (axis == 0 || axis == -1)) continue;
    if (axis < -dims || axis >= dims)
      throw Error(errc::invalid_argument, "dimension " + std::to_string(axis) + " does not exist in the shape " + to_string(shape));
    bool& named = along.at(static_cast<std::size_t>(axis < 0 ? axis + dims : axis));
    if (named) throw Error(errc::invalid_argument, "dimension " + std::to_string(axis) + " is named twice: name each once");
    named = true;
  }
  return along;
}

device::NumberClass computed_in(std::string_view what, ElementType from, ElementType to, bool floating) {
  require_computable(what, from);
  require_computable(what, to);
  const bool real = tensor::is_floating(from) || floating;
  if (real && !tensor::is_floating(to))
    throw Error(errc::invalid_argument, std::string(what) + " of " + std::string(dwell::name_of(from)) + " does not fit a result of " +
                                            std::string(dwell::name_of(to)) +
                                            ": give one of floating point, or convert the elements first");
  return device::class_of(promoted(from, to));
}

RowsPlan plan_of(Reduction reduction, ElementType from, ElementType to, double parameter) {
  using device::RowFold;
  using device::RowMap;
  using device::RowResult;
  using device::RowStatistic;
  const bool floating = gives(reduction) == Gives::floats || gives(reduction) == Gives::real;
  const bool own = gives(reduction) == Gives::place || gives(reduction) == Gives::truth;
  RowsPlan plan;
  plan.parameter = parameter;
  if (own) {
    require_computable(name_of(reduction), from);
    require_computable(name_of(reduction), to);
    plan.number = device::class_of(from);
  } else {
    plan.number = computed_in(name_of(reduction), from, to, floating);
  }
  switch (reduction) {
    case Reduction::sum: break;
    case Reduction::mean: plan.result = RowResult::mean; break;
    case Reduction::prod: plan.fold = RowFold::product; break;
    case Reduction::amax: plan.fold = RowFold::max; break;
    case Reduction::amin: plan.fold = RowFold::min; break;
    case Reduction::argmax:
    case Reduction::argmin:
      plan.statistic = reduction == Reduction::argmax ? RowStatistic::most : RowStatistic::least;
      plan.result = RowResult::place;
      break;
    case Reduction::any:
    case Reduction::all:
      plan.map = RowMap::nonzero;
      plan.fold = reduction == Reduction::any ? RowFold::max : RowFold::product;
      break;
    case Reduction::var:
    case Reduction::stddev:
      plan.statistic = RowStatistic::moments;
      plan.result = reduction == Reduction::var ? RowResult::variance : RowResult::deviation;
      break;
    case Reduction::norm:
      if (std::isinf(parameter)) {
        plan.map = RowMap::abs;
        plan.fold = parameter > 0 ? RowFold::max : RowFold::min;
      } else if (parameter == 0) {
        plan.map = RowMap::nonzero;
      } else if (parameter == 1) {
        plan.map = RowMap::abs;
      } else if (parameter == 2) {
        plan.map = RowMap::square;
        plan.result = RowResult::root;
      } else {
        plan.map = RowMap::power;
        plan.result = RowResult::power;
      }
      break;
    case Reduction::logsumexp:
      plan.statistic = RowStatistic::exponentials;
      plan.result = RowResult::log;
      break;
  }
  return plan;
}

Rows::Rows(const RowsPlan& plan, const std::array<bool, Dims::kMost>& axes, bool ordered, bool on_cuda, const TensorView& input,
           const TensorView& result, const TensorView* third, const TensorView* fourth)
    : plan_(plan), third_(third != nullptr), fourth_(fourth != nullptr) {
  InplaceVector<const TensorView*, 4> tensors{&input, &result};
  if (third != nullptr) tensors.push_back(third);
  if (fourth != nullptr) tensors.push_back(fourth);
  Dims rows;
  Dims columns;
  std::array<Dims, 4> across;
  std::array<Dims, 4> along;
  for (std::size_t dim = 0; dim < input.dims(); ++dim) {
    (axes.at(dim) ? columns : rows).push_back(input.shape()[dim]);
    for (std::size_t i = 0; i < tensors.size(); ++i) (axes.at(dim) ? along : across)[i].push_back(tensors[i]->strides()[dim]);
  }
  join_dims(rows, std::span(across).first(tensors.size()), true);
  join_dims(columns, std::span(along).first(tensors.size()), !ordered);
  rows_ = product_of(rows, input);
  columns_ = product_of(columns, input);
  row_dims_ = static_cast<std::uint32_t>(rows.size());
  column_dims_ = static_cast<std::uint32_t>(columns.size());
  const auto put = [&](auto word) { dims_.push_back(static_cast<std::uint32_t>(word)); };
  for (const std::int64_t size : rows) put(size);
  for (const std::int64_t size : columns) put(size);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = *tensors[i];
    const TensorView::Extent extent = tensor.extent();
    if (static_cast<std::uint64_t>(tensor.elements()) > kMostElements ||
        extent.end - extent.first >= (kMostElements + 1) * bytes_of(tensor.type()))
      refuse_size(tensor);
    put(tensor.address());
    put(static_cast<std::uint32_t>(tensor.address() >> 32U) | static_cast<std::uint32_t>(tensor.type()) << device::kTypeShift);
    for (const std::int64_t stride : across[i]) put(stride);
    for (const std::int64_t stride : along[i]) put(stride);
  }
  rows_first_ = rows_ > 1 && columns_ > 1 && detail::magnitude(across[0][row_dims_ - 1]) < detail::magnitude(along[0][column_dims_ - 1]);
  cut(on_cuda);
}

// These decisions determine the order in which numbers are combined: they may depend only on shapes, strides, and the kind of device.
void Rows::cut(bool on_cuda) {
  on_cuda_ = on_cuda;
  if (on_cuda) {
    // A thread reduces eight columns at a time.
    rows_first_ = rows_first_ && rows_ >= 16;
    const std::uint32_t threads = std::bit_ceil(ceiling(std::max<std::uint32_t>(columns_, 1), 8));
    if (plan_.result == device::RowResult::running)
      shift_ = columns_ <= 64 && rows_ > 1 ? 7 : 0;
    else if (rows_first_)
      shift_ = columns_ <= 8 ? 7 : 5;
    else
      shift_ = threads > 32 ? 0 : 7 - static_cast<std::uint32_t>(std::countr_zero(threads));
    if (shift_ == 0) rows_first_ = false;
    rows_at_once_ = 1U << shift_;
  } else {
    rows_first_ = rows_first_ && rows_ >= 8;
    rows_at_once_ = rows_first_ ? 128 : 1;
  }
  const std::int64_t tiles = ceiling(rows_, rows_at_once_);
  const std::int64_t elements = static_cast<std::int64_t>(std::min(rows_, rows_at_once_)) * columns_;
  const std::int64_t parts =
      std::min({elements / kElementsOfPart, kEnoughTiles / std::max<std::int64_t>(tiles, 1), static_cast<std::int64_t>(device::kMaxParts)});
  part_columns_ = columns_;
  // The statistics of parts make a second task.
  if (on_cuda && elements * passes() < 2 * kElementsAlone) return;
  if (parts < 2 || (plan_.result == device::RowResult::running && shift_ != 0)) return;
  part_columns_ = ceiling(ceiling(columns_, parts), 64) * 64;
  parts_ = ceiling(columns_, part_columns_);
}

std::int64_t Rows::passes() const noexcept {
  const std::int64_t of_statistic =
      plan_.statistic == device::RowStatistic::moments || plan_.statistic == device::RowStatistic::exponentials ? 2 : 1;
  return of_statistic + (plan_.result >= device::RowResult::softmax ? 1 : 0);
}

std::uint32_t Rows::groups(device::RowPhase phase) const noexcept {
  if (on_cuda_ && std::int64_t{rows_} * columns_ * passes() < kElementsAlone) return 1;
  const std::int64_t tiles = ceiling(rows_, rows_at_once_);
  if (phase == device::RowPhase::rest && plan_.result < device::RowResult::softmax)
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(tiles / 4, 1, kMostGroups));
  const std::int64_t most = std::min(tiles * parts_, kMostGroups);
  return static_cast<std::uint32_t>(std::max<std::int64_t>(std::min(most, std::int64_t{rows_} * columns_ / kElementsOfGroup), 1));
}

InplaceVector<std::uint32_t, kMostOwnWords> Rows::words(device::RowPhase phase, std::uint64_t statistics) const {
  const auto parameter = std::bit_cast<std::uint64_t>(plan_.parameter);
  InplaceVector<std::uint32_t, kMostOwnWords> words{
      device::RowsWords::head(plan_.statistic, plan_.map, plan_.fold, plan_.result, phase, plan_.number) |
          device::RowsWords::shape(row_dims_, column_dims_, shift_, rows_first_, third_, fourth_),
      rows_,
      columns_,
      parts_,
      part_columns_,
      static_cast<std::uint32_t>(parameter),
      static_cast<std::uint32_t>(parameter >> 32U),
      static_cast<std::uint32_t>(statistics),
      static_cast<std::uint32_t>(statistics >> 32U),
  };
  words.append(dims_);
  return words;
}

}  // namespace tensor
}  // namespace dwell
