// A process that is killed during a store, or a full disk, leaves only whole entries.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <random>
#include <thread>

#include "tests/unit/cache_test.hpp"
#include "tests/unit/child.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Makes the system kill this process at the call `number` if the lower half of `argument` has a bit of `bits` set, or equals `value`. False
// if the system does not support this.
bool die_at(long number, unsigned argument, std::uint32_t bits, std::uint32_t value) {
  const auto at = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * argument);  // little-endian
  std::array<sock_filter, 7> program = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, static_cast<std::uint32_t>(number)},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, at},
      {BPF_JMP | BPF_JSET | BPF_K, 1, 0, bits},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter{program.size(), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

constexpr int kNoFilter = 77;

class FileCacheCrashTest : public test::CacheTest {
 protected:
  static std::string text_of(const std::optional<std::vector<std::byte>>& payload) {
    return payload ? std::string(as_text(*payload)) : "nothing";
  }
  // The file left behind is not an entry, and is removed an hour later.
  void expect_tidied() {
    for (const std::string& name : files()) fs::last_write_time(folder() / name, fs::file_time_type::clock::now() - 61min);
    cache().store(key_of(99), as_bytes("later"));
    for (const std::string& name : files()) EXPECT_EQ(name.size(), 64U) << name;
    EXPECT_TRUE(warnings_.empty());
  }
};

TEST_F(FileCacheCrashTest, SurvivesAKillAtEveryStepOfAStore) {
  constexpr std::uint32_t kAny = ~std::uint32_t{0};
  struct Step {
    const char* name;
    long number;
    unsigned argument;
    std::uint32_t bits;
    int from_next;  // for a descriptor argument: how many are opened before it; -1: not a descriptor
    bool stored;
  };
  const Step steps[] = {
      {"making the file", SYS_openat, 2, O_CREAT, -1, false},
      {"writing", SYS_write, 2, kAny, -1, false},
      {"syncing the file", SYS_fsync, 0, 0, 1, false},
      {"renaming", SYS_renameat, 0, kAny, -1, false},
      {"syncing the folder", SYS_fsync, 0, 0, 0, true},
      {"listing the folder", SYS_getdents64, 0, kAny, -1, true},
      {"removing the least recently used", SYS_unlinkat, 0, kAny, -1, true},
  };
  for (const Step& step : steps) {
    SCOPED_TRACE(step.name);
    fs::remove_all(folder());
    cache().store(key_, as_bytes("old"));
    cache().store(key_of(1), as_bytes(std::string(1000, 'x')));
    fs::last_write_time(folder() / key_of(1), fs::file_time_type::clock::now() - 10min);
    const int status = test::run_child([&] {
      // Descriptors are assigned in order: the folder gets `next`, the file the one after it, if no other test has left any open.
      for (int number = 3; number < 256; ++number) close(number);
      const int next = dup(0);
      close(next);
      const FileCache mine = cache(500);
      if (!die_at(step.number, step.argument, step.bits, static_cast<std::uint32_t>(next + step.from_next))) return kNoFilter;
      mine.store(key_, as_bytes("new"));
      return 0;
    });
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoFilter) GTEST_SKIP() << "the system takes no filter of system calls";
    ASSERT_TRUE(WIFSIGNALED(status)) << "ended with " << WEXITSTATUS(status);
    EXPECT_EQ(text_of(cache().load(key_)), step.stored ? "new" : "old");
    EXPECT_TRUE(cache().load(key_of(1)));
    EXPECT_TRUE(cache().verify().broken.empty());
    expect_tidied();
  }
}

TEST_F(FileCacheCrashTest, SurvivesAKillAfterEveryByteCount) {
  cache().store(key_, as_bytes("old"));
  const std::string text(1000, 'x');
  for (rlim_t bytes = 0; bytes < 1132; bytes += 101) {
    const int status = test::run_child([&] {
      // A write beyond the file size limit is first cut at the limit; the next one kills the process with a signal.
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      signal(SIGXFSZ, SIG_DFL);
      cache().store(key_, as_bytes(text));
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << bytes << " bytes";
    EXPECT_EQ(text_of(cache().load(key_)), "old");
  }
  EXPECT_TRUE(cache().verify().broken.empty());
  EXPECT_EQ(files().size(), 13U);
  expect_tidied();
}

TEST_F(FileCacheCrashTest, SurvivesAKillAtAnyTime) {
  std::mt19937 random(1);
  int found = 0;
  for (int round = 0; round < 100; ++round) {
    const pid_t child = test::start_child([&] {
      const FileCache mine = cache(60'000);
      for (int i = 0;; ++i) {
        const KeyLock lock = mine.lock(key_of(i % 4));
        mine.store(key_of(i % 4), as_bytes(std::string(20'000, static_cast<char>('a' + i % 26))));
        mine.load(key_of(i % 3));
      }
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(test::end_of(child)));
    for (int i = 0; i < 4; ++i) {
      const auto back = cache().load(key_of(i));
      if (!back) continue;
      ++found;
      ASSERT_EQ(text_of(back), std::string(20'000, text_of(back)[0]));
    }
    // Locks of dead processes are free.
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(cache().lock(key_of(i), 0ms).held());
  }
  EXPECT_GT(found, 0);
  EXPECT_TRUE(cache().verify().broken.empty());
  expect_tidied();
}

// Stores until the disk is full. Returns 0 if the stored entries are whole and nothing else is left.
int fill(const fs::path& folder, const char* reason) {
  std::vector<std::string> warnings;
  const FileCache cache(folder, [&](const std::string& text) { warnings.push_back(text); });
  const auto key = [](int number) { return CacheKey().add("fill", std::to_string(number)).finish(); };
  const auto text = [](int number) { return std::string(static_cast<std::size_t>(1000 * number), static_cast<char>('a' + number)); };
  int kept = 0;
  for (int i = 0; i < 20; ++i) cache.store(key(i), as_bytes(text(i)));
  for (int i = 0; i < 20; ++i) {
    const auto back = cache.load(key(i));
    if (!back) continue;
    if (as_text(*back) != text(i)) return 1;
    ++kept;
  }
  if (kept == 0 || kept == 20) return 2;
  if (warnings.size() != 1 || warnings[0].find(reason) == std::string::npos) return 3;
  if (std::distance(fs::directory_iterator(folder), fs::directory_iterator()) != kept) return 4;
  return cache.verify().broken.empty() ? 0 : 5;
}

TEST_F(FileCacheCrashTest, AFullDiskWarnsOnce) {
  fs::create_directories(folder());
  const uid_t user = geteuid();
  const gid_t group = getegid();
  const int status = test::run_child([&] {
    if (unshare(CLONE_NEWNS) != 0) {
      // An ordinary user may mount in a user namespace of its own.
      if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNoFilter;
      std::ofstream("/proc/self/uid_map") << user << ' ' << user << " 1";
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/gid_map") << group << ' ' << group << " 1";
    }
    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) return kNoFilter;
    return fill(folder(), "No space left on device");
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoFilter) GTEST_SKIP() << "no small disk can be mounted here";
  EXPECT_TRUE(test::ended_well(status)) << WEXITSTATUS(status);
}

TEST_F(FileCacheCrashTest, AFileSizeLimitWarnsOnce) {
  const int status = test::run_child([&] {
    const rlimit limit{5'000, 5'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
    return fill(folder(), "File too large");
  });
  EXPECT_TRUE(test::ended_well(status)) << WEXITSTATUS(status);
}

}  // namespace
}  // namespace dwell::jit
