// Operations on the elements of arrays: operators, and functions with the array API's names.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "array.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

// As the array API calls an operation.
const char* api_name(TensorOp op) {
  switch (op) {
#define DWELL_CASE(name, operands, numpy, ...) \
  case TensorOp::name: return #numpy;
    DWELL_TENSOR_OPS(DWELL_CASE)
#undef DWELL_CASE
  }
  return "";
}

// The result of an operation with a dwell.Array among its operands; nothing when one of them is neither array nor number.
std::optional<Tensor> computed(TensorOp op, const char* name, std::span<const nb::handle> objects) {
  constexpr std::array kArguments = {"x1", "x2", "x3"};
  Operands operands(name);
  for (const nb::handle object : objects)
    if (operands.take_runtime(object)) break;
  Collector& collector = operands.collector();
  std::array<Input, 3> inputs;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    auto input = operands.find(objects[i], objects.size() == 1 ? "x" : kArguments.at(i));
    if (!input) return std::nullopt;
    inputs.at(i) = *std::move(input);
  }
  return collector.operation(op, name, std::span(inputs).first(objects.size()));
}

Tensor computed_or_refused(TensorOp op, const char* name, std::span<const nb::handle> objects) {
  if (auto result = computed(op, name, objects)) return *std::move(result);
  for (const nb::handle object : objects) {
    Operands operands(name);
    for (const nb::handle one : objects)
      if (operands.take_runtime(one)) break;
    static_cast<void>(operands.get(object, "x"));  // it is the one that names itself
  }
  throw Error(errc::signature_mismatch, std::string(name) + ": an operand is no array");
}

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

template <class Class>
void bind_operator(Class& type, const char* name, TensorOp op) {
  const char* const text = api_name(op);
  const std::string forward = std::string("__") + name + "__";
  type.def(
      forward.c_str(),
      [op, text](nb::handle self, nb::handle other) {
        auto result = computed(op, text, std::array{self, other});
        return result ? nb::cast(*std::move(result)) : not_implemented();
      },
      "other"_a, nb::sig((std::string("def ") + forward + "(self, other: object, /) -> Array").c_str()));
}

template <class Class>
void bind_arithmetic(Class& type, const char* name, TensorOp op) {
  bind_operator(type, name, op);
  const char* const text = api_name(op);
  const std::string reflected = std::string("__r") + name + "__";
  type.def(
      reflected.c_str(),
      [op, text](nb::handle self, nb::handle other) {
        auto result = computed(op, text, std::array{other, self});
        return result ? nb::cast(*std::move(result)) : not_implemented();
      },
      "other"_a, nb::sig((std::string("def ") + reflected + "(self, other: object, /) -> Array").c_str()));
  const std::string in_place = std::string("__i") + name + "__";
  type.def(
      in_place.c_str(),
      [op, text](nb::handle self, nb::handle other) -> nb::object {
        Operands operands(text);
        operands.take_runtime(self);
        const auto input = operands.find(other, "x2");
        if (!input) return not_implemented();
        operands.collector().update(nb::cast<Tensor&>(self), op, text, *input);
        return nb::borrow(self);
      },
      "other"_a, nb::sig((std::string("def ") + in_place + "(self, other: object, /) -> Array").c_str()));
}

template <class Class>
void bind_operators(Class& type) {
  bind_arithmetic(type, "add", TensorOp::add);
  bind_arithmetic(type, "sub", TensorOp::sub);
  bind_arithmetic(type, "mul", TensorOp::mul);
  bind_arithmetic(type, "truediv", TensorOp::div);
  bind_arithmetic(type, "floordiv", TensorOp::floor_divide);
  bind_arithmetic(type, "mod", TensorOp::remainder);
  bind_arithmetic(type, "pow", TensorOp::pow);
  bind_arithmetic(type, "and", TensorOp::bitwise_and);
  bind_arithmetic(type, "or", TensorOp::bitwise_or);
  bind_arithmetic(type, "xor", TensorOp::bitwise_xor);
  bind_arithmetic(type, "lshift", TensorOp::left_shift);
  bind_arithmetic(type, "rshift", TensorOp::right_shift);
  bind_operator(type, "eq", TensorOp::eq);
  bind_operator(type, "ne", TensorOp::ne);
  bind_operator(type, "lt", TensorOp::lt);
  bind_operator(type, "le", TensorOp::le);
  bind_operator(type, "gt", TensorOp::gt);
  bind_operator(type, "ge", TensorOp::ge);
  const auto unary = [&](const char* name, TensorOp op) {
    type.def(name, [op, text = api_name(op)](nb::handle self) { return *computed(op, text, std::array{self}); });
  };
  unary("__neg__", TensorOp::neg);
  unary("__abs__", TensorOp::abs);
  unary("__invert__", TensorOp::bitwise_not);
  type.attr("__hash__") = nb::none();
}

}  // namespace

