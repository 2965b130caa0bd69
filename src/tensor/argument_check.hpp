// Errors of a batch's operations for arguments that do not fit.
#pragma once

#include <cstddef>
#include <string>

#include <dwell/tensor.hpp>

namespace dwell::tensor {

// Throws errc::invalid_argument: "addmm: argument b, f32 of shape (2, 3), must have 4 rows".
[[noreturn]] void refuse(const char* function, const char* argument, const TensorView& view, const std::string& why);

// Throw it unless the argument has this many dimensions, this shape, or the type of the result.
void check_dims(const char* function, const char* argument, const TensorView& view, std::size_t dims);
void check_shape(const char* function, const char* argument, const TensorView& view, const Dims& shape);
void check_type(const char* function, const char* argument, const TensorView& view, const TensorView& to);

}  // namespace dwell::tensor
