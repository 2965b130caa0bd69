// Exceptions as Errors, without memory too.
#pragma once

#include <optional>

#include <dwell/error.hpp>

namespace dwell::runtime {

// A ready-made errc::out_of_memory. The first call makes it, and may throw std::bad_alloc: Core does so before all else.
const Error& no_memory();

// The exception that is being handled, as an Error: std::bad_alloc as no_memory(), exceptions other than Error as kind `otherwise` with
// their text. To be called in a handler.
Error caught(errc otherwise) noexcept;

// The exception that `call` throws, as caught() gives it; nothing when it returns.
template <class Call>
std::optional<Error> failure_of(errc otherwise, Call&& call) noexcept {
  try {
    call();
    return std::nullopt;
  } catch (...) {
    return caught(otherwise);
  }
}

// The Error that `make` returns, or no_memory() when it throws.
template <class Make>
Error error_or_no_memory(Make&& make) noexcept {
  try {
    return make();
  } catch (...) {
    return no_memory();
  }
}

}  // namespace dwell::runtime
