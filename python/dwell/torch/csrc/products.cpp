// Products of matrices, and elements chosen by an index.
#include <ATen/ExpandUtils.h>
#include <ATen/Operators.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "collector.hpp"
#include "fallback_reason.hpp"
#include "operation_kernel.hpp"
#include "operations.hpp"

namespace dwell::pytorch {

namespace {

using at::Scalar;
using at::Tensor;

constexpr std::int64_t kMostWork = 256LL * 256 * 256;  // multiplications; PyTorch's libraries are faster for more

bool have_one_type(std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  if (!holds(at::isFloatingType(first.scalar_type()), FallbackReason::type)) return false;
  for (const Tensor* const tensor : tensors)
    if (!is_small(*tensor) || !holds(tensor->scalar_type() == first.scalar_type(), FallbackReason::type) ||
        !holds(tensor->device() == first.device(), FallbackReason::device))
      return false;
  return true;
}

// A call of a product of matrices.
class Product {
 public:
  using Collect = void (*)(Batch& batch, const TensorView& to, const Product& of);

  // A declined call, which PyTorch runs.
  Product() = default;
  Product(at::IntArrayRef sizes, const Tensor& a, const Tensor& b, Collect collect) : a_(&a), b_(&b), sizes_(sizes), collect_(collect) {}
  // With a bias. PyTorch refuses one that does not fit.
  Product(at::IntArrayRef sizes, const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
          Collect collect)
      : Product(sizes, a, b, at::is_expandable_to(bias.sizes(), sizes) ? collect : nullptr) {
    if (!has(a.scalar_type(), number_from(beta)) || !has(a.scalar_type(), number_from(alpha))) {
      collect_ = nullptr;
      return;
    }
    bias_ = &bias;
    beta_ = beta.toDouble();
    alpha_ = alpha.toDouble();
    // cuBLAS's kernels differ in whether 0 times infinity gives NaN.
    if (!a.is_cpu() && (!std::isfinite(alpha_) || !std::isfinite(beta_))) collect_ = nullptr;
  }

  // The same with the second factor transposed.
  Product turned() const {
    Product other = *this;
    other.b_is_turned_ = true;
    return other;
  }

  // Collects the call with a new tensor as its result. Returns an undefined tensor if it cannot.
  Tensor make() const {
    if (collect_ == nullptr) return {};
    const Tensor out = empty_on(*a_, sizes_, a_->scalar_type());
    collect(out, 1);
    return out;
  }
  // Collects the call with the result in `out`. Returns false if it cannot.
  bool write(const Tensor& out) const {
    if (collect_ == nullptr || !fits(out, *a_, sizes_, a_->scalar_type())) return false;
    // Leave a product that is written to one of its factors to PyTorch.
    for (const Tensor* const factor : {a_, b_})
      if (!is_clear_of(out, *factor)) return false;
    if (bias_ != nullptr && !holds(may_write(out, *bias_), FallbackReason::layout)) return false;
    collect(out, 0);
    return true;
  }

  TensorView a() const { return view_of(*a_); }
  TensorView b() const { return b_is_turned_ ? view_of(*b_).transpose(0, 1) : view_of(*b_); }
  TensorView bias() const { return view_of(*bias_); }
  double beta() const { return beta_; }
  double alpha() const { return alpha_; }

 private:
  void collect(const Tensor& out, std::size_t made) const {
    const std::array<const Tensor*, 4> named{&out, a_, b_, bias_};
    Collector::of(out.device()).take(std::span(named).first(bias_ != nullptr ? 4 : 3), 1, made, [&](Batch& batch) {
      collect_(batch, view_of(out), *this);
    });
  }

