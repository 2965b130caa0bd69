// A result that follows from one tensor, as the batch has an operation for it.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <dwell/batch.hpp>
#include <dwell/reduction.hpp>

#include "call.hpp"
#include "collector.hpp"
#include "why.hpp"

namespace dwell::pytorch {

class FromOne {
 public:
  // What the operation has besides the tensors.
  struct Parameters {
    Reduction reduction = Reduction::sum;
    Dims dims;
    std::int64_t number = 0;  // a dimension or a diagonal
    double real = 0;
  };
  using Collect = void (*)(Batch& batch, const TensorView& to, const TensorView& x, const Parameters& with);
  // Whether the result may be written where the tensor is, in its place.
  enum class InPlace : bool { no, yes };

  // PyTorch is to do it.
  FromOne() = default;
  FromOne(std::nullopt_t) {}  // NOLINT(google-explicit-constructor)
  FromOne(const at::Tensor& x, at::IntArrayRef sizes, at::ScalarType type, const Parameters& with, Collect collect,
          InPlace in_place = InPlace::no)
      : x_(&x), sizes_(sizes), type_(type), with_(with), collect_(collect), in_place_(in_place) {}

  // Takes it, with a result of its own, which is undefined if it cannot.
  at::Tensor make() const {
    if (x_ == nullptr) return {};
    const at::Tensor out = empty_on(*x_, sizes_, type_);
    collect(out);
    return out;
  }
  // The same with the result there; false if it cannot.
  bool write(const at::Tensor& out) const {
    if (x_ == nullptr || !fits(out, *x_, sizes_, type_)) return false;
    if (in_place_ == InPlace::yes ? !holds(may_write(out, *x_), Why::layout) : !is_clear_of(out, *x_)) return false;
    collect(out);
    return true;
  }

 private:
  void collect(const at::Tensor& out) const {
    const std::array<const at::Tensor*, 2> named{&out, x_};
    Collector::of(out.device()).take(named, 1, false, [&](Batch& batch) { collect_(batch, view_of(out), view_of(*x_), with_); });
  }

  const at::Tensor* x_ = nullptr;
  at::DimVector sizes_;
  at::ScalarType type_ = at::kFloat;
  Parameters with_;
  Collect collect_ = nullptr;
  InPlace in_place_ = InPlace::no;
};

}  // namespace dwell::pytorch
