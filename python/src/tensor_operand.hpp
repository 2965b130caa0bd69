// What operations on tensors are given: from Python objects to views of memory and to numbers.
#pragma once

#include <dwell/batch.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "buffer.hpp"

namespace dwell::python {

// A tensor and the memory that it lies in, which must live until the batch that names it is flushed.
struct HeldTensor {
  TensorView view;
  std::shared_ptr<HeldMemory> memory;
  bool readonly = false;  // only views of others' memory
};

// A bool, an int, a float, or a scalar of NumPy; nothing for anything else. Throws errc::invalid_argument, naming `name`, for ints beyond
// 64 bits.
std::optional<Number> number_from(nb::handle object, const std::string& name);

// Shapes, axes: an int or a sequence of ints. Throws errc::signature_mismatch, naming `name`, for anything else.
Dims dims_from(nb::handle object, const std::string& name);
nb::tuple tuple_of(const Dims& dims);

// A dwell.Buffer, or an array of others where it lies, of any strides; nothing for what is no array. `name` is for messages: "argument to
// of Batch.apply". Throws errc::invalid_argument for arrays that lie elsewhere or, with `written`, may not be written to, errc::unsupported
// for types that tensors cannot have.
std::optional<HeldTensor> tensor_from(const State& runtime, nb::handle object, const std::string& name, bool written);
// An array of others that the runtime reaches. Throws as above.
HeldTensor tensor_of(const State& runtime, const Foreign& array, const std::string& name);

// How many elements an array of the shape has. Throws errc::invalid_argument where that does not fit.
std::int64_t elements_of(const Dims& shape);

// Whether operations on tensors have the type.
bool has_operations(ElementType type);
// "sqrt" as an operation; throws errc::invalid_argument, with the names that there are, for others.
TensorOp operation_named(std::string_view name);

[[noreturn]] void refuse_argument(errc code, const std::string& name, const std::string& why);

}  // namespace dwell::python
