// Shared by the tests of the submission queue and its parts: a queue whose device is played by the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "runtime/device/submission_queue.hpp"
#include "tests/unit/bench.hpp"

namespace dwell::runtime {

class QueueSuite : public testing::Test {
 protected:
  explicit QueueSuite(std::uint32_t shift = 7, std::uint64_t first = 0) : bench_(shift, 1, first) {}

  std::optional<std::uint64_t> submit(const std::vector<u32>& words = {}, u32 flags = 0, u32 groups = 1) {
    const detail::Task task = test::task_of(words, flags, groups);
    std::uint64_t position = 0;
    if (!queue().try_submit(alias_, task, &position)) return std::nullopt;
    return position;
  }
  // Submits a task that waits for `tasks` and `any`; those in `any` may fail.
  std::optional<std::uint64_t> submit_after(const std::vector<std::uint64_t>& tasks, const std::vector<std::uint64_t>& any = {},
                                            u32 words = 0, u32 flags = 0) {
    detail::Waits waits;
    for (const std::uint64_t task : tasks) waits.position[waits.count++] = task;
    for (const std::uint64_t task : any) {
      waits.any_result |= 1U << waits.count;
      waits.position[waits.count++] = task;
    }
    const std::vector<u32> arguments = counted(words);
    const detail::Task task = test::task_of(arguments, detail::kAfter | flags, 1, &waits);
    std::uint64_t position = 0;
    if (!queue().try_submit(alias_, task, &position)) return std::nullopt;
    return position;
  }
  // Submits `count` plain tasks at once. Returns how many fitted.
  std::size_t submit_many(std::size_t count) {
    const std::vector<detail::FirstSlot> slots(count, test::task_of({}).first);
    std::uint64_t last = 0;
    return queue().try_submit_plain(alias_, slots.data(), count, &last);
  }
  // Completes all tasks in flight.
  void finish_all() {
    for (std::uint64_t at = queue().reaped(); at < queue().tail(); ++at)
      if (!bench_.complete(at)) bench_.finish(at);
  }
  static std::vector<u32> counted(u32 count) {
    std::vector<u32> words(count);
    std::iota(words.begin(), words.end(), 1000U);
    return words;
  }

  SubmissionQueue& queue() { return bench_.queue; }

  test::Bench bench_;
  std::atomic<std::uint32_t> alias_{5};
};

}  // namespace dwell::runtime
