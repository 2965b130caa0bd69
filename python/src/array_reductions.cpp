// Reductions and normalisations of arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cctype>
#include <string_view>
#include <utility>

#include "array.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

// Whether results are of floating point alone, by reduction.
constexpr bool kOfFloats[] = {
#define DWELL_OF_FLOATS(name, pytorch, numpy, gives, ...) std::string_view(#gives) == "floats",
    DWELL_REDUCTIONS(DWELL_OF_FLOATS)
#undef DWELL_OF_FLOATS
};

// As PyTorch has it, but that means and the like of integers are float32.
ElementType reduced_type(Reduction reduction, ElementType type) {
  const bool of_floats = kOfFloats[static_cast<std::size_t>(reduction)];
  return of_floats && !is_floating(type) ? ElementType::f32 : result_of(reduction, type);
}

Tensor reduced(Reduction reduction, const char* name, nb::handle x, nb::handle axis, nb::handle dtype, bool keepdims, double parameter) {
  Operands operands(name);
  operands.take_runtime(x);
  const Input from = operands.get_array(x, "x");
  const Dims shape = shape_of(from);
  const Dims axes = axis.is_none() ? Dims() : dims_from(axis, operands.name("axis"));
  const ElementType type = dtype.is_none() ? reduced_type(reduction, type_of(from)) : element_type_from(dtype);
  // No axis at all of a tuple without any: each element is all there is.
  if (!axis.is_none() && axes.size() == 0) {
    const bool spreads = reduction == Reduction::var || reduction == Reduction::stddev;
    if (!spreads && reduction != Reduction::norm) return operands.collector().cast(from, shape, type);
    return operands.collector().collected(type, shape, {from},
                                          [=](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) {
                                            const Expression its = Expression(of[0]).as(type);
                                            batch.assign(to, spreads ? ops::abs(its * 0.0) / (1 - parameter) : ops::abs(its));
                                          });
  }
  const std::int64_t elements = elements_of(shape);
  const Dims result = reduced_shape(shape, axes, keepdims);
  const bool needs_one =
      reduction == Reduction::amax || reduction == Reduction::amin || reduction == Reduction::argmax || reduction == Reduction::argmin;
  if (needs_one && elements == 0)
    refuse_argument(errc::invalid_argument, operands.name("x"), "there is no result of no elements, shape " + to_string(shape));
  if (is_floating(type_of(from)) && !is_floating(type) && (reduction == Reduction::sum || reduction == Reduction::prod))
    refuse_argument(errc::invalid_argument, operands.name("dtype"),
                    numpy_name(type) + " does not hold results of " + numpy_name(type_of(from)) + ": convert x");
  return operands.collector().collected(type, result, {from},
                                        [=](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) {
                                          batch.reduce(reduction, to, of[0], axes, parameter);
                                        });
}

void bind_reductions(nb::class_<Tensor>& type, nb::module_& m) {
  const auto add_plain = [&](const char* name, Reduction reduction, const char* doc) {
    const auto call = [reduction, name](nb::handle x, nb::handle axis, bool keepdims) {
      return reduced(reduction, name, x, axis, nb::none(), keepdims, 0);
    };
    const std::string given = "axis: int | typing.Sequence[int] | None = None, *, keepdims: bool = False) -> Array";
    m.def(name, call, "x"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false, doc,
          nb::sig(("def " + std::string(name) + "(x: Array, " + given).c_str()));
    type.def(name, call, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false, doc,
             nb::sig(("def " + std::string(name) + "(self, " + given).c_str()));
  };
  const auto add_typed = [&](const char* name, Reduction reduction, const char* doc) {
    const auto call = [reduction, name](nb::handle x, nb::handle axis, nb::handle dtype, bool keepdims) {
      return reduced(reduction, name, x, axis, dtype, keepdims, 0);
    };
    const std::string given = "axis: int | typing.Sequence[int] | None = None, *, dtype: object = None, keepdims: bool = False) -> Array";
    m.def(name, call, "x"_a, "axis"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(), "keepdims"_a = false, doc,
          nb::sig(("def " + std::string(name) + "(x: Array, " + given).c_str()));
    type.def(name, call, "axis"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(), "keepdims"_a = false, doc,
             nb::sig(("def " + std::string(name) + "(self, " + given).c_str()));
  };
  const auto add_corrected = [&](const char* name, Reduction reduction, const char* doc) {
    const auto call = [reduction, name](nb::handle x, nb::handle axis, double correction, bool keepdims) {
      return reduced(reduction, name, x, axis, nb::none(), keepdims, correction);
    };
    const std::string given =
        "axis: int | typing.Sequence[int] | None = None, *, correction: float = 0.0, keepdims: bool = False) -> Array";
    m.def(name, call, "x"_a, "axis"_a = nb::none(), nb::kw_only(), "correction"_a = 0.0, "keepdims"_a = false, doc,
          nb::sig(("def " + std::string(name) + "(x: Array, " + given).c_str()));
    type.def(name, call, "axis"_a = nb::none(), nb::kw_only(), "correction"_a = 0.0, "keepdims"_a = false, doc,
             nb::sig(("def " + std::string(name) + "(self, " + given).c_str()));
  };
  const auto add_own = [](const char*, Reduction, const char*) {};
  const auto text_of = [](std::string text) {
    text[0] = static_cast<char>(std::toupper(text[0]));
    return text + ". Along axes: all, when none is named.";
  };
#define DWELL_ADD(name, pytorch, numpy, gives, calls, text) add_##calls(#numpy, Reduction::name, text_of(text).c_str());
  DWELL_REDUCTIONS(DWELL_ADD)
#undef DWELL_ADD
  m.def(
      "vector_norm",
      [](nb::handle x, nb::handle axis, bool keepdims, double p) {
        return reduced(Reduction::norm, "vector_norm", x, axis, nb::none(), keepdims, p);
      },
      "x"_a, nb::kw_only(), "axis"_a = nb::none(), "keepdims"_a = false, "ord"_a = 2.0,
      "The sum of ``|x|**ord`` to the power of 1/ord along axes; the largest |x| for an infinite one.",
      nb::sig("def vector_norm(x: Array, *, axis: int | typing.Sequence[int] | None = None, keepdims: bool = False, ord: float = 2.0) -> "
              "Array"));
}

