// dwell.Array: what its operations share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector.hpp"

namespace dwell::python {

// An object that is a dwell.Array; null for any other. Throws errc::closed in a forked child.
const Tensor* array_in(nb::handle object);
// That of an argument. Throws errc::signature_mismatch, naming `name`, for what is no dwell.Array.
const Tensor& array_from(nb::handle object, const std::string& name);

// The operands of one operation, of one runtime: arrays, numbers, and arrays of others. An array of NumPy is copied: it may change before
// it is read.
class Operands {
 public:
  // With the first array among them that is a dwell.Array: null when none is.
  explicit Operands(const char* function) : function_(function) {}

  // The first dwell.Array says which runtime it is.
  bool see(nb::handle object);
  Collector& collector() const;
  // Nothing for what is neither an array nor a number.
  std::optional<Input> find(nb::handle object, const char* argument);
  // Throws errc::signature_mismatch instead.
  Input get(nb::handle object, const char* argument);
  // An array, of the type; cast lazily where it has another.
  Input get_array(nb::handle object, const char* argument, std::optional<ElementType> type = {});

  std::string name(const char* argument) const { return std::string("argument ") + argument + " of dwell." + function_; }

 private:
  const char* function_;
  std::shared_ptr<Collector> collector_;
};

Input input_of(const Tensor& tensor);
// The type and shape of an operand.
ElementType type_of(const Input& input);
Dims shape_of(const Input& input);

bool is_floating(ElementType type);

// A dimension by its index, which may be negative. Throws errc::invalid_argument.
std::size_t dim_of(std::int64_t index, std::size_t dims, const std::string& name);

// The parts of the binding.
void bind_array_views(nb::class_<Tensor>& type, nb::module_& module);
void bind_array_elements(nb::class_<Tensor>& type, nb::module_& module);
void bind_array_reductions(nb::class_<Tensor>& type, nb::module_& module);
void bind_array_functions(nb::class_<Tensor>& type, nb::module_& module);
void bind_array_makers(nb::module_& module);

}  // namespace dwell::python
