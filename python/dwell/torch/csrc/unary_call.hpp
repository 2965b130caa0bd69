// A call of an operation on one tensor that is an operation of dwell::Batch: reductions, softmax, cumsum, triangles.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <dwell/batch.hpp>
#include <dwell/reduction.hpp>

#include "call.hpp"
#include "collector.hpp"
#include "fallback_reason.hpp"

namespace dwell::pytorch {

class UnaryCall {
 public:
  // Parameters of the operation besides tensors.
  struct Parameters {
    Reduction reduction = Reduction::sum;
    Dims dims;
    std::int64_t number = 0;  // a dimension or a diagonal
    double real = 0;
  };
  using Collect = void (*)(Batch& batch, const TensorView& to, const TensorView& x, const Parameters& with);
  // Whether the result may be written to the tensor itself.
  enum class InPlace : bool { no, yes };

  // A declined call, which PyTorch runs.
  UnaryCall() = default;
  UnaryCall(std::nullopt_t) {}  // NOLINT(google-explicit-constructor)
  UnaryCall(const at::Tensor& x, at::IntArrayRef sizes, at::ScalarType type, const Parameters& with, Collect collect,
            InPlace in_place = InPlace::no)
      : x_(&x), sizes_(sizes), type_(type), with_(with), collect_(collect), in_place_(in_place) {}

  // Collects the call with a new tensor as its result. Returns an undefined tensor if it cannot.
  at::Tensor make() const {
    if (x_ == nullptr) return {};
    const at::Tensor out = empty_on(*x_, sizes_, type_);
    collect(out, 1);
    return out;
  }
  // Collects the call with the result in `out`. Returns false if it cannot.
  bool write(const at::Tensor& out) const {
    if (x_ == nullptr || !fits(out, *x_, sizes_, type_)) return false;
    if (in_place_ == InPlace::yes ? !holds(may_write(out, *x_), FallbackReason::layout) : !is_clear_of(out, *x_)) return false;
    collect(out, 0);
    return true;
  }

 private:
  void collect(const at::Tensor& out, std::size_t made) const {
    const std::array<const at::Tensor*, 2> named{&out, x_};
    Collector::of(out.device()).take(named, 1, made, [&](Batch& batch) { collect_(batch, view_of(out), view_of(*x_), with_); });
  }

  const at::Tensor* x_ = nullptr;
  at::DimVector sizes_;
  at::ScalarType type_ = at::kFloat;
  Parameters with_;
  Collect collect_ = nullptr;
  InPlace in_place_ = InPlace::no;
};

}  // namespace dwell::pytorch
