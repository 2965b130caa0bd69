#include "tensor/gang/step_keeper.hpp"

#include <sys/prctl.h>

#include <exception>
#include <thread>
#include <utility>

#include "base/mutex.hpp"

namespace dwell::tensor::gang {

struct StepKeeper::State {
  void run();

  std::chrono::nanoseconds interval;
  std::function<bool()> look;
  Mutex mutex;
  Condition changed;
  bool is_woken DWELL_GUARDED_BY(mutex) = false;
  bool stops DWELL_GUARDED_BY(mutex) = false;
  std::thread thread DWELL_GUARDED_BY(mutex);
};

StepKeeper::StepKeeper(std::chrono::nanoseconds interval, std::function<bool()> look) : state_(std::make_unique<State>()) {
  state_->interval = interval;
  state_->look = std::move(look);
}

StepKeeper::~StepKeeper() {
  if (process_ != getpid()) {
    // The thread's handle, and the condition that it waits for, cannot be destroyed in the child.
    static_cast<void>(state_.release());
    return;
  }
  std::thread thread;
  {
    const Lock lock(state_->mutex);
    state_->stops = true;
    thread.swap(state_->thread);
    state_->changed.notify_all();
  }
  if (thread.joinable()) thread.join();
}

void StepKeeper::wake() noexcept {
  State& state = *state_;
  try {
    const Lock lock(state.mutex);
    state.is_woken = true;
    state.changed.notify_all();
    if (!state.thread.joinable() && !state.stops) state.thread = std::thread([&state] { state.run(); });
  } catch (const std::exception&) {  // the step is slower
  }
}

void StepKeeper::State::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  Lock lock(mutex);
  for (;;) {
    while (!stops && !is_woken) changed.wait(lock);
    if (stops) return;
    is_woken = false;
    lock.unlock();
    const bool again = look();
    lock.lock();
    if (!again) continue;
    const auto next = std::chrono::steady_clock::now() + interval;
    while (!stops && changed.wait_until(lock, next) == std::cv_status::no_timeout) {}
    is_woken = true;
  }
}

}  // namespace dwell::tensor::gang