void bind_normalisations(nb::class_<Tensor>& type, nb::module_& m) {
  const auto add = [&](const char* name, auto member, bool floating, const char* doc) {
    const auto call = [=](nb::handle x, std::int64_t axis) {
      Operands operands(name);
      operands.take_runtime(x);
      const Input from = operands.get_array(x, "x");
      const Dims shape = shape_of(from);
      const auto dim = static_cast<std::int64_t>(dim_of(axis, shape.size(), operands.name("axis")));
      ElementType result = type_of(from);
      if (!is_floating(result)) result = floating ? ElementType::f32 : ElementType::i64;
      return operands.collector().collected(
          result, shape, {from},
          [=](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> of) { (batch.*member)(to, of[0], dim); });
    };
    m.def(name, call, "x"_a, "axis"_a = -1, doc, nb::sig(("def " + std::string(name) + "(x: Array, axis: int = -1) -> Array").c_str()));
    type.def(name, call, "axis"_a = -1, doc, nb::sig(("def " + std::string(name) + "(self, axis: int = -1) -> Array").c_str()));
  };
  add("softmax", &dwell::Batch::softmax, true, "Exponentials, divided by their sum along an axis.");
  add("log_softmax", &dwell::Batch::log_softmax, true, "The logarithm of `softmax`.");
  add("cumulative_sum", &dwell::Batch::cumsum, false, "The sum of all elements up to each along an axis; int64 of integers and bool.");
  // Weights and biases have the shape of the last dimensions, and are as wide as they are.
  const auto normalise = [](const char* name, nb::handle x, nb::handle shape, nb::handle weight, nb::handle bias, auto collect) {
    Operands operands(name);
    operands.take_runtime(x);
    const Input from = operands.get_array(x, "x");
    const Dims last = dims_from(shape, operands.name("shape"));
    const Dims of = shape_of(from);
    bool fits = last.size() > 0 && last.size() <= of.size();
    for (std::size_t i = 0; fits && i < last.size(); ++i) fits = last[i] == of[of.size() - last.size() + i];
    if (!fits)
      refuse_argument(errc::invalid_argument, operands.name("shape"),
                      to_string(last) + " is none of the last dimensions of " + to_string(of));
    const ElementType result = is_floating(type_of(from)) ? type_of(from) : ElementType::f32;
    std::vector<Input> inputs{from};
    const auto add_last = [&](nb::handle object, const char* argument) {
      if (object.is_none()) return false;
      inputs.push_back(operands.get_array(object, argument));
      if (!(shape_of(inputs.back()) == last))
        refuse_argument(errc::invalid_argument, operands.name(argument),
                        "it has the shape " + to_string(shape_of(inputs.back())) + ", and not " + to_string(last));
      return true;
    };
    const bool has_weight = add_last(weight, "weight");
    const bool has_bias = add_last(bias, "bias");
    return operands.collector().collected(result, of, std::move(inputs),
                                          [=](dwell::Batch& batch, const TensorView& to, std::span<const TensorView> given) {
                                            std::optional<TensorView> weights;
                                            std::optional<TensorView> biases;
                                            if (has_weight) weights = given[1];
                                            if (has_bias) biases = given.back();
                                            collect(batch, to, given[0], last, weights, biases);
                                          });
  };
  m.def(
      "layer_norm",
      [normalise](nb::handle x, nb::handle shape, nb::handle weight, nb::handle bias, double epsilon) {
        return normalise("layer_norm", x, shape, weight, bias,
                         [epsilon](dwell::Batch& batch, const TensorView& to, const TensorView& from, const Dims& last,
                                   const std::optional<TensorView>& weights, const std::optional<TensorView>& biases) {
                           batch.layer_norm(to, from, last, weights, biases, epsilon);
                         });
      },
      "x"_a, "shape"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "epsilon"_a = 1e-5,
      "x with mean 0 and variance 1 along its last dimensions, which have `shape`; times weights, plus biases, of that shape.",
      nb::sig("def layer_norm(x: Array, shape: int | typing.Sequence[int], weight: object = None, bias: object = None, epsilon: float = "
              "1e-05) -> Array"));
  m.def(
      "rms_norm",
      [normalise](nb::handle x, nb::handle shape, nb::handle weight, double epsilon) {
        return normalise("rms_norm", x, shape, weight, nb::none(),
                         [epsilon](dwell::Batch& batch, const TensorView& to, const TensorView& from, const Dims& last,
                                   const std::optional<TensorView>& weights,
                                   const std::optional<TensorView>&) { batch.rms_norm(to, from, last, weights, epsilon); });
      },
      "x"_a, "shape"_a, "weight"_a = nb::none(), "epsilon"_a = 1e-5, "x with a mean square of 1 along its last dimensions, times weights.",
      nb::sig("def rms_norm(x: Array, shape: int | typing.Sequence[int], weight: object = None, epsilon: float = 1e-05) -> Array"));
}

}  // namespace

void bind_array_reductions(nb::class_<Tensor>& type, nb::module_& m) {
  bind_reductions(type, m);
  bind_normalisations(type, m);
}

}  // namespace dwell::python
