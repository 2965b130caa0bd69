#include "runtime/code/promoter.hpp"

#include <string>

#include <dwell/error.hpp>

namespace dwell::runtime {

void Promoter::changed() {
  const std::lock_guard lock(mutex_);
  since_ = Clock::now();
  submitted_then_ = queue_.submitted();
  look_in(kHot);
}

void Promoter::look_in(Clock::duration time) {
  if (std::exchange(alarm_set_, true)) return;
  pool_.run_at(Clock::now() + time, [this] { look(); });
}

void Promoter::look() {
  {
    const std::lock_guard lock(mutex_);
    alarm_set_ = false;
    if (stop_.stop_requested() || table_.tier() == Tier::lto) return;
    const auto stood = Clock::now() - since_;
    const std::uint64_t tasks = queue_.submitted() - submitted_then_;
    const bool worth_it = (stood >= kHot && tasks >= kHotTasks) || (stood >= kStable && tasks != 0);
    if (!worth_it) return look_in(stood < kStable ? kHot : kStable);
  }
  try {
    if (table_.promote(stop_.get_token())) return;
    const std::lock_guard lock(mutex_);
    look_in(kStable);
  } catch (const std::exception& failure) {
    // What runs goes on running; the next change is another try.
    if (warn_) warn_(std::string("dwell: operators stay as they are, an image with them inlined cannot be had: ") + failure.what());
  }
}

}  // namespace dwell::runtime
