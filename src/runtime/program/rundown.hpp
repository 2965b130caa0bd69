// Run-down protection: an object's destruction waits for the callers inside.
#pragma once

#include "base/mutex.hpp"

namespace dwell::runtime {

// Admits callers to an object until close(), which waits until the last caller has left. For callers that could outlive the object; they
// share the ownership of the Rundown. Members may be called from any thread.
class Rundown {
 public:
  // Inside while it lives, unless close() has begun.
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

  // Admits no further callers, and returns when none is inside. Must not be called from inside.
  void close() {
    Lock lock(mutex_);
    closed_ = true;
    while (inside_ != 0) left_.wait(lock);
  }

 private:
  bool enter() {
    const Lock lock(mutex_);
    if (!closed_) ++inside_;
    return !closed_;
  }
  void leave() {
    const Lock lock(mutex_);
    --inside_;
    left_.notify_all();
  }

  Mutex mutex_;
  Condition left_;
  unsigned inside_ DWELL_GUARDED_BY(mutex_) = 0;
  bool closed_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::runtime
