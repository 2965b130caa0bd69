// Work in the background, as Python futures (dwell/_futures.py).
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <stop_token>
#include <utility>

#include "errors.hpp"
#include "state.hpp"

namespace dwell::python {

// A stop that may be asked for, of a definition in the background.
struct Stop {
  std::stop_source source;
  std::function<bool()> is_over;  // whether the definition has ended as one that was called off

  // Calls the definition off. False when its version has been handed over, or is being.
  bool request() {
    const Unlocked unlocked;
    source.request_stop();
    return is_over && is_over();
  }
};

// For Stop::is_over: one that is called off has ended when request_stop returns.
template <class Result>
std::function<bool()> called_off(std::shared_future<Result> future) {
  return [future = std::move(future)] {
    if (future.wait_for(std::chrono::nanoseconds(0)) != std::future_status::ready) return false;
    try {
      future.get();
    } catch (const Error& error) {
      return error.kind() == errc::cancelled;
    }
    return false;
  };
}

inline nb::module_ futures() { return nb::module_::import_("dwell._futures"); }

// Calls done(result, exception) with the GIL, on a thread of the runtime.
template <class Result, class Make>
std::function<void(const std::shared_future<Result>&)> reporting(nb::object done, Make make) {
  return [held = Shared(std::move(done)), make = std::move(make)](const std::shared_future<Result>& future) {
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
