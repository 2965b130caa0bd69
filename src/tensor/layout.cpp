#include "tensor/layout.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <dwell/detail/checked.hpp>
#include <dwell/error.hpp>

#include "base/inplace_vector.hpp"

namespace dwell::tensor {

using detail::Checked;
using detail::magnitude;

void join_dims(Dims& sizes, std::span<Dims> strides, bool any_order) {
  const auto erase = [&](std::size_t dim) {
    sizes.erase(dim);
    for (Dims& each : strides) each.erase(dim);
  };
  for (std::size_t dim = sizes.size(); dim-- > 0;)
    if (sizes[dim] == 1) erase(dim);
  // Insertion sort: dimensions are mostly in order.
  for (std::size_t dim = 1; dim < sizes.size() && any_order; ++dim)
    for (std::size_t at = dim; at > 0 && magnitude(strides[0][at]) > magnitude(strides[0][at - 1]); --at) {
      std::swap(sizes[at], sizes[at - 1]);
      for (Dims& each : strides) std::swap(each[at], each[at - 1]);
    }
  for (std::size_t dim = sizes.size(); dim-- > 1;) {
    // Strides of tensors without elements are arbitrary.
    if (!std::ranges::all_of(strides, [&](const Dims& each) { return Checked(each[dim - 1]) == Checked(each[dim]) * sizes[dim]; }))
      continue;
    sizes[dim] *= sizes[dim - 1];
    erase(dim - 1);
  }
  if (sizes.size() != 0) return;
  sizes.push_back(1);
  for (Dims& each : strides) each.push_back(1);
}

namespace {

bool may_share(const TensorView& tensor) {
  if (tensor.contiguous()) return false;
  InplaceVector<std::size_t, Dims::kMost> order;
  for (std::size_t dim = 0; dim < tensor.dims(); ++dim)
    if (tensor.shape()[dim] != 1) order.push_back(dim);
  std::ranges::sort(order, {}, [&](std::size_t dim) { return magnitude(tensor.strides()[dim]); });
  std::uint64_t reach = 0;  // of the dimensions so far; below the bytes of the tensor's extent
  for (const std::size_t dim : order) {
    const std::uint64_t stride = magnitude(tensor.strides()[dim]);
    if (stride <= reach) return true;
    reach += static_cast<std::uint64_t>(tensor.shape()[dim] - 1) * stride;
  }
  return false;
}

}  // namespace

bool are_same(const TensorView& a, const TensorView& b) {
  return a.address() == b.address() && a.type() == b.type() && a.shape() == b.shape() && a.strides() == b.strides();
}

void check_result(const TensorView& to) {
  if (may_share(to))
    throw Error(errc::invalid_argument, "elements of the result, of shape " + to_string(to.shape()) + " and strides " +
                                            to_string(to.strides()) + ", may share memory: write to another tensor");
}

void check_reach(const TensorView& tensor) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 31U;
  if (static_cast<std::uint64_t>(tensor.elements()) >= kLimit)
    throw Error(errc::unsupported,
                "a tensor of " + std::to_string(tensor.elements()) + " elements is too large for an operation: 2^31 - 1 are the most");
  const TensorView::Extent extent = tensor.extent();
  if (extent.end - extent.first >= kLimit * bytes_of(tensor.type()))
    throw Error(errc::unsupported, "the elements of a tensor of shape " + to_string(tensor.shape()) + " and strides " +
                                       to_string(tensor.strides()) + " lie too far apart for an operation: 2^31 - 1 elements are the most");
}

}  // namespace dwell::tensor
