// Decides when to build an inlined image.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

#include "base/mutex.hpp"
#include "runtime/program/compile_pool.hpp"
#include "runtime/program/image_table.hpp"

namespace dwell::runtime {

// Builds an image of Tier::lto in the background once the set of operators is stable for a while and in use. Never blocks a change: a
// concurrent change discards the work, and the wait begins anew. The image takes over when a lease ends by itself; while a task keeps the
// lease from ending, nothing changes. Members may be called from any thread.
class Promoter {
 public:
  using Warn = std::function<void(std::string_view)>;

  // The time for which the set must be stable: with any use, and with heavy use (this many tasks since).
  static constexpr std::chrono::milliseconds kStable{1000};
  static constexpr std::chrono::milliseconds kHot{100};
  static constexpr std::uint64_t kHotTasks = 100'000;

  Promoter(ImageTable& table, CompilePool& pool, SubmissionQueue& queue, Warn warn)
      : table_(table), pool_(pool), queue_(queue), warn_(std::move(warn)) {}

  // Called after every hand-over of another tier.
  void changed() noexcept;
  // Ends the current work as soon as possible. Called before the pool stops.
  void stop() { stop_.request_stop(); }

 private:
  using Clock = CompilePool::Clock;

  void look() noexcept;
  void look_in(Clock::duration time) noexcept DWELL_REQUIRES(mutex_);

  ImageTable& table_;
  CompilePool& pool_;
  SubmissionQueue& queue_;
  const Warn warn_;
  std::stop_source stop_;

  Mutex mutex_;
  bool alarm_set_ DWELL_GUARDED_BY(mutex_) = false;
  Clock::time_point since_ DWELL_GUARDED_BY(mutex_){};
  std::uint64_t submitted_then_ DWELL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dwell::runtime
