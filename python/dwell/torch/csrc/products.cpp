// Products of matrices, and elements chosen by an index.
#include <ATen/Operators.h>

#include <optional>

#include "collector.hpp"
#include "taken.hpp"

namespace dwell::pytorch {

namespace {

using at::Scalar;
using at::Tensor;
using Made = std::optional<Tensor>;

constexpr std::int64_t kMostWork = 256LL * 256 * 256;  // products of two numbers, beyond which PyTorch's libraries are better

bool have_one_type(std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  if (!at::isFloatingType(first.scalar_type())) return false;
  for (const Tensor* const tensor : tensors)
    if (!is_small(*tensor) || tensor->scalar_type() != first.scalar_type() || tensor->device() != first.device()) return false;
  return true;
}

Tensor product(const Tensor& a, at::IntArrayRef sizes, std::initializer_list<const Tensor*> from, const auto& collect) {
  const Tensor out = empty_on(a, sizes, a.scalar_type());
  std::vector<const Tensor*> named(from);
  named.push_back(&out);
  Collector::of(a.device()).take(named, false, [&](Batch& batch) { collect(batch, view_of(out)); });
  return out;
}

bool is_little(std::int64_t rows, std::int64_t inner, std::int64_t columns, std::int64_t batch = 1) {
  return batch * rows * inner * columns <= kMostWork && batch * rows * columns <= limits().elements.load(std::memory_order_relaxed);
}

struct Mm {
  static Made of(const Tensor& a, const Tensor& b) {
    if (!have_one_type({&a, &b}) || a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0) || !is_little(a.size(0), a.size(1), b.size(1)))
      return {};
    return product(a, {a.size(0), b.size(1)}, {&a, &b}, [&](Batch& batch, const TensorView& to) { batch.mm(to, view_of(a), view_of(b)); });
  }
};
struct Bmm {
  static Made of(const Tensor& a, const Tensor& b) {
    if (!have_one_type({&a, &b}) || a.dim() != 3 || b.dim() != 3 || a.size(0) != b.size(0) || a.size(2) != b.size(1) ||
        !is_little(a.size(1), a.size(2), b.size(2), a.size(0)))
      return {};
    return product(a, {a.size(0), a.size(1), b.size(2)}, {&a, &b},
                   [&](Batch& batch, const TensorView& to) { batch.bmm(to, view_of(a), view_of(b)); });
  }
};
struct Addmm {
  static Made of(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    if (!have_one_type({&a, &b, &bias}) || a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0) ||
        !is_little(a.size(0), a.size(1), b.size(1)))
      return {};
    const std::array<std::int64_t, 2> sizes = {a.size(0), b.size(1)};
    if (!at::is_expandable_to(bias.sizes(), sizes)) return {};
    return product(a, sizes, {&a, &b, &bias}, [&](Batch& batch, const TensorView& to) {
      batch.addmm(to, view_of(bias), view_of(a), view_of(b), beta.toDouble(), alpha.toDouble());
    });
  }
};
struct Baddbmm {
  static Made of(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    if (!have_one_type({&a, &b, &bias}) || a.dim() != 3 || b.dim() != 3 || a.size(0) != b.size(0) || a.size(2) != b.size(1) ||
        !is_little(a.size(1), a.size(2), b.size(2), a.size(0)))
      return {};
    const std::array<std::int64_t, 3> sizes = {a.size(0), a.size(1), b.size(2)};
    if (!at::is_expandable_to(bias.sizes(), sizes)) return {};
    return product(a, sizes, {&a, &b, &bias}, [&](Batch& batch, const TensorView& to) {
      batch.baddbmm(to, view_of(bias), view_of(a), view_of(b), beta.toDouble(), alpha.toDouble());
    });
  }
};
struct Mv {
  static Made of(const Tensor& a, const Tensor& x) {
    if (!have_one_type({&a, &x}) || a.dim() != 2 || x.dim() != 1 || a.size(1) != x.size(0)) return {};
    return product(a, {a.size(0)}, {&a, &x}, [&](Batch& batch, const TensorView& to) { batch.mv(to, view_of(a), view_of(x)); });
  }
};
struct Dot {
  static Made of(const Tensor& x, const Tensor& y) {
    if (!have_one_type({&x, &y}) || x.dim() != 1 || y.dim() != 1 || x.size(0) != y.size(0)) return {};
    return product(x, {}, {&x, &y}, [&](Batch& batch, const TensorView& to) { batch.dot(to, view_of(x), view_of(y)); });
  }
};

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;

TORCH_LIBRARY_IMPL(aten, Fake, m) {
  take_all<Mm, aten::mm>(m);
  take_all<Bmm, aten::bmm>(m);
  take_all<Addmm, aten::addmm>(m);
  take_all<Baddbmm, aten::baddbmm>(m);
  take_all<Mv, aten::mv>(m);
  take_all<Dot, aten::dot>(m);
}
