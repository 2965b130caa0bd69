// Permanent load on a runtime, of which no task may be lost.
#pragma once

#include <exception>

#include "tests/conformance/suite.hpp"

namespace dwell::test {

// Submits additions continuously, on its own thread.
class Stream {
 public:
  Stream(Runtime& runtime, const Operator<Add>& add)
      : runtime_(runtime), add_(add), cells_(filled<u32>(runtime, kCells, 0)), thread_([this] { produce(); }) {}
  ~Stream() { stop(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::uint64_t tasks() const { return tasks_.load(); }

  // Ends the stream, and checks that each task has run once.
  void expect_all() {
    stop();
    if (problem_) std::rethrow_exception(problem_);
    runtime_.wait_all();
    const std::vector<u32> cells = read(cells_);
    std::uint64_t sum = 0;
    for (const u32 cell : cells) sum += cell;
    EXPECT_EQ(sum, tasks());
    EXPECT_GT(sum, 0U);
    EXPECT_THAT(cells, testing::Each(tasks() / kCells));
  }

 private:
  static constexpr u32 kCells = 64;

  void produce() {
    try {
      while (!stop_.load()) {
        runtime_.submit_many(add_, kCells, [&](std::size_t i, auto&& put) { put(cells_, static_cast<u32>(i), 1U); });
        tasks_ += kCells;
      }
    } catch (...) {
      problem_ = std::current_exception();
    }
  }
  void stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }

  Runtime& runtime_;
  Operator<Add> add_;
  Buffer<u32> cells_;
  std::atomic<std::uint64_t> tasks_{0};
  std::atomic<bool> stop_{false};
  std::exception_ptr problem_;
  std::thread thread_;
};

}  // namespace dwell::test
