#include "jit/cache/key_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "jit/base/temporary_directory.hpp"
#include "tests/unit/child.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class KeyLockTest : public testing::Test {
 protected:
  KeyLock lock(std::chrono::milliseconds timeout = 20s, const char* name = ".lock-a") const {
    return {File(open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), name, timeout};
  }
  TemporaryDirectory folder_;
};

TEST_F(KeyLockTest, ExcludesOthersUntilDestroyed) {
  {
    const KeyLock held = lock();
    EXPECT_TRUE(held.held());
    EXPECT_FALSE(lock(0ms).held());
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(lock(30ms).held());
    EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
    EXPECT_TRUE(lock(0ms, ".lock-b").held());
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_TRUE(lock(0ms).held());
  EXPECT_FALSE(KeyLock().held());
}

TEST_F(KeyLockTest, IsMovable) {
  KeyLock first = lock();
  KeyLock second = std::move(first);
  EXPECT_TRUE(second.held());
  EXPECT_FALSE(lock(0ms).held());
  second = KeyLock();
  EXPECT_TRUE(lock(0ms).held());
}

TEST_F(KeyLockTest, ExcludesOtherProcesses) {
  struct Seen {
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    std::atomic<int> held = 0;
  };
  const test::SharedWithChildren<Seen> seen;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(test::start_child([&] {
      for (int round = 0; round < 20; ++round) {
        const KeyLock mine = lock();
        if (!mine.held()) return 1;
        const int inside = seen->inside.fetch_add(1) + 1;
        if (inside > seen->most) seen->most = inside;
        seen->held.fetch_add(1);
        std::this_thread::sleep_for(100us);
        seen->inside.fetch_sub(1);
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(test::ended_well(test::end_of(child)));
  EXPECT_EQ(seen->most, 1);
  EXPECT_EQ(seen->held, 160);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(KeyLockTest, IsFreedWhenItsHolderIsKilled) {
  const int status = test::run_child([&] {
    const KeyLock mine = lock();
    return raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::exists(folder_.path() / ".lock-a"));
  EXPECT_TRUE(lock(0ms).held());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(KeyLockTest, HoldsNothingWithoutAFile) {
  fs::create_directory(folder_.path() / ".lock-a");
  EXPECT_FALSE(lock().held());
  EXPECT_FALSE(KeyLock(File(), ".lock-a", 1s).held());
}

// The file was removed while locked; its holder does not remove the next holder's file.
TEST_F(KeyLockTest, SparesTheNextHoldersFile) {
  auto first = std::make_unique<KeyLock>(lock());
  fs::remove(folder_.path() / ".lock-a");
  const KeyLock second = lock(0ms);
  ASSERT_TRUE(second.held());
  first.reset();
  EXPECT_TRUE(fs::exists(folder_.path() / ".lock-a"));
  EXPECT_FALSE(lock(0ms).held());
}

}  // namespace
}  // namespace dwell::jit
