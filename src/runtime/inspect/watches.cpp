#include "runtime/inspect/watches.hpp"

#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "base/callback.hpp"
#include "base/thread.hpp"
#include "runtime/caught.hpp"

namespace dwell::runtime {

// One watch. Its thread keeps it alive, so that its own callback may drop it.
struct WatchState : std::enable_shared_from_this<WatchState> {
  Watches::Look look;
  Watches::Callback callback;
  Watches::Warn warn;
  std::uint64_t runtime = 0;
  std::chrono::nanoseconds every{0};
  bool forked = false;  // the thread's: the callback has returned in a forked child, where the thread ends

  mutable Mutex mutex;
  Condition changed;
  bool stops DWELL_GUARDED_BY(mutex) = false;
  bool ended DWELL_GUARDED_BY(mutex) = false;  // the thread makes no more calls
  std::thread::id thread DWELL_GUARDED_BY(mutex);

  void run() noexcept {
    auto next = std::chrono::steady_clock::now();
    Lock lock(mutex);
    while (!stops) {
      lock.unlock();
      const bool goes_on = step();
      if (forked) return;
      lock.lock();
      if (!goes_on) break;
      next = std::max(next + every, std::chrono::steady_clock::now());
      while (!stops && changed.wait_until(lock, next) == std::cv_status::no_timeout) {}
    }
    ended = true;
    changed.notify_all();
  }

  // False when it is over.
  bool step() noexcept {
    std::optional<Inspection> found;
    // Without memory, tries again at the next interval.
    if (const auto why = failure_of(errc::io_failed, [&] { found = look(); })) return why->kind() == errc::out_of_memory;
    const Callback call(runtime, "the callback of a watch");
    const auto failure = failure_of(errc::io_failed, [&] { callback(*found); });
    if ((forked = call.is_forked())) return false;
    if (!failure) return true;
    if (!warn) return false;
    if (failure_of(errc::io_failed,
                   [&] { warn("the watch of '" + found->name + "' has ended: its callback has thrown " + failure->message()); }))
      static_cast<void>(failure_of(errc::io_failed, [&] { warn("a watch has ended: its callback has thrown"); }));
    return false;
  }

  void stop() noexcept {
    Lock lock(mutex);
    stops = true;
    changed.notify_all();
    while (!ended && thread != std::this_thread::get_id()) changed.wait(lock);
  }
};

std::shared_ptr<WatchState> Watches::start(Look look, std::chrono::nanoseconds every, Callback callback) {
  auto state = std::make_shared<WatchState>();
  state->look = std::move(look);
  state->callback = std::move(callback);
  state->warn = warn_;
  state->runtime = runtime_;
  state->every = every;
  const Lock lock(mutex_);
  if (stopped_) throw Error(errc::closed, "watch: the runtime is being closed");
  all_.remove_if([](const auto& one) { return one.expired(); });
  all_.push_back(state);
  // Held until the thread is stored: a callback that stops the watch compares it.
  const Lock starts(state->mutex);
  std::thread thread = with_thread("a watch", nullptr, [&] { return std::thread([state] { state->run(); }); });
  state->thread = thread.get_id();
  thread.detach();
  return state;
}

void Watches::stop_all() noexcept {
  std::list<std::weak_ptr<WatchState>> all;
  {
    const Lock lock(mutex_);
    stopped_ = true;
    all.swap(all_);
  }
  for (const auto& one : all)
    if (const auto state = one.lock()) state->stop();
}

}  // namespace dwell::runtime

namespace dwell {

Watch::~Watch() { stop(); }

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    stop();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Watch::stop() noexcept {
  if (const auto state = std::exchange(state_, nullptr)) state->stop();
}

bool Watch::active() const noexcept {
  if (state_ == nullptr) return false;
  const Lock lock(state_->mutex);
  return !state_->stops && !state_->ended;
}

}  // namespace dwell
