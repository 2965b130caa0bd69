// Run-down protection: an object's end waits for the callers inside.
#pragma once

#include <condition_variable>
#include <mutex>

namespace dwell::runtime {

// Admits callers to an object until its end begins; the end waits until the last caller has left. For callers that could outlive the object
// otherwise; they share the ownership of the Rundown. Members may be called from any thread.
class Rundown {
 public:
  // Inside while it lives, unless the end has begun.
  class Visit {
   public:
    explicit Visit(Rundown& of) : of_(of.enter() ? &of : nullptr) {}
    ~Visit() {
      if (of_ != nullptr) of_->leave();
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    explicit operator bool() const { return of_ != nullptr; }

   private:
    Rundown* of_;
  };

  // Admits no further callers, and returns when none is inside. Not to be called from inside.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    left_.wait(lock, [this] { return inside_ == 0; });
  }

 private:
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (!closed_) ++inside_;
    return !closed_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    left_.notify_all();
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable left_;
  unsigned inside_ = 0;
  bool closed_ = false;
};

}  // namespace dwell::runtime
