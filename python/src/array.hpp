// dwell.Array: helpers that its operations share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector.hpp"

namespace dwell::python {

// Returns the dwell.Array that an object is; null for any other object. Throws errc::closed in a forked child.
const Tensor* array_in(nb::handle object);
// Returns the dwell.Array of an argument. Throws errc::signature_mismatch, naming `name`, for any other object.
const Tensor& array_from(nb::handle object, const std::string& name);

// The operands of one operation, of one runtime: arrays, numbers, and arrays of other libraries. Copies NumPy arrays, which may change
// before they are read.
class Operands {
 public:
  explicit Operands(const char* function) : function_(function) {}

  // Takes the runtime of the first dwell.Array that it is called with. Returns whether there has been one. Call it before `find` and `get`.
  bool take_runtime(nb::handle object);
  Collector& collector() const;
  // Returns nothing for an object that is neither an array nor a number.
  std::optional<Input> find(nb::handle object, const char* argument);
  // As find, but throws errc::signature_mismatch.
  Input get(nb::handle object, const char* argument);
  // As get, of arrays alone. Casts one of another type lazily.
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
