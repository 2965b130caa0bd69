// Mutexes whose use clang checks (-Wthread-safety, by script/lint), and the macros by which a class states what they guard.
//
//   class Counter {
//     void add() { const Lock lock(mutex_); add_locked(); }
//     void add_locked() DWELL_REQUIRES(mutex_) { ++count_; }
//     Mutex mutex_;
//     int count_ DWELL_GUARDED_BY(mutex_) = 0;
//   };
//
// The analysis looks at one function at a time, and takes a lambda for a function that holds nothing: wait in a loop instead of with a
// predicate.
#pragma once

#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define DWELL_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define DWELL_THREAD_SAFETY(attribute)
#endif

// Of a member: read and written only under `mutex`.
#define DWELL_GUARDED_BY(mutex) DWELL_THREAD_SAFETY(guarded_by(mutex))
// Of a function: its caller holds the mutex.
#define DWELL_REQUIRES(...) DWELL_THREAD_SAFETY(requires_capability(__VA_ARGS__))
// Of a function: it locks, or unlocks.
#define DWELL_ACQUIRES(...) DWELL_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define DWELL_RELEASES(...) DWELL_THREAD_SAFETY(release_capability(__VA_ARGS__))

namespace dwell {

// std::mutex with annotations. Held by a Lock.
class DWELL_THREAD_SAFETY(capability("mutex")) Mutex {
  friend class Lock;
  friend class Unlocked;
  std::mutex mutex_;
};

// Holds a mutex until the end of a scope, as std::unique_lock: unlock and lock take turns in between.
class DWELL_THREAD_SAFETY(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) DWELL_ACQUIRES(mutex) : lock_(mutex.mutex_) {}
  ~Lock() DWELL_RELEASES() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() DWELL_ACQUIRES() { lock_.lock(); }
  void unlock() DWELL_RELEASES() { lock_.unlock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

// Lets go, until the end of a scope, of a mutex that the caller holds.
class DWELL_THREAD_SAFETY(scoped_lockable) Unlocked {
 public:
  explicit Unlocked(Mutex& mutex) DWELL_RELEASES(mutex) : mutex_(mutex.mutex_) { mutex_.unlock(); }
  ~Unlocked() DWELL_RELEASES() { mutex_.lock(); }  // of this object: that is how the analysis is told that the mutex is held again
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::mutex& mutex_;
};

// std::condition_variable for a Lock. The mutex counts as held across a wait, so look at what it guards again after each.
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }
  void wait(Lock& lock) { condition_.wait(lock.lock_); }
  template <class Time>
  std::cv_status wait_until(Lock& lock, Time time) {
    return condition_.wait_until(lock.lock_, time);
  }

 private:
  std::condition_variable condition_;
};

}  // namespace dwell
