// Polling threads of Runtime::watch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string_view>

#include <dwell/inspect.hpp>

#include "base/mutex.hpp"

namespace dwell::runtime {

// All watches of a runtime. Members may be called from any thread.
class Watches {
 public:
  using Look = std::function<Inspection()>;
  using Callback = std::function<void(const Inspection&)>;
  using Warn = std::function<void(std::string_view)>;

  // `runtime`: as of Callback.
  explicit Watches(Warn warn, std::uint64_t runtime = 0) : warn_(std::move(warn)), runtime_(runtime) {}
  ~Watches() { stop_all(); }
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  // Starts a thread that calls `callback` with the result of `look` at each interval `every`, until one of them throws. `warn` receives the
  // exception of a callback. Throws errc::out_of_memory, and errc::closed after stop_all.
  std::shared_ptr<WatchState> start(Look look, std::chrono::nanoseconds every, Callback callback);
  // Ends all watches, and waits for running callbacks, except one on the calling thread.
  void stop_all() noexcept;

 private:
  Warn warn_;
  std::uint64_t runtime_;
  Mutex mutex_;
  bool stopped_ DWELL_GUARDED_BY(mutex_) = false;
  std::list<std::weak_ptr<WatchState>> all_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
