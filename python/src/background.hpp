// What goes on in the background, as futures of Python (dwell/_futures.py).
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <functional>
#include <future>
#include <stop_token>
#include <utility>

#include "errors.hpp"
#include "state.hpp"

namespace dwell::python {

// A stop that may be asked for.
struct Stop {
  std::stop_source source;
};

inline nb::module_ futures() { return nb::module_::import_("dwell._futures"); }

// Calls done(result, exception) with the GIL, on a thread of the runtime.
template <class Result, class Make>
std::function<void(const std::shared_future<Result>&)> reporting(nb::object done, Make make) {
  return [held = Shared(std::move(done)), make](const std::shared_future<Result>& future) {
    const CallbackScope scope;
    if (!scope.entered() || held.get() == nullptr) return;
    try {
      nb::object result = nb::none();
      nb::object error = nb::none();
      try {
        result = make(future);
      } catch (...) {
        error = exception_for(std::current_exception());
      }
      nb::borrow(held.get())(result, error);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(nb::borrow(held.get()));
    }
  };
}

}  // namespace dwell::python
