// A heap for tests of its functions, without a runtime.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "device/heap_census.hpp"
#include "device/heap_context.hpp"

namespace dwell::device {

// A heap in memory of the test, with a context for each of its workers.
class HeapFixture : public testing::Test {
 protected:
  void open(u32 pages, u32 workers, u32 mapped = 0, u32 checks = heap::kChecksFrees) {
    workers_ = workers;
    heap::HeapHeader header = heap::lay_out({pages, workers, 1, heap::kCacheOnCpu});
    header.pages = mapped == 0 ? pages : mapped;
    header.checks = checks;
    const std::size_t bytes = std::size_t{pages} * heap::kPageBytes;
    memory_.reset(static_cast<u8*>(std::aligned_alloc(heap::kPageBytes, bytes)));
    std::memset(memory_.get(), 0, header.bytes);
    std::memcpy(memory_.get(), &header, sizeof(header));
    heap_ = {memory_.get()};
    for (u32 page = 0; page < header.first_page; ++page) heap_.page_map()[page / 64] |= 1ULL << (page % 64);
    contexts_ = std::make_unique<Context[]>(workers);
    for (u32 i = 0; i < workers; ++i) {
      contexts_[i] = {};
      heap::begin(&contexts_[i], reinterpret_cast<u64>(memory_.get()), i);
    }
  }
  u8* at(u32 unit) { return memory_.get() + std::size_t{unit} * heap::kUnit; }
  heap::Census census() { return heap::take_census(heap_, workers_); }
  u64 allocated() {
    const heap::Census now = census();
    u64 all = now.runs;
    for (const heap::Sums& each : now.classes) all += each.taken - each.cached;
    return all;
  }

  struct Free {
    void operator()(u8* at) const { std::free(at); }
  };
  u32 workers_ = 0;
  std::unique_ptr<u8, Free> memory_;
  heap::Heap heap_{};
  std::unique_ptr<Context[]> contexts_;
};

}  // namespace dwell::device
