// Element types by the names that NumPy's files have for them, and the spans that arrays of them may stand for.
#pragma once

#include <optional>
#include <string_view>

#include <dwell/element_type.hpp>

namespace dwell::tool {

// "<f4", "|u1": always little-endian. bfloat16 is "<V2", which is what NumPy stores for the type that ml_dtypes adds to it; NumPy loads it
// as "|V2", two bytes of anything, until it is told x.view(ml_dtypes.bfloat16).
std::string_view numpy_name_of(ElementType type);
// Empty for names that mean none of the types.
std::optional<ElementType> element_type_of_numpy(std::string_view descr);

// Whether an array of `type` can stand for a span with elements as `parameter` declares them. Of types that C++20 does not have, operators
// may see the elements as a type of their own (CUDA's __half, float2): any struct of as many bytes, or, of two bytes, dwell::u16.
bool fits(ElementType type, const Parameter& parameter);

}  // namespace dwell::tool
