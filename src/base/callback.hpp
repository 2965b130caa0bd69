// Which code of the program's the calling thread runs for a runtime.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace dwell {

// A call of code of the program's, or the destruction of what that code holds, by a runtime: `runtime` is its number in this process
// (RuntimeInfo::runtime), `what` names the code: "a callback of Ticket::then". Lives on the stack of the thread that makes the call. The
// runtime's end waits for these calls, so whoever would begin it inside of one asks `inside` first.
class Callback {
 public:
  Callback(std::uint64_t runtime, const char* what) noexcept : runtime_(runtime), what_(what), outer_(innermost) { innermost = this; }
  ~Callback() {
    innermost = outer_;
    if (!off_.empty()) [[unlikely]]
      act();
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  // What the calling thread runs for this runtime; null: nothing.
  static const char* inside(std::uint64_t runtime) noexcept;
  // Does `act` on a thread of its own when the calling thread has returned from all callbacks; never if it does not return (std::exit), or
  // there is no thread. Called inside of one. Throws std::bad_alloc.
  static void put_off(std::function<void()> act);

  // Returns whether the call has come back in a child of this process: a fork has one thread, this one, which has nothing to do there.
  bool is_forked() const noexcept { return process_ != getpid(); }

 private:
  void act() noexcept;

  static thread_local Callback* innermost;  // trivial, so that it is still there while std::exit runs on this thread

  const std::uint64_t runtime_;
  const char* const what_;
  Callback* const outer_;
  const pid_t process_ = getpid();
  std::vector<std::function<void()>> off_;  // of the outermost
};

}  // namespace dwell