void bind_array_elements(nb::class_<Tensor>& type, nb::module_& m) {
  bind_operators(type);
  const auto bind = [&](TensorOp op, const char* cpp, int operands) {
    const char* const name = api_name(op);
    const std::string doc = std::string("``") + cpp + "`` of each element, as PyTorch has it.";
    if (operands == 1) {
      const auto call = [op, name](nb::handle x) { return computed_or_refused(op, name, std::array{x}); };
      m.def(name, call, "x"_a, doc.c_str());
      type.def(name, call, doc.c_str());
    } else if (operands == 2 && op != TensorOp::leaky_relu) {
      m.def(
          name,
          [op, name](nb::handle x1, nb::handle x2) {
            return computed_or_refused(op, name, std::array{x1, x2});
          },
          "x1"_a, "x2"_a, doc.c_str());
    }
  };
#define DWELL_BOUND(name, operands, ...) bind(TensorOp::name, #name, operands);
  DWELL_TENSOR_OPS(DWELL_BOUND)
#undef DWELL_BOUND
  const auto with_three = [&](const char* name, TensorOp op) {
    m.def(
        name,
        [op, name](nb::handle x, nb::handle y, nb::handle z) {
          return computed_or_refused(op, name, std::array{x, y, z});
        },
        "x"_a, "y"_a, "z"_a, (std::string("``") + name + "`` of each element, as PyTorch has it.").c_str());
  };
  with_three("clamp", TensorOp::clamp);
  with_three("threshold", TensorOp::threshold);
  with_three("lerp", TensorOp::lerp);
  m.def(
      "leaky_relu",
      [](nb::handle x, double negative_slope) {
        const nb::float_ slope(negative_slope);
        return computed_or_refused(TensorOp::leaky_relu, "leaky_relu", std::array<nb::handle, 2>{x, slope});
      },
      "x"_a, "negative_slope"_a = 0.01, "x where it is above 0, else the slope times x.");
  m.def(
      "elu",
      [](nb::handle x, double alpha) {
        const nb::float_ factor(alpha);
        const nb::float_ one(1.0);
        return computed_or_refused(TensorOp::elu, "elu", std::array<nb::handle, 3>{x, factor, one});
      },
      "x"_a, "alpha"_a = 1.0, "x where it is above 0, else ``alpha * (exp(x) - 1)``.");
  m.def(
      "softplus",
      [](nb::handle x, double beta, double threshold) {
        const nb::float_ factor(beta);
        const nb::float_ limit(threshold);
        return computed_or_refused(TensorOp::softplus, "softplus", std::array<nb::handle, 3>{x, factor, limit});
      },
      "x"_a, "beta"_a = 1.0, "threshold"_a = 20.0, "``log(1 + exp(beta * x)) / beta``; x where ``beta * x`` is above the threshold.");
  m.def(
      "where",
      [](nb::handle condition, nb::handle x1, nb::handle x2) {
        return computed_or_refused(TensorOp::where, "where", std::array{x1, x2, condition});
      },
      "condition"_a, "x1"_a, "x2"_a, "x1 where the condition, of bool, is true, else x2.");
  const auto as = [](nb::handle x, nb::handle dtype) {
    Operands operands("astype");
    operands.take_runtime(x);
    const Input input = operands.get_array(x, "x");
    const ElementType wanted = element_type_from(dtype);
    if (!has_operations(wanted)) refuse_argument(errc::unsupported, operands.name("dtype"), "arrays cannot hold " + numpy_name(wanted));
    return operands.collector().cast(input, shape_of(input), wanted);
  };
  m.def("astype", as, "x"_a, "dtype"_a, "A copy with elements of another type.");
  type.def("astype", as, "dtype"_a, "A copy with elements of another type.");
}

}  // namespace dwell::python
