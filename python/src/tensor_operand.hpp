// From Python objects to operands: views of memory, and numbers.
#pragma once

#include <dwell/batch.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "buffer.hpp"

namespace dwell::python {

// A tensor and its memory, which must live until the batch that names it is flushed.
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

// A view of a dwell.Buffer, or of an array of another library, of any strides, without a copy. Nothing for an object that is no array.
// `name` is for messages: "argument to of Batch.apply". Throws errc::invalid_argument for arrays out of the runtime's reach and, with
// `written`, for read-only ones; errc::unsupported for types that tensors cannot have.
std::optional<HeldTensor> tensor_from(const State& runtime, nb::handle object, const std::string& name, bool written);
// A view of an array of another library. Throws as tensor_from.
HeldTensor tensor_of(const State& runtime, const Foreign& array, const std::string& name);

// Number of elements of a shape. Throws errc::invalid_argument if it does not fit into 64 bits.
std::int64_t elements_of(const Dims& shape);

// Returns whether operations on tensors have the type.
bool has_operations(ElementType type);
// Returns the operation of a name, such as "sqrt". Throws errc::invalid_argument, with all names, for others.
TensorOp operation_named(std::string_view name);

[[noreturn]] void refuse_argument(errc code, const std::string& name, const std::string& why);

}  // namespace dwell::python
