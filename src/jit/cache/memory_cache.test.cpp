#include "jit/cache/memory_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace dwell::jit {
namespace {

using namespace std::chrono_literals;

// Runs `work` on `count` threads at once.
template <class Work>
void on_threads(int count, Work work) {
  std::atomic<int> ready = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      ready.fetch_add(1);
      while (ready < count) std::this_thread::yield();
      work();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MemoryCache, EvictsTheLeastRecentlyUsed) {
  MemoryCache<int> cache(2);
  int made = 0;
  const auto get = [&](const char* key) { return cache.get(key, [&] { return ++made; }); };
  EXPECT_EQ(get("a"), 1);
  EXPECT_EQ(get("b"), 2);
  EXPECT_EQ(get("a"), 1);
  EXPECT_EQ(get("c"), 3);
  EXPECT_EQ(get("a"), 1);
  EXPECT_EQ(get("b"), 4);
}

TEST(MemoryCache, ConcurrentRequestsMakeOnce) {
  MemoryCache<std::string> cache(10);
  std::atomic<int> made = 0;
  on_threads(8, [&] {
    const std::string value = cache.get("key", [&] {
      ++made;
      std::this_thread::sleep_for(20ms);
      return std::string("value");
    });
    EXPECT_EQ(value, "value");
  });
  EXPECT_EQ(made, 1);
}

TEST(MemoryCache, EvictedValuesReachTheirWaiters) {
  MemoryCache<std::string> cache(0);
  std::atomic<int> made = 0;
  on_threads(8, [&] {
    EXPECT_EQ(cache.get("key",
                        [&] {
                          ++made;
                          std::this_thread::sleep_for(20ms);
                          return std::string("value");
                        }),
              "value");
  });
  EXPECT_GE(made, 1);
  EXPECT_LT(made, 8);
}

TEST(MemoryCache, DifferentKeysDoNotWaitForEachOther) {
  MemoryCache<int> cache(10);
  std::atomic<bool> second = false;
  std::thread first([&] {
    cache.get("a", [&] {
      while (!second) std::this_thread::yield();
      return 1;
    });
  });
  EXPECT_EQ(cache.get("b", [] { return 2; }), 2);
  second = true;
  first.join();
}

TEST(MemoryCache, ErrorsReachAllWaitersAndAreNotKept) {
  MemoryCache<int> cache(10);
  std::atomic<int> made = 0;
  std::atomic<int> refused = 0;
  on_threads(8, [&] {
    try {
      cache.get("key", [&]() -> int {
        ++made;
        std::this_thread::sleep_for(50ms);
        throw Error(errc::compile_failed, "no such type", {"operator", "axpy"});
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::compile_failed);
      EXPECT_EQ(error.message(), "no such type");
      EXPECT_EQ(error.fields().which, "axpy");
      ++refused;
    }
  });
  EXPECT_EQ(refused, 8);
  EXPECT_LT(made, 8);
  EXPECT_EQ(cache.get("key", [] { return 5; }), 5);
}

TEST(MemoryCache, BadAllocReachesOnlyTheMaker) {
  MemoryCache<int> cache(10);
  std::atomic<int> made = 0;
  std::atomic<int> failed = 0;
  on_threads(8, [&] {
    try {
      EXPECT_EQ(cache.get("key",
                          [&] {
                            std::this_thread::sleep_for(5ms);
                            if (++made == 1) throw std::bad_alloc();
                            return 5;
                          }),
                5);
    } catch (const std::bad_alloc&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace dwell::jit
