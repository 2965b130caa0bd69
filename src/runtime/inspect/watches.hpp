// Threads that look at something again and again, for Runtime::watch.
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

  // Starts a thread that calls `callback` with what `look` finds, each `every` from now on, until one of them throws: `warn` hears what a
  // callback throws. Throws errc::out_of_memory, and errc::closed behind stop_all.
  std::shared_ptr<WatchState> start(Look look, std::chrono::nanoseconds every, Callback callback);
  // Ends them, and waits for callbacks that run, but for one on the calling thread.
  void stop_all() noexcept;

 private:
  Warn warn_;
  std::uint64_t runtime_;
  Mutex mutex_;
  bool stopped_ DWELL_GUARDED_BY(mutex_) = false;
  std::list<std::weak_ptr<WatchState>> all_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
