// Element types by their names in NumPy's files, and the spans that their arrays may be passed as.
#pragma once

#include <optional>
#include <string_view>

#include <dwell/element_type.hpp>

namespace dwell::tool {

// Returns "<f4", "|u1": always little-endian. bfloat16 is "<V2", as NumPy stores the type of ml_dtypes. NumPy loads it as "|V2", two raw
// bytes, until x.view(ml_dtypes.bfloat16).
std::string_view numpy_name_of(ElementType type);
// Returns nothing for unknown names.
std::optional<ElementType> element_type_of_numpy(std::string_view descr);

// Whether an array of `type` can be passed as a span with the elements of `parameter`. For types that C++20 lacks, operators may use their
// own element type (CUDA's __half, float2): any struct of this size, or dwell::u16 for two bytes.
bool fits(ElementType type, const Parameter& parameter);

}  // namespace dwell::tool
