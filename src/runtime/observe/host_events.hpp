// What the host does while a trace is taken.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/trace.hpp>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Collects events of threads of the host while a timeline wants them; else a note is a look at a flag. Members may be called from any
// thread.
class HostEvents {
 public:
  struct Event {
    TraceEvent event;
    std::string name;  // where the kind has one
  };
  static constexpr std::size_t kMost = 1U << 20U;  // kept between two calls of take; what comes then is dropped

  bool wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  void want(bool wanted) noexcept { wanted_.store(wanted, std::memory_order_relaxed); }

  // Notes what the calling thread has done since `begun`. Nothing without memory.
  void note(TraceEvent::Kind kind, std::int64_t begun, std::uint64_t id, std::uint32_t count = 1, std::string name = {},
            bool failed = false) noexcept {
    try {
      Event event;
      event.event.begin_ns = begun;
      event.event.took_ns = now() - begun;
      event.event.id = id;
      event.event.thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
      event.event.count = count;
      event.event.kind = kind;
      event.event.failed = failed;
      event.name = std::move(name);
      const Lock lock(mutex_);
      if (events_.size() < kMost)
        events_.push_back(std::move(event));
      else
        ++dropped_;
    } catch (...) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // What was noted since the last call, and how many were dropped.
  std::pair<std::vector<Event>, std::uint64_t> take() {
    std::vector<Event> all;
    const Lock lock(mutex_);
    all.swap(events_);
    return {std::move(all), dropped_.exchange(0, std::memory_order_relaxed)};
  }

  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  std::atomic<bool> wanted_{false};
  std::atomic<std::uint64_t> dropped_{0};
  Mutex mutex_;
  std::vector<Event> events_ DWELL_GUARDED_BY(mutex_);
};

// Notes what happens in its scope, when it was wanted at the begin.
class HostSpan {
 public:
  // `events` may be null.
  HostSpan(HostEvents* events, TraceEvent::Kind kind, std::string_view name = {}) : events_(events), kind_(kind) {
    if (events == nullptr || !events->wanted()) return;
    begun_ = HostEvents::now();
    name_ = name;
  }
  ~HostSpan() {
    if (begun_ != 0) events_->note(kind_, begun_, id, count, std::move(name_), failed);
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

  std::uint64_t id = 0;
  std::uint32_t count = 1;
  bool failed = false;

 private:
  HostEvents* const events_;
  const TraceEvent::Kind kind_;
  std::int64_t begun_ = 0;
  std::string name_;
};

}  // namespace dwell::runtime
