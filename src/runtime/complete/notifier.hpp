// Tells the program of completions: callbacks, and a count in an eventfd.
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

// Calls back when something has come to pass of which the device gives no notice (the end of a task). Starts its thread with the first
// request; a runtime that asks for nothing has neither thread nor file descriptor. The thread sleeps while nothing is asked for; otherwise
// it looks again and again, and sleeps in between: an eighth of the time that it has waited, 5 us to 1 ms. Members may be called from any
// thread but finish, which no callback may call.
class Notifier {
 public:
  using Due = std::function<bool()>;  // must not block; an exception counts as false
  using Callback = std::function<void()>;
  using Warn = std::function<void(std::string_view)>;
  struct Request {
    Due due;
    Callback callback;
  };

  // `warn`, unless it is empty, hears of the exceptions of callbacks. `runtime`: as of Callback.
  explicit Notifier(Warn warn, std::uint64_t runtime = 0) : warn_(std::move(warn)), runtime_(runtime) {}
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Calls `callback` once, on the notifier's thread, when `due` holds, or when finish has begun. False once finish has begun: then nothing
  // is called. Callbacks run one after the other; those that are due at one look, in the order of the requests. Throws errc::out_of_memory
  // when there is no thread, and std::bad_alloc; then nothing is called. Takes `callback` when it returns true, so that what the callback
  // holds goes on the notifier's thread; leaves it to the caller when it returns false.
  bool when(Due due, Callback& callback);
  bool when(Due due, Callback&& callback) { return when(std::move(due), callback); }

  // A request that cannot fail any more.
  class Prepared {
   public:
    // Calls the callback of a request that `when` has refused.
    void call() { request_.front().callback(); }

   private:
    friend class Notifier;
    std::list<Request> request_;
  };
  // Takes the memory of a request that comes later, and starts the thread. Throws as `when`, also once finish has begun: errc::closed.
  Prepared prepare(Due due, Callback callback);
  // Makes it, as `when`; to be called once.
  bool when(Prepared& prepared) noexcept;

  // An eventfd, opened by the first call and closed with the notifier. Throws errc::out_of_memory when there is none to be had.
  int event_fd();
  // Adds 1 to it.
  void count() noexcept;

  // Takes no request any more, calls all callbacks without regard to their conditions, and returns when the last has returned. Nothing to
  // do the second time.
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
