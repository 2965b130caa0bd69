// cat and stack.
#include <ATen/Operators.h>

#include <optional>
#include <vector>

#include "fallback_reason.hpp"
#include "operation_kernel.hpp"
#include "operations.hpp"
#include "rows.hpp"

namespace dwell::pytorch {

namespace {

using at::Tensor;
using Made = std::optional<Tensor>;

// Returns whether all have one type and device, and the result has their layout.
bool are_alike(const std::vector<const Tensor*>& all) {
  for (const Tensor* const one : all) {
    if (!is_small(*one) || !holds(one->scalar_type() == all[0]->scalar_type(), FallbackReason::type) ||
        !holds(one->device() == all[0]->device(), FallbackReason::device) || one->dim() != all[0]->dim() ||
        !holds(one->suggest_memory_format() == at::MemoryFormat::Contiguous, FallbackReason::layout))
      return false;
  }
  return !all.empty();
}

// Allocates the result of these sizes and collects `put` with it and all tensors. Returns nothing if the result is too large.
Made put_together(const std::vector<const Tensor*>& all, at::IntArrayRef sizes, const auto& put) {
  const Tensor out = empty_on(*all[0], sizes, all[0]->scalar_type());
  if (!is_small(out)) return {};
  std::vector<const Tensor*> named{&out};
  named.insert(named.end(), all.begin(), all.end());
  Collector::of(out.device()).take(named, 1, 1, [&](Batch& batch) {
    std::vector<TensorView> views;
    for (const Tensor* const one : all) views.push_back(view_of(*one));
    put(batch, view_of(out), views);
  });
  return out;
}

struct Cat {
  static Made of(const at::ITensorListRef& tensors, std::int64_t dim) {
    std::vector<const Tensor*> all;
    for (const Tensor& one : tensors) all.push_back(&one);
    if (!are_alike(all)) return {};
    const std::int64_t dims = all[0]->dim();
    if (dim < 0) dim += dims;
    if (dim < 0 || dim >= dims) return {};
    at::DimVector sizes(all[0]->sizes());
    std::int64_t length = 0;
    for (const Tensor* const one : all) {
      for (std::int64_t other = 0; other < dims; ++other)
        if (other != dim && one->size(other) != all[0]->size(other)) return {};
      length += one->size(dim);
    }
    sizes[static_cast<std::size_t>(dim)] = length;
    return put_together(all, sizes, [&](Batch& batch, const TensorView& to, const std::vector<TensorView>& from) {
      batch.cat(to, from, static_cast<std::size_t>(dim));
    });
  }
};
struct Stack {
  static Made of(at::TensorList tensors, std::int64_t dim) {
    std::vector<const Tensor*> all;
    for (const Tensor& one : tensors) all.push_back(&one);
    if (!are_alike(all)) return {};
    const std::int64_t dims = all[0]->dim() + 1;
    if (dim < 0) dim += dims;
    if (dim < 0 || dim >= dims) return {};
    for (const Tensor* const one : all)
      if (one->sizes() != all[0]->sizes()) return {};
    at::DimVector sizes(all[0]->sizes());
    sizes.insert(sizes.begin() + dim, static_cast<std::int64_t>(all.size()));
    return put_together(all, sizes, [&](Batch& batch, const TensorView& to, const std::vector<TensorView>& from) {
      batch.stack(to, from, static_cast<std::size_t>(dim));
    });
  }
};

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;

void dwell::pytorch::take_concatenations(torch::Library& m) {
  take_all<Cat, aten::cat>(m);
  take_all<Stack, aten::stack>(m);
}
