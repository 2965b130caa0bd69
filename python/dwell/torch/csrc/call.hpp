// A call of an operation that works element by element: whether it is taken, what its result is, and how the batch gets it.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <dwell/expression.hpp>
#include <dwell/operand.hpp>

namespace dwell::pytorch {

// A number of PyTorch's. Nothing for one that dwell does not compute with: complex, symbolic, or of 64 bits without a sign.
std::optional<Number> number_from(const at::Scalar& given);

// An operand as PyTorch passes it: a tensor or a number. A wrapped number of PyTorch's is a number. dwell::Operand of it is made when the
// batch gets the operation.
struct Input {
  Input() = default;
  Input(const at::Tensor& given);                                 // NOLINT(google-explicit-constructor)
  Input(const at::Scalar& given) : number(number_from(given)) {}  // NOLINT(google-explicit-constructor)

  const at::Tensor* tensor = nullptr;  // null: a number
  std::optional<Number> number;        // as number_from
};

// The common types for which an operation is taken. PyTorch's own errors come from PyTorch, so this leaves out what it refuses.
enum class Types : std::uint8_t {
  all,
  numbers,    // not bool
  integers,   // and bool
  whole,      // integers, not bool
  floats,     //
  to_floats,  // others become the default type
};
// The type of the result.
enum class Gives : std::uint8_t {
  common,     // the common type of the inputs; PyTorch converts it or refuses where another is to be written
  converted,  // the same, converted to the type of where it is written
  boolean,    // converted to that, too
  target,     // that of where it is written, to which everything is converted
};
// On which device PyTorch rounds numbers beside tensors of 16 bits to that type, before it computes with 32. Comparisons, remainders and
// powers always do.
enum class RoundsNumbers : std::uint8_t { never, on_cpu, on_cuda };

class Call {
 public:
  // Computes the result; inputs are of the type in which PyTorch computes.
  using Formula = Expression (*)(std::span<const Expression> inputs);
  static constexpr std::size_t kMost = 5;

  // PyTorch is to do it.
  Call() = default;
  Call(std::nullopt_t) {}  // NOLINT(google-explicit-constructor)
  template <class... Inputs>
  Call(TensorOp op, Types types, Gives gives, const Inputs&... inputs)
      : op_(op), types_(types), gives_(gives), count_(sizeof...(inputs)), inputs_{Input(inputs)...} {}
  template <class... Inputs>
  Call(Formula formula, Types types, Gives gives, const Inputs&... inputs)
      : formula_(formula), types_(types), gives_(gives), count_(sizeof...(inputs)), inputs_{Input(inputs)...} {}

  template <class... Inputs>
  Call(Formula formula, Types types, Gives gives, RoundsNumbers rounds, const Inputs&... inputs)
      : formula_(formula), types_(types), gives_(gives), rounds_(rounds), count_(sizeof...(inputs)), inputs_{Input(inputs)...} {}

  // The same by a formula that is computed in f32, of which the result is converted.
  Call in_floats() const {
    Call other = *this;
    other.in_floats_ = true;
    return other;
  }

  // Takes it, with a result of its own, which is undefined if it cannot.
  at::Tensor make() const;
  // The same with the result there; false if it cannot.
  bool write(const at::Tensor& out) const;

 private:
  std::span<const Input> inputs() const { return std::span(inputs_).first(count_); }
  bool is_condition(std::size_t input) const { return formula_ == nullptr && op_ == TensorOp::where && input == 2; }
  bool broadcasts_numbers() const;
  bool rounds_inputs_late(at::ScalarType common) const;
  bool rounds_numbers(at::ScalarType computed, const c10::Device& device) const;
  std::optional<at::ScalarType> common_type(const at::Tensor& first) const;
  bool converts(at::ScalarType computed, at::ScalarType written) const;
  bool broadcasts_to(at::IntArrayRef wanted) const;
  // `made`: the result's memory was allocated for it.
  void collect(const at::Tensor& out, at::ScalarType computed, bool made) const;

  TensorOp op_ = TensorOp::add;
  Formula formula_ = nullptr;
  Types types_ = Types::all;
  Gives gives_ = Gives::common;
  RoundsNumbers rounds_ = RoundsNumbers::never;
  bool in_floats_ = false;
  std::size_t count_ = 0;
  std::array<Input, kMost> inputs_;
};

// Whether a type has the number, up to rounding: what PyTorch refuses, or wraps around in ways of the kernel's, is left to it.
bool has(at::ScalarType type, const std::optional<Number>& number);
// Memory for a result on a device, of elements behind each other.
at::Tensor empty_on(const at::Tensor& beside, at::IntArrayRef sizes, at::ScalarType type);
// Whether operations on this tensor are taken.
bool is_small(const at::Tensor& tensor);
// Whether results may be written there while `x` is read: not where PyTorch complains.
bool may_write(const at::Tensor& out, const at::Tensor& x);
// Whether a result of these sizes and this type may be written there, and nothing has to be converted or made larger; `beside`: what it is
// computed from.
bool fits(const at::Tensor& out, const at::Tensor& beside, at::IntArrayRef sizes, at::ScalarType type);
// Whether nothing of `x` lies where `out` is.
bool is_clear_of(const at::Tensor& out, const at::Tensor& x);
// Whether results of operations may be written there: no two elements share memory, and nobody else reads it as a lazy copy.
bool may_hold_results(const at::Tensor& out);

}  // namespace dwell::pytorch
