// From a report of the registry to the future and the callback of whoever asked.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "runtime/code/registry.hpp"

namespace dwell::runtime {

// A future, and the report that makes it ready: `fulfil` sets the value of a success. Then `done`, unless it is empty, is called with the
// future on a thread of the registry's pool.
template <class Result, class Fulfil>
std::pair<std::shared_future<Result>, Registry::Report> promise_for(Registry& registry,
                                                                    std::function<void(const std::shared_future<Result>&)> done,
                                                                    Fulfil fulfil) {
  const auto promise = std::make_shared<std::promise<Result>>();
  std::shared_future<Result> future = promise->get_future().share();
  Registry::Report report = [&registry, promise, future, done = std::move(done), fulfil](const Registry::DefinitionPointer& definition,
                                                                                         const Error* failure) {
    if (failure == nullptr)
      fulfil(*promise, definition);
    else
      promise->set_exception(std::make_exception_ptr(*failure));
    if (done) registry.run_soon([done, future] { done(future); });
  };
  return {std::move(future), std::move(report)};
}

}  // namespace dwell::runtime
