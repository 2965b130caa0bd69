// What the host counts for Metrics, beside what its parts know anyway.
#pragma once

#include <atomic>
#include <cstdint>

namespace dwell::runtime {

struct HostCounts {
  std::atomic<std::uint64_t> credit_waits{0};
  std::atomic<std::uint64_t> graph_launches{0};
  std::atomic<std::uint64_t> batch_flushes{0};
  std::atomic<std::uint64_t> batch_operations{0};
  std::atomic<std::uint64_t> batch_tasks{0};
};

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) { counter.fetch_add(more, std::memory_order_relaxed); }

}  // namespace dwell::runtime
