// Formats one value by a run-time format: std::format, or {fmt} if the standard library lacks it.
#pragma once

#include <string>
#include <version>

#ifdef __cpp_lib_format
#include <format>
#else
#include <fmt/format.h>
#endif

namespace dwell::runtime {

// `placeholder` is "{}" or "{:...}". Throws an exception if it does not fit the value.
template <class T>
void append_formatted(std::string& to, const std::string& placeholder, const T& value) {
#ifdef __cpp_lib_format
  std::vformat_to(std::back_inserter(to), placeholder, std::make_format_args(value));
#else
  fmt::vformat_to(std::back_inserter(to), placeholder, fmt::make_format_args(value));
#endif
}

}  // namespace dwell::runtime
