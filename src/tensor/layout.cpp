#include "tensor/layout.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

#include <dwell/error.hpp>

namespace dwell::tensor {

Layout joined_layout(const std::vector<TensorView>& tensors, bool any_order) {
  const Dims& shape = tensors.front().shape();
  std::vector<std::size_t> order;
  for (std::size_t dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] != 1) order.push_back(dim);
  if (any_order)
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return std::abs(tensors.front().strides()[a]) > std::abs(tensors.front().strides()[b]);
    });

  Layout layout;
  layout.strides.resize(tensors.size());
  for (const std::size_t dim : order) {
    const bool joins = layout.sizes.size() != 0 && std::ranges::all_of(tensors, [&](const TensorView& tensor) {
                         const Dims& outer = layout.strides[static_cast<std::size_t>(&tensor - tensors.data())];
                         return outer[outer.size() - 1] == tensor.strides()[dim] * shape[dim];
                       });
    if (joins)
      layout.sizes[layout.sizes.size() - 1] *= shape[dim];
    else
      layout.sizes.push_back(shape[dim]);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (joins)
        layout.strides[i][layout.strides[i].size() - 1] = tensors[i].strides()[dim];
      else
        layout.strides[i].push_back(tensors[i].strides()[dim]);
    }
  }
  if (layout.sizes.size() == 0) {
    layout.sizes.push_back(1);
    for (Dims& strides : layout.strides) strides.push_back(1);
  }
  return layout;
}

namespace {

bool may_share(const TensorView& tensor) {
  if (tensor.elements() == 0) return false;
  std::vector<std::size_t> order;
  for (std::size_t dim = 0; dim < tensor.dims(); ++dim)
    if (tensor.shape()[dim] != 1) order.push_back(dim);
  std::ranges::sort(order, {}, [&](std::size_t dim) { return std::abs(tensor.strides()[dim]); });
  std::int64_t reach = 0;  // of the dimensions so far
  for (const std::size_t dim : order) {
    const std::int64_t stride = std::abs(tensor.strides()[dim]);
    if (stride <= reach) return true;
    reach += (tensor.shape()[dim] - 1) * stride;
  }
  return false;
}

}  // namespace

bool are_same(const TensorView& a, const TensorView& b) {
  return a.address() == b.address() && a.type() == b.type() && a.shape() == b.shape() && a.strides() == b.strides();
}

void check_result(const TensorView& to) {
  if (to.elements() != 0 && may_share(to))
    throw Error(errc::invalid_argument, "elements of the result, of shape " + to_string(to.shape()) + " and strides " +
                                            to_string(to.strides()) + ", may share memory: write to another tensor");
}

void check_reach(const TensorView& tensor) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 31U;
  if (static_cast<std::uint64_t>(tensor.elements()) >= kLimit)
    throw Error(errc::unsupported,
                "a tensor of " + std::to_string(tensor.elements()) + " elements is too large for an operation: 2^31 - 1 are the most");
  const TensorView::Extent extent = tensor.extent();
  if ((extent.end - extent.first) / bytes_of(tensor.type()) >= kLimit)
    throw Error(errc::unsupported, "the elements of a tensor of shape " + to_string(tensor.shape()) + " and strides " +
                                       to_string(tensor.strides()) + " lie too far apart for an operation: 2^31 - 1 elements are the most");
}

}  // namespace dwell::tensor
