// Helpers of operations along dimensions.
#pragma once

#include <ATen/core/Tensor.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

#include <dwell/batch.hpp>

#include "call.hpp"
#include "collector.hpp"

namespace dwell::pytorch {

// Collects an operation on these tensors by collect(batch), which writes the first `results`. The first `made` were allocated for them.
inline void collect(std::initializer_list<const at::Tensor*> named, std::size_t results, std::size_t made, const auto& work) {
  Collector::of((*named.begin())->device()).take(std::span(named.begin(), named.size()), results, made, work);
}

// Checked, sorted dimensions of a tensor: all if none is named. Nothing if one does not exist or is named twice.
using Axes = std::bitset<Dims::kMost>;
inline std::optional<Axes> axes_of(const at::Tensor& x, at::IntArrayRef dims) {
  Axes axes;
  for (std::int64_t dim : dims) {
    if (dim < 0) dim += x.dim();
    if (dim < 0 || dim >= x.dim() || axes[static_cast<std::size_t>(dim)]) return {};
    axes.set(static_cast<std::size_t>(dim));
  }
  if (dims.empty()) axes.set();
  return axes;
}
inline Dims to_dims(const at::Tensor& x, const Axes& axes) {
  Dims dims;
  for (std::int64_t dim = 0; dim < x.dim(); ++dim)
    if (axes[static_cast<std::size_t>(dim)]) dims.push_back(dim);
  return dims;
}
inline at::DimVector sizes_without(const at::Tensor& x, const Axes& axes, bool keep) {
  at::DimVector sizes;
  for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
    if (!axes[static_cast<std::size_t>(dim)])
      sizes.push_back(x.size(dim));
    else if (keep)
      sizes.push_back(1);
  }
  return sizes;
}

// The type in which sums of this type are accumulated.
inline at::ScalarType wide_type(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type; }
inline bool is_float(const at::Tensor& x) { return at::isFloatingType(x.scalar_type()); }

}  // namespace dwell::pytorch
