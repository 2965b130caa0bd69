// Converts exceptions to Errors, also when memory is short.
#pragma once

#include <optional>

#include <dwell/error.hpp>

namespace dwell::runtime {

// Returns a preallocated errc::out_of_memory. The first call creates it and may throw std::bad_alloc: Core calls it first.
const Error& no_memory();

// Converts the current exception to an Error: std::bad_alloc to no_memory(), exceptions other than Error to kind `otherwise` with their
// text. Called in a handler only.
Error caught(errc otherwise) noexcept;

// Returns the exception of `call`, converted by caught(); nothing when it returns.
template <class Call>
std::optional<Error> failure_of(errc otherwise, Call&& call) noexcept {
  try {
    call();
    return std::nullopt;
  } catch (...) {
    return caught(otherwise);
  }
}

// Returns the Error that `make` returns, or no_memory() when it throws.
template <class Make>
Error error_or_no_memory(Make&& make) noexcept {
  try {
    return make();
  } catch (...) {
    return no_memory();
  }
}

}  // namespace dwell::runtime
