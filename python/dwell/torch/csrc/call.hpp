// A call of an elementwise operation: decides whether it is taken, allocates its result, and adds it to the batch.
#pragma once

#include <ATen/core/Tensor.h>

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

// Common types for which an operation is taken. Types that PyTorch refuses are left out: PyTorch raises the error.
enum class Types : std::uint8_t {
  all,
  numbers,    // not bool
  integers,   // and bool
  whole,      // integers, not bool
  floats,     //
  to_floats,  // others become the default type
};
// The type of the result.
enum class ResultType : std::uint8_t {
  common,     // the common type of the inputs; left to PyTorch if another is to be written
  converted,  // the same, converted to the type of where it is written
  boolean,    // bool, converted to the type of where it is written
  target,     // the type of where it is written, to which all inputs are converted
};
// The device on which PyTorch rounds numbers beside 16-bit tensors to their type before it computes in f32. Comparisons, remainders and
// powers round on both.
enum class RoundsNumbers : std::uint8_t { never, on_cpu, on_cuda };

class Call {
 public:
  // Computes the result; inputs are of the type in which PyTorch computes.
  using Formula = Expression (*)(std::span<const Expression> inputs);
  static constexpr std::size_t kMost = 5;

  // A declined call, which PyTorch runs.
  Call() = default;
  Call(std::nullopt_t) {}  // NOLINT(google-explicit-constructor)
  template <class... Inputs>
  Call(TensorOp op, Types types, ResultType gives, const Inputs&... inputs)
      : op_(op), types_(types), result_type_(gives), count_(sizeof...(inputs)), inputs_{Input(inputs)...} {}
  template <class... Inputs>
  Call(Formula formula, Types types, ResultType gives, const Inputs&... inputs)
      : formula_(formula), types_(types), result_type_(gives), count_(sizeof...(inputs)), inputs_{Input(inputs)...} {}

  template <class... Inputs>
  Call(Formula formula, Types types, ResultType gives, RoundsNumbers rounds, const Inputs&... inputs)
      : formula_(formula), types_(types), result_type_(gives), rounds_(rounds), count_(sizeof...(inputs)), inputs_{Input(inputs)...} {}

  // The same, computed in f32 and then converted.
  Call in_floats() const {
    Call other = *this;
    other.in_floats_ = true;
    return other;
  }

  // Collects the call with a new tensor as its result. Returns an undefined tensor if it cannot.
  at::Tensor make() const;
  // Collects the call with the result in `out`. Returns false if it cannot.
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
  ResultType result_type_ = ResultType::common;
  RoundsNumbers rounds_ = RoundsNumbers::never;
  bool in_floats_ = false;
  std::size_t count_ = 0;
  std::array<Input, kMost> inputs_;
};

// Returns whether the type holds the number, up to rounding. Others are left to PyTorch, which refuses them or wraps them around.
bool has(at::ScalarType type, const std::optional<Number>& number);
// Allocates a contiguous tensor on the device of `beside`.
at::Tensor empty_on(const at::Tensor& beside, at::IntArrayRef sizes, at::ScalarType type);
// Returns whether operations on this tensor are taken.
bool is_small(const at::Tensor& tensor);
// Returns whether `out` may be written while `x` is read: they are the same elements, or share none.
bool may_write(const at::Tensor& out, const at::Tensor& x);
// Returns whether a result of these sizes and this type may be written to `out` without a conversion or a resize. `beside`: an input.
bool fits(const at::Tensor& out, const at::Tensor& beside, at::IntArrayRef sizes, at::ScalarType type);
// Returns whether `out` and `x` share no memory.
bool is_clear_of(const at::Tensor& out, const at::Tensor& x);
// Returns whether results may be written to `out`: its elements share no memory, and it is no lazy (copy-on-write) copy.
bool may_hold_results(const at::Tensor& out);

}  // namespace dwell::pytorch
