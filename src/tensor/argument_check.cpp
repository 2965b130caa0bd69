#include "tensor/argument_check.hpp"

#include <dwell/element_type.hpp>
#include <dwell/error.hpp>

namespace dwell::tensor {

void refuse(const char* function, const char* argument, const TensorView& view, const std::string& why) {
  throw Error(errc::invalid_argument,
              std::string(function) + ": argument " + argument + ", " + std::string(name_of(view.type())) + " of shape " +
                  to_string(view.shape()) + ", " + why,
              {"argument", argument});
}

void check_dims(const char* function, const char* argument, const TensorView& view, std::size_t dims) {
  if (view.dims() != dims)
    refuse(function, argument, view, "must have " + std::to_string(dims) + (dims == 1 ? " dimension" : " dimensions"));
}
void check_shape(const char* function, const char* argument, const TensorView& view, const Dims& shape) {
  if (!(view.shape() == shape)) refuse(function, argument, view, "must have the shape " + to_string(shape));
}
void check_type(const char* function, const char* argument, const TensorView& view, const TensorView& to) {
  if (view.type() != to.type()) refuse(function, argument, view, "must hold " + std::string(name_of(to.type())) + " as the result does");
}

}  // namespace dwell::tensor
