// Notifies the program of completions: callbacks, and a count in an eventfd.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Polls conditions of which the device does not notify (the end of a task), and calls back. The first request starts the thread; without
// requests there is neither thread nor file descriptor. The thread sleeps while nothing is requested. Otherwise it polls, and sleeps in
// between: an eighth of the time that it has waited, 5 us to 1 ms. Members may be called from any thread, except that no callback may call
// finish.
class Notifier {
 public:
  using Due = std::function<bool()>;  // must not block; an exception counts as false
  using Callback = std::function<void()>;
  using Warn = std::function<void(std::string_view)>;
  struct Request {
    Due due;
    Callback callback;
  };

  // `warn`, unless empty, receives the exceptions of callbacks. `runtime`: as of Callback.
  explicit Notifier(Warn warn, std::uint64_t runtime = 0) : warn_(std::move(warn)), runtime_(runtime) {}
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Calls `callback` once, on the notifier's thread, when `due` holds, or when finish has begun. Returns false once finish has begun: then
  // nothing is called. Callbacks run one after the other; those due at the same poll, in the order of the requests. Moves from `callback`
  // if it returns true, so that its captures are destroyed on the notifier's thread; leaves it to the caller otherwise. Throws
  // errc::out_of_memory when no thread can be started, and std::bad_alloc; then nothing is called.
  bool when(Due due, Callback& callback);
  bool when(Due due, Callback&& callback) { return when(std::move(due), callback); }

  // A request that can no longer fail.
  class Prepared {
   public:
    // Calls the callback of a request for which `when` returned false.
    void call() { request_.front().callback(); }

   private:
    friend class Notifier;
    std::list<Request> request_;
  };
  // Allocates a later request, and starts the thread. Throws as `when`, and errc::closed once finish has begun.
  Prepared prepare(Due due, Callback callback);
  // Makes a prepared request, as `when`; called once.
  bool when(Prepared& prepared) noexcept;

  // Returns an eventfd, opened by the first call and closed with the notifier. Throws errc::out_of_memory when none is available.
  int event_fd();
  // Adds 1 to the eventfd.
  void count() noexcept;

  // Refuses new requests, calls all callbacks regardless of their conditions, and returns when the last has returned. A second call does
  // nothing.
  void finish() noexcept;

 private:
  void start() DWELL_REQUIRES(mutex_);
  void work() noexcept;
  void call(Request& request) noexcept;

  const Warn warn_;
  const std::uint64_t runtime_;
  Mutex mutex_;
  Condition changed_;
  std::list<Request> requests_ DWELL_GUARDED_BY(mutex_);  // that the thread has not seen yet
  bool started_ DWELL_GUARDED_BY(mutex_) = false;
  bool finishing_ DWELL_GUARDED_BY(mutex_) = false;
  int event_fd_ DWELL_GUARDED_BY(mutex_) = -1;
  std::thread thread_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
