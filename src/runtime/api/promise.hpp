// Turns a report of the registry into the caller's future and callback.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "runtime/program/registry.hpp"

namespace dwell::runtime {

template <class Result>
struct Promised {
  std::shared_ptr<std::promise<Result>>
      promise;  // first, so that it is destroyed last: a promise that breaks before its future needs memory
  std::shared_future<Result> future;
  Registry::Report report;
};

// Returns a future, and the report that makes it ready: `fulfil` sets the value after a success. The report then calls `done`, unless it is
// empty, with the future on a thread of the registry's pool. All steps that can fail run here; the report cannot fail.
template <class Result, class Fulfil>
Promised<Result> promise_for(Registry& registry, std::function<void(const std::shared_future<Result>&)> done, Fulfil fulfil) {
  const auto promise = std::make_shared<std::promise<Result>>();
  std::shared_future<Result> future = promise->get_future().share();
  std::shared_ptr<CompilePool::Errand> callback;
  if (done) {
    callback = std::make_shared<CompilePool::Errand>();
    *callback = registry.prepare([done = std::move(done), future] { done(future); });
  }
  Registry::Report report = [&registry, promise, callback, fulfil](const Registry::DefinitionPointer& definition, const Error* failure) {
    if (failure == nullptr)
      fulfil(*promise, definition);
    else
      promise->set_exception(std::make_exception_ptr(*failure));
    if (callback != nullptr) registry.run_next(std::move(*callback));
  };
  return {promise, std::move(future), std::move(report)};
}

}  // namespace dwell::runtime
