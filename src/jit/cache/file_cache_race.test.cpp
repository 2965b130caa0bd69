// Threads and processes that share one folder.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/cache_test.hpp"
#include "tests/unit/child.hpp"

namespace dwell::jit {
namespace {

using FileCacheRaceTest = test::CacheTest;

TEST_F(FileCacheRaceTest, ManyWritersLeaveOneWholeEntry) {
  const FileCache shared = cache();
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) {
        shared.store(key_, as_bytes(std::string(1000, c)));
        const auto back = shared.load(key_);
        ASSERT_TRUE(back);
        EXPECT_EQ(as_text(*back), std::string(1000, as_text(*back)[0]));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(files().size(), 1U);
}

// Stores, loads and evicts under the same few keys. Returns 0 if it saw only whole entries.
int race(const FileCache& cache, const std::vector<std::string>& keys, char mine) {
  for (int i = 0; i < 100; ++i) {
    for (const std::string& key : keys) {
      cache.store(key, as_bytes(std::string(1000, mine)));
      const auto back = cache.load(key);
      if (back && as_text(*back) != std::string(1000, as_text(*back)[0])) return 1;
    }
    if (i % 10 == 0 && !cache.verify().broken.empty()) return 2;
    if (i % 50 == 0) cache.clear();
  }
  return 0;
}

TEST_F(FileCacheRaceTest, RacingProcessesSeeOnlyWholeEntries) {
  std::vector<std::string> keys;
  for (int i = 0; i < 3; ++i) keys.push_back(key_of(i));
  std::vector<pid_t> children;
  for (char c = 'a'; c < 'c'; ++c) {
    children.push_back(test::start_child([&] {
      int warnings = 0;
      const FileCache mine(
          folder(), [&](const std::string&) { ++warnings; }, 2000);
      const int result = race(mine, keys, c);
      return warnings > 0 ? 3 : result;
    }));
  }
  for (const pid_t child : children) {
    const int status = test::end_of(child);
    EXPECT_TRUE(test::ended_well(status)) << WEXITSTATUS(status);
  }
  EXPECT_TRUE(cache().verify().broken.empty());
}

TEST_F(FileCacheRaceTest, RacingThreadsSeeOnlyWholeEntries) {
  const std::vector<std::string> keys = {key_of(0), key_of(1), key_of(2)};
  const FileCache shared(
      folder(), [](const std::string& text) { ADD_FAILURE() << text; }, 2000);
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'c'; ++c) threads.emplace_back([&, c] { EXPECT_EQ(race(shared, keys, c), 0); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dwell::jit
