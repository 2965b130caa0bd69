#include "runtime/watch/watchdog.hpp"

#include <algorithm>
#include <utility>

#include "base/thread.hpp"
#include "runtime/caught.hpp"

namespace dwell::runtime {

Watchdog::Watchdog(Watched& watched, std::chrono::nanoseconds timeout)
    : watched_(watched),
      half_(std::max<std::chrono::nanoseconds>(timeout / 2, std::chrono::milliseconds(1))),
      nap_(std::clamp<std::chrono::nanoseconds>(half_ / 4, std::chrono::milliseconds(1), std::chrono::seconds(1))),
      running_(2 * nap_) {
  thread_ = with_thread("the watchdog", nullptr, [this] { return std::thread([this] { watch(); }); });
}

void Watchdog::stop() noexcept {
  std::thread thread;
  {
    const Lock lock(mutex_);
    stop_ = true;
    thread.swap(thread_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
  moved();
}

void Watchdog::watch() noexcept {
  Lock lock(mutex_);
  for (auto next = Clock::now() + nap_; !stop_;) {
    if (Clock::now() < next) {
      changed_.wait_until(lock, next);
      continue;
    }
    {
      const Unlocked unlocked(mutex_);
      // Without memory, and after the failure of the device, polls again.
      if (failure_of(errc::out_of_memory, [this] { step(); })) acquit();
    }
    next = Clock::now() + nap_;
  }
}

void Watchdog::acquit() noexcept {
  phase_ = Phase::watching;
  since_ = running_.read(Clock::now());
  moved();
}

void Watchdog::step() {
  const Watched::Look look = watched_.look();
  const Clock::duration now = running_.read(Clock::now());
  const bool lifted = phase_ == Phase::stalled && !stalled();
  if (!look.pending || look.excused || look.progress != std::exchange(progress_, look.progress) || lifted) {
    acquit();
    return;
  }
  if (phase_ == Phase::stalled) {
    if (look.tail == tail_) return;
    // Tasks submitted after the verdict need their own; the old verdict stands.
    phase_ = Phase::watching;
    since_ = now;
  }
  if (phase_ == Phase::proving && !watched_.has_resumed()) since_ = now;  // others may keep the loop off the device
  if (now - since_ < half_) return;
  if (phase_ == Phase::watching) {
    const std::optional<std::uint64_t> settled = watched_.settle();
    if (!settled) {
      acquit();
      return;
    }
    progress_ = *settled;
    since_ = running_.read(Clock::now());
    phase_ = Phase::proving;
    return;
  }
  const bool passed = watched_.has_passed();
  const Watched::Look last = watched_.look();
  if (!passed || !last.pending || last.excused || last.progress != progress_) {
    acquit();
    return;
  }
  Verdict verdict{watched_.verdict(), progress_, last.tail};
  phase_ = Phase::stalled;
  tail_ = last.tail;
  const Lock lock(mutex_);
  verdict_ = std::move(verdict);
  stalled_.store(true, std::memory_order_release);
}

std::optional<Error> Watchdog::verdict_on(std::uint64_t position) {
  if (!stalled()) return std::nullopt;
  const std::uint64_t progress = watched_.look().progress;
  const Lock lock(mutex_);
  if (!verdict_ || position >= verdict_->tail) return std::nullopt;
  if (verdict_->progress == progress) return verdict_->error;
  verdict_.reset();
  stalled_.store(false, std::memory_order_release);
  return std::nullopt;
}

void Watchdog::moved() noexcept {
  const Lock lock(mutex_);
  verdict_.reset();
  stalled_.store(false, std::memory_order_release);
}

}  // namespace dwell::runtime
