#include "host_numbers.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "collector.hpp"
#include "fast_path.hpp"

namespace dwell::pytorch {

namespace {

bool is_at_hand(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.numel() != 1 || Recording::mine() != nullptr) return false;
  Collector* const collector = Collector::any_pending() ? Collector::known(tensor.device()) : nullptr;
  return collector == nullptr || !collector->names(&storage_of(tensor));
}

template <class T>
T number_as(const Argument& number) {
  return number.kind == ArgumentKind::real ? static_cast<T>(number.real) : static_cast<T>(number.integers[0]);
}

// add_ of a number, with an alpha of 1.
bool add_number(const Argument* const* given, at::Tensor&) {
  const at::Tensor& to = *given[0]->tensor;
  const Argument& other = *given[1];
  const Argument& alpha = *given[2];
  if (alpha.kind != ArgumentKind::integer || alpha.integers[0] != 1 || !is_at_hand(to)) return false;
  switch (to.scalar_type()) {
    case at::kFloat: *to.mutable_data_ptr<float>() += number_as<float>(other); return true;
    case at::kDouble: *to.mutable_data_ptr<double>() += number_as<double>(other); return true;
    case at::kLong: {
      if (other.kind == ArgumentKind::real) return false;
      auto& number = *to.mutable_data_ptr<std::int64_t>();
      number = static_cast<std::int64_t>(static_cast<std::uint64_t>(number) + static_cast<std::uint64_t>(other.integers[0]));
      return true;
    }
    default: return false;
  }
}

bool look_at_number(const Argument* const* given, at::Tensor& result) {
  const at::Tensor& at = *given[0]->tensor;
  const at::ScalarType type = at.scalar_type();
  if ((type != at::kFloat && type != at::kDouble && type != at::kLong) || !is_at_hand(at)) return false;
  result = at;
  return true;
}

constexpr ArgumentKinds kTensors = ArgumentKind::tensor | ArgumentKind::host_tensor;

}  // namespace

void offer_host_numbers() {
  offer({.name = "aten::add_",
         .overload = "Scalar",
         .result_in = ResultIn::first_argument,
         .parameters = 3,
         .fits = {kTensors, kNumbers, kNumbers},
         .attempt = &add_number,
         .at_once = true});
  offer({.name = "aten::item",
         .result_in = ResultIn::number,
         .parameters = 1,
         .fits = {kTensors},
         .attempt = &look_at_number,
         .at_once = true});
}

}  // namespace dwell::pytorch
