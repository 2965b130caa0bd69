#include "runtime/program/promoter.hpp"

#include <string>

#include "runtime/caught.hpp"

namespace dwell::runtime {

void Promoter::changed() noexcept {
  const Lock lock(mutex_);
  since_ = Clock::now();
  submitted_then_ = queue_.submitted();
  look_in(kHot);
}

void Promoter::look_in(Clock::duration time) noexcept {
  if (alarm_set_) return;
  // Without memory or a thread the image stays until the next change.
  alarm_set_ = !failure_of(errc::out_of_memory, [&] { pool_.run_at(Clock::now() + time, [this] { look(); }); });
}

void Promoter::look() noexcept {
  {
    const Lock lock(mutex_);
    alarm_set_ = false;
    if (stop_.stop_requested() || table_.tier() == Tier::lto) return;
    const auto stood = Clock::now() - since_;
    const std::uint64_t tasks = queue_.submitted() - submitted_then_;
    const bool worth_it = (stood >= kHot && tasks >= kHotTasks) || (stood >= kStable && tasks != 0);
    if (!worth_it) return look_in(stood < kStable ? kHot : kStable);
  }
  bool promoted = false;
  const std::optional<Error> failure = failure_of(errc::link_failed, [&] { promoted = table_.promote(stop_.get_token()); });
  if (failure) {
    // The running image stays; the next change tries again.
    if (!warn_) return;
    static_cast<void>(failure_of(errc::link_failed, [&] { warn_("dwell: the operators are not inlined: " + failure->message()); }));
  } else if (!promoted) {
    const Lock lock(mutex_);
    look_in(kStable);
  }
}

}  // namespace dwell::runtime
