// Events of the host's threads for traces.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/trace.hpp>

#include "base/mutex.hpp"
#include "runtime/observe/nvtx.hpp"

namespace dwell::runtime {

// Collects events of the host's threads for a timeline, and passes them to a tool that listens to NVTX; with neither, a note costs one load
// of flags. A thread submits 64 tasks in half a microsecond, and notes each such batch: so a note is one or two clock readings, a lock and
// six words of memory. Members may be called from any thread.
class HostEvents {
 public:
  // Rarely used members.
  struct Details {
    std::string name;
    std::vector<std::uint64_t> after;  // for a submission, positions for which its first task waits
  };
  // As in TraceEvent.
  struct Event {
    std::int64_t begin_ns = 0;
    std::int64_t took_ns = 0;
    std::uint64_t id = 0;
    std::uint32_t thread = 0;
    std::uint32_t count = 1;
    TraceEvent::Kind kind = TraceEvent::Kind::mark;
    bool failed = false;
    bool linked = false;               // for a submission, it waits for its thread's previous one
    std::unique_ptr<Details> details;  // may be null
  };
  static constexpr std::size_t kMost = 1U << 20U;  // limit between two calls of take; the oldest are dropped

  // Consumers of events, as bits.
  static constexpr std::uint32_t kTimeline = 1;
  static constexpr std::uint32_t kRanges = 2;  // an NVTX tool, from the first runtime to the end of the process

  HostEvents() noexcept : wanted_(nvtx::attached() ? kRanges : 0) {}

  std::uint32_t wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  // Sets whether a timeline wants events.
  void want(bool wanted) noexcept {
    timelines_.fetch_add(1, std::memory_order_relaxed);
    if (wanted)
      wanted_.fetch_or(kTimeline, std::memory_order_relaxed);
    else
      wanted_.fetch_and(~kTimeline, std::memory_order_relaxed);
  }

  // Adds an event of the calling thread from `begun` to now for the timeline. Does nothing without memory.
  void note(TraceEvent::Kind kind, std::int64_t begun, std::uint64_t id, std::uint32_t count = 1, std::string name = {},
            bool failed = false, std::span<const std::uint64_t> after = {}, bool linked = false) noexcept {
    try {
      last = {this, timelines_.load(std::memory_order_relaxed), now()};
      Event event{begun, last.ended_ns - begun, id, thread_id(), count, kind, failed, linked, nullptr};
      if (!name.empty() || !after.empty())
        event.details = std::make_unique<Details>(Details{std::move(name), {after.begin(), after.end()}});
      const Lock lock(mutex_);
      if (events_.size() < kMost) {
        events_.push_back(std::move(event));
        return;
      }
      events_[oldest_] = std::move(event);
      oldest_ = (oldest_ + 1) % kMost;
      ++dropped_;
    } catch (...) {
      const Lock lock(mutex_);
      ++dropped_;
    }
  }

  // Swaps `events` with the events since the last call, oldest first. Returns how many were dropped. Reuses the memory of `events`.
  std::uint64_t take(std::vector<Event>& events) {
    events.clear();
    std::size_t oldest = 0;
    std::uint64_t dropped = 0;
    {
      const Lock lock(mutex_);
      events.swap(events_);
      oldest = std::exchange(oldest_, 0);
      dropped = std::exchange(dropped_, 0);
    }
    std::rotate(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(oldest), events.end());
    return dropped;
  }

  // Returns the end of the calling thread's last event in this timeline; else now.
  std::int64_t last_ended() const noexcept {
    return last.of == this && last.timeline == timelines_.load(std::memory_order_relaxed) ? last.ended_ns : now();
  }
  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  // A thread's last event.
  struct Last {
    const HostEvents* of;
    std::uint32_t timeline;
    std::int64_t ended_ns;
  };
  static inline constinit thread_local Last last{};

  // Returns the calling thread's id, cached after one system call. The child of a fork gets its own.
  static std::uint32_t thread_id() noexcept {
    static constinit thread_local std::uint32_t id = 0;
    [[maybe_unused]] static const int renewed = pthread_atfork(nullptr, nullptr, [] { id = 0; });
    if (id == 0) id = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    return id;
  }

  std::atomic<std::uint32_t> wanted_;
  std::atomic<std::uint32_t> timelines_{0};  // begins and ends of timelines
  Mutex mutex_;
  std::vector<Event> events_ DWELL_GUARDED_BY(mutex_);
  std::size_t oldest_ DWELL_GUARDED_BY(mutex_) = 0;  // of kMost events
  std::uint64_t dropped_ DWELL_GUARDED_BY(mutex_) = 0;
};

// Records its scope as an event, for the consumers at its begin. A scope left by an exception has failed.
class HostSpan {
 public:
  // `events` may be null. `follows`: begins at the end of the calling thread's last event, which saves a clock reading.
  HostSpan(HostEvents* events, TraceEvent::Kind kind, std::string_view name = {}, bool follows = false)
      : events_(events), kind_(kind), wanted_(events == nullptr ? 0 : events->wanted()) {
    if (wanted_ != 0) begin(name, follows);
  }
  ~HostSpan() {
    if (wanted_ != 0) end();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

  // Discards the event.
  void forget() noexcept {
    if ((wanted_ & HostEvents::kRanges) != 0) nvtx::pop();
    wanted_ = 0;
  }

  std::uint64_t id = 0;
  std::uint32_t count = 1;
  bool failed = false;
  std::span<const std::uint64_t> after;  // as in HostEvents::Details; owned by the caller
  bool linked = false;

 private:
  void begin(std::string_view name, bool follows) {
    if ((wanted_ & HostEvents::kTimeline) != 0) {
      begun_ = follows ? events_->last_ended() : HostEvents::now();
      name_ = name;
      exceptions_ = std::uncaught_exceptions();
    }
    // Last: a range that has begun must end.
    if ((wanted_ & HostEvents::kRanges) != 0) nvtx::push(kind_, name);
  }
  void end() noexcept {
    if ((wanted_ & HostEvents::kRanges) != 0) nvtx::pop();
    if ((wanted_ & HostEvents::kTimeline) != 0)
      events_->note(kind_, begun_, id, count, std::move(name_), failed || std::uncaught_exceptions() > exceptions_, after, linked);
  }

  HostEvents* const events_;
  const TraceEvent::Kind kind_;
  std::uint32_t wanted_;
  std::int64_t begun_ = 0;
  std::string name_;
  int exceptions_ = 0;  // uncaught at the begin
};

}  // namespace dwell::runtime
