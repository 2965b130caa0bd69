// Checks that a runtime is open.
#pragma once

#include <dwell/error.hpp>

#include "runtime/device/keeper.hpp"
#include "runtime/generation/shell.hpp"

namespace dwell::runtime {

// Refers to the keeper and the shell, which outlive it. Members may be called from any thread.
class OpenCheck {
 public:
  OpenCheck(const Keeper& keeper, const detail::Shell& shell) : keeper_(&keeper), shell_(&shell) {}

  // Throws the failure of the device, and errc::closed.
  void operator()() const {
    if (keeper_->failed() || shell_->stage() != detail::Stage::open) [[unlikely]]
      refuse();
  }
  // Throws the failure of the device, else errc::closed.
  [[noreturn, gnu::noinline]] void refuse() const {
    if (keeper_->failed()) throw keeper_->failure();
    throw Error(errc::closed, "the runtime is closed");
  }

 private:
  const Keeper* keeper_;
  const detail::Shell* shell_;
};

}  // namespace dwell::runtime
