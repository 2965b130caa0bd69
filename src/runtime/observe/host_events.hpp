// What the host does while a trace is taken.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <list>
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
// is one look at flags. Members may be called from any thread.
class HostEvents {
 public:
  struct Event {
    TraceEvent event;
    std::string name;                  // where the kind has one
    std::vector<std::uint64_t> after;  // of a submission: positions for which its first task waits
    bool linked = false;               // the same: it waits for what its thread has submitted before
  };
  static constexpr std::size_t kMost = 1U << 20U;  // kept between two calls of take; the oldest are dropped

  // Who wants events: bits.
  static constexpr std::uint32_t kTimeline = 1;
  static constexpr std::uint32_t kRanges = 2;  // a tool, from the first runtime to the end of the process

  HostEvents() noexcept : wanted_(nvtx::attached() ? kRanges : 0) {}

  std::uint32_t wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  // Says whether a timeline wants them.
  void want(bool wanted) noexcept {
    if (wanted)
      wanted_.fetch_or(kTimeline, std::memory_order_relaxed);
    else
      wanted_.fetch_and(~kTimeline, std::memory_order_relaxed);
  }

  // Notes for the timeline what the calling thread has done since `begun`. Nothing without memory.
  void note(TraceEvent::Kind kind, std::int64_t begun, std::uint64_t id, std::uint32_t count = 1, std::string name = {},
            bool failed = false, std::span<const std::uint64_t> after = {}, bool linked = false) noexcept {
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
      event.after.assign(after.begin(), after.end());
      event.linked = linked;
      const Lock lock(mutex_);
      events_.push_back(std::move(event));
      if (events_.size() <= kMost) return;
      events_.pop_front();
      ++dropped_;
    } catch (...) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // What was noted since the last call, and how many were dropped.
  std::pair<std::list<Event>, std::uint64_t> take() {
    std::list<Event> all;
    const Lock lock(mutex_);
    all.swap(events_);
    return {std::move(all), dropped_.exchange(0, std::memory_order_relaxed)};
  }

  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  std::atomic<std::uint32_t> wanted_;
  std::atomic<std::uint64_t> dropped_{0};
  Mutex mutex_;
  std::list<Event> events_ DWELL_GUARDED_BY(mutex_);  // an empty deque has memory already
};

// Notes what happens in its scope, for those who wanted it at the begin. What an exception ends has failed.
class HostSpan {
 public:
  // `events` may be null.
  HostSpan(HostEvents* events, TraceEvent::Kind kind, std::string_view name = {})
      : events_(events), kind_(kind), wanted_(events == nullptr ? 0 : events->wanted()) {
    if (wanted_ != 0) begin(name);
  }
  ~HostSpan() {
    if (wanted_ != 0) end();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

  std::uint64_t id = 0;
  std::uint32_t count = 1;
  bool failed = false;
  std::span<const std::uint64_t> after;  // as in HostEvents::Event; the caller's
  bool linked = false;

 private:
  void begin(std::string_view name) {
    if ((wanted_ & HostEvents::kTimeline) != 0) {
      begun_ = HostEvents::now();
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
  const std::uint32_t wanted_;
  std::int64_t begun_ = 0;
  std::string name_;
  int exceptions_ = 0;  // in flight at the begin
};

}  // namespace dwell::runtime
