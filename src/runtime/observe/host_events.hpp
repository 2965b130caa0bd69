// What the host does while a trace is taken.
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

// Collects events of threads of the host while a timeline wants them, and shows them to a tool that listens to NVTX; with neither, a note
// is one look at flags. A thread submits 64 tasks in half a microsecond, and notes each such batch: so a note is a look at the clock or
// two, a lock and six words of memory. Members may be called from any thread.
class HostEvents {
 public:
  // What few have.
  struct Details {
    std::string name;
    std::vector<std::uint64_t> after;  // of a submission: positions for which its first task waits
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
    bool linked = false;               // of a submission: it waits for what its thread has submitted before
    std::unique_ptr<Details> details;  // may be null
  };
  static constexpr std::size_t kMost = 1U << 20U;  // kept between two calls of take; the oldest are dropped

  // Who wants events: bits.
  static constexpr std::uint32_t kTimeline = 1;
  static constexpr std::uint32_t kRanges = 2;  // a tool, from the first runtime to the end of the process

  HostEvents() noexcept : wanted_(nvtx::attached() ? kRanges : 0) {}

  std::uint32_t wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  // Says whether a timeline wants them.
  void want(bool wanted) noexcept {
    timelines_.fetch_add(1, std::memory_order_relaxed);
    if (wanted)
      wanted_.fetch_or(kTimeline, std::memory_order_relaxed);
    else
      wanted_.fetch_and(~kTimeline, std::memory_order_relaxed);
  }

  // Notes for the timeline what the calling thread has done since `begun`. Nothing without memory.
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

  // Replaces `events` by what was noted since the last call, the oldest first. Returns how many were dropped. The memory of `events` is for
  // the next ones.
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

  // When what the calling thread has noted last for this timeline ended; else now.
  std::int64_t last_ended() const noexcept {
    return last.of == this && last.timeline == timelines_.load(std::memory_order_relaxed) ? last.ended_ns : now();
  }
  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  // Of a thread's last note.
  struct Last {
    const HostEvents* of;
    std::uint32_t timeline;
    std::int64_t ended_ns;
  };
  static inline constinit thread_local Last last{};

  // The calling thread's, for which the kernel is asked once. A thread that forks has another one in the child.
  static std::uint32_t thread_id() noexcept {
    static constinit thread_local std::uint32_t id = 0;
    [[maybe_unused]] static const int renewed = pthread_atfork(nullptr, nullptr, [] { id = 0; });
    if (id == 0) id = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    return id;
  }

  std::atomic<std::uint32_t> wanted_;
  std::atomic<std::uint32_t> timelines_{0};  // that have begun, and ended
  Mutex mutex_;
  std::vector<Event> events_ DWELL_GUARDED_BY(mutex_);
  std::size_t oldest_ DWELL_GUARDED_BY(mutex_) = 0;  // of kMost events
  std::uint64_t dropped_ DWELL_GUARDED_BY(mutex_) = 0;
};

// Notes what happens in its scope, for those who wanted it at the begin. What an exception ends has failed.
class HostSpan {
 public:
  // `events` may be null. `follows`: it begins where the calling thread's last one has ended, which spares a look at the clock.
  HostSpan(HostEvents* events, TraceEvent::Kind kind, std::string_view name = {}, bool follows = false)
      : events_(events), kind_(kind), wanted_(events == nullptr ? 0 : events->wanted()) {
    if (wanted_ != 0) begin(name, follows);
  }
  ~HostSpan() {
    if (wanted_ != 0) end();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

  // Nothing has happened: it leaves no event.
  void forget() noexcept {
    if ((wanted_ & HostEvents::kRanges) != 0) nvtx::pop();
    wanted_ = 0;
  }

  std::uint64_t id = 0;
  std::uint32_t count = 1;
  bool failed = false;
  std::span<const std::uint64_t> after;  // as in HostEvents::Details; the caller's
  bool linked = false;

 private:
  void begin(std::string_view name, bool follows) {
    if ((wanted_ & HostEvents::kTimeline) != 0) {
      begun_ = follows ? events_->last_ended() : HostEvents::now();
      name_ = name;
      exceptions_ = std::uncaught_exceptions();
    }
    // Last: a range that has begun is ended.
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
  int exceptions_ = 0;  // in flight at the begin
};

}  // namespace dwell::runtime
