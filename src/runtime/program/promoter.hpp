// When an image is worth inlining.
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

// Has an image of Tier::lto made in the background once the set of operators has stood for a while and is in use. It takes part in no
// change: one that comes meanwhile makes the work void, and the wait begins anew. The image takes over at the end of a lease that comes by
// itself: while a task runs that does not let the lease end, everything stays as it is. Members may be called from any thread.
class Promoter {
 public:
  using Warn = std::function<void(std::string_view)>;

  // How long the set must have stood when it is used at all, and when it is used much: so many tasks since.
  static constexpr std::chrono::milliseconds kStable{1000};
  static constexpr std::chrono::milliseconds kHot{100};
  static constexpr std::uint64_t kHotTasks = 100'000;

  Promoter(ImageTable& table, CompilePool& pool, SubmissionQueue& queue, Warn warn)
      : table_(table), pool_(pool), queue_(queue), warn_(std::move(warn)) {}

  // To be called behind every hand-over of another tier.
  void changed() noexcept;
  // Ends the work under way as soon as can be. Before the pool stops.
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