  const Tensor* a_ = nullptr;
  const Tensor* b_ = nullptr;
  bool b_is_turned_ = false;
  const Tensor* bias_ = nullptr;
  double beta_ = 0;
  double alpha_ = 1;
  at::DimVector sizes_;
  Collect collect_ = nullptr;
};

bool is_little(std::int64_t rows, std::int64_t inner, std::int64_t columns, std::int64_t batch = 1) {
  return holds(batch * rows * inner * columns <= kMostWork && batch * rows * columns <= limits().elements.load(std::memory_order_relaxed),
               FallbackReason::size);
}
bool are_matrices(const Tensor& a, const Tensor& b) {
  return a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && is_little(a.size(0), a.size(1), b.size(1));
}
bool are_batches(const Tensor& a, const Tensor& b) {
  return a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1) &&
         is_little(a.size(1), a.size(2), b.size(2), a.size(0));
}

struct Mm {
  static Product of(const Tensor& a, const Tensor& b) {
    if (!have_one_type({&a, &b}) || !are_matrices(a, b)) return {};
    return Product({a.size(0), b.size(1)}, a, b, [](Batch& batch, const TensorView& to, const Product& p) { batch.mm(to, p.a(), p.b()); });
  }
};
struct Bmm {
  static Product of(const Tensor& a, const Tensor& b) {
    if (!have_one_type({&a, &b}) || !are_batches(a, b)) return {};
    return Product({a.size(0), a.size(1), b.size(2)}, a, b,
                   [](Batch& batch, const TensorView& to, const Product& p) { batch.bmm(to, p.a(), p.b()); });
  }
};
struct Addmm {
  static Product of(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    if (!have_one_type({&a, &b, &bias}) || !are_matrices(a, b)) return {};
    return Product({a.size(0), b.size(1)}, bias, a, b, beta, alpha, [](Batch& batch, const TensorView& to, const Product& p) {
      batch.addmm(to, p.bias(), p.a(), p.b(), p.beta(), p.alpha());
    });
  }
};
struct Baddbmm {
  static Product of(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    if (!have_one_type({&a, &b, &bias}) || !are_batches(a, b)) return {};
    return Product({a.size(0), a.size(1), b.size(2)}, bias, a, b, beta, alpha, [](Batch& batch, const TensorView& to, const Product& p) {
      batch.baddbmm(to, p.bias(), p.a(), p.b(), p.beta(), p.alpha());
    });
  }
};
struct Mv {
  static Product of(const Tensor& a, const Tensor& x) {
    if (!have_one_type({&a, &x}) || a.dim() != 2 || x.dim() != 1 || a.size(1) != x.size(0)) return {};
    return Product({a.size(0)}, a, x, [](Batch& batch, const TensorView& to, const Product& p) { batch.mv(to, p.a(), p.b()); });
  }
};
struct Dot {
  static Product of(const Tensor& x, const Tensor& y) {
    if (!have_one_type({&x, &y}) || x.dim() != 1 || y.dim() != 1 || x.size(0) != y.size(0)) return {};
    return Product({}, x, y, [](Batch& batch, const TensorView& to, const Product& p) { batch.dot(to, p.a(), p.b()); });
  }
};

// ---- Composite operations, which the dispatcher splits into others
// ---------------------------------------------------------------------------

struct Linear {
  static Product of(const Tensor& x, const Tensor& weights, const Tensor* bias) {
    if (x.dim() != 2 || weights.dim() != 2 || x.size(1) != weights.size(1)) return {};
    if (!have_one_type({&x, &weights, bias != nullptr ? bias : &x}) || !is_little(x.size(0), x.size(1), weights.size(0))) return {};
    const at::DimVector sizes{x.size(0), weights.size(0)};
    if (bias == nullptr)
      return Product(sizes, x, weights, [](Batch& batch, const TensorView& to, const Product& p) { batch.mm(to, p.a(), p.b()); }).turned();
    return Product(
               sizes, *bias, x, weights, 1, 1,
               [](Batch& batch, const TensorView& to, const Product& p) { batch.addmm(to, p.bias(), p.a(), p.b(), p.beta(), p.alpha()); })
        .turned();
  }
};
struct Matmul {
  static Product of(const Tensor& a, const Tensor& b) {
    if (a.dim() == 2 && b.dim() == 2) return Mm::of(a, b);
    if (a.dim() == 3 && b.dim() == 3) return Bmm::of(a, b);
    if (a.dim() == 2 && b.dim() == 1) return Mv::of(a, b);
    if (a.dim() == 1 && b.dim() == 1) return Dot::of(a, b);
    return {};
  }
};

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;

void dwell::pytorch::take_products(torch::Library& m) {
  take_all<Mm, aten::mm, aten::mm_out>(m);
  take_all<Bmm, aten::bmm, aten::bmm_out>(m);
  take_all<Addmm, aten::addmm, aten::addmm_, aten::addmm_out>(m);
  take_all<Baddbmm, aten::baddbmm, aten::baddbmm_, aten::baddbmm_out>(m);
  take_all<Mv, aten::mv, aten::mv_out>(m);
  take_all<Dot, aten::dot, aten::dot_out>(m);
  offer_all<Linear, aten::linear>();
  offer_all<Matmul, aten::matmul>();
}
