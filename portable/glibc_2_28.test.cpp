// The functions of glibc_2_28.cpp, linked into this program in place of glibc's.

#include "glibc_2_28.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <thread>

extern "C" {
// NOLINTNEXTLINE(readability-redundant-declaration): not in the headers of a glibc before 2.36
std::uint32_t arc4random() noexcept;
int __isoc23_sscanf(const char*, const char*, ...);
long __isoc23_strtol(const char*, char**, int);
long long __isoc23_strtoll(const char*, char**, int);
unsigned long __isoc23_strtoul(const char*, char**, int);
unsigned long long __isoc23_strtoull(const char*, char**, int);
}

namespace {

using Clock = std::chrono::steady_clock;

timespec in(std::chrono::nanoseconds delay) {
  const auto end = Clock::now().time_since_epoch() + delay;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(end);
  return {.tv_sec = seconds.count(), .tv_nsec = (end - seconds).count()};
}

struct Waiter {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
};

TEST(GlibcTest, TimesByAnotherClock) {
  const auto there = [](timespec end, timespec now, timespec now_there) {
    const timespec time = dwell::portable::by_another_clock(end, now, now_there);
    return std::pair(time.tv_sec, time.tv_nsec);
  };
  EXPECT_EQ(there({12, 300}, {10, 100}, {1000, 500}), std::pair(1002L, 700L));
  EXPECT_EQ(there({12, 999'999'999}, {10, 0}, {1000, 1}), std::pair(1003L, 0L));
  EXPECT_EQ(there({12, 0}, {10, 999'999'999}, {1000, 999'999'998}), std::pair(1001L, 999'999'999L));
  EXPECT_EQ(there({9, 0}, {10, 1}, {1000, 1}), std::pair(999L, 0L));
}

TEST(GlibcTest, AWaitEndsAtItsTime) {
  Waiter waiter;
  for (const auto delay : {std::chrono::milliseconds(1), std::chrono::milliseconds(30)}) {
    pthread_mutex_lock(&waiter.mutex);
    const auto start = Clock::now();
    const timespec end = in(delay);
    int result = 0;
    while (result == 0) result = dwell::portable::wait_by_real_time(&waiter.condition, &waiter.mutex, CLOCK_MONOTONIC, &end);
    const auto took = Clock::now() - start;
    pthread_mutex_unlock(&waiter.mutex);
    EXPECT_EQ(result, ETIMEDOUT);
    EXPECT_GE(took, delay - std::chrono::milliseconds(1));
    EXPECT_LT(took, delay + std::chrono::seconds(5));
  }
}

TEST(GlibcTest, ATimeThatIsOverEndsAWaitAtOnce) {
  Waiter waiter;
  const timespec end = in(-std::chrono::milliseconds(1500));
  pthread_mutex_lock(&waiter.mutex);
  EXPECT_EQ(dwell::portable::wait_by_real_time(&waiter.condition, &waiter.mutex, CLOCK_MONOTONIC, &end), ETIMEDOUT);
  pthread_mutex_unlock(&waiter.mutex);
}

TEST(GlibcTest, ASignalEndsAWait) {
  Waiter waiter;
  bool told = false;
  const auto start = Clock::now();
  pthread_mutex_lock(&waiter.mutex);
  std::thread other([&] {
    pthread_mutex_lock(&waiter.mutex);
    told = true;
    pthread_cond_signal(&waiter.condition);
    pthread_mutex_unlock(&waiter.mutex);
  });
  const timespec end = in(std::chrono::seconds(60));
  while (!told) dwell::portable::wait_by_real_time(&waiter.condition, &waiter.mutex, CLOCK_MONOTONIC, &end);
  pthread_mutex_unlock(&waiter.mutex);
  other.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

TEST(GlibcTest, StatSeesWhatIsThere) {
  const auto folder = std::filesystem::temp_directory_path();
  const auto link = folder / ("dwell-glibc-" + std::to_string(getpid()));
  std::filesystem::create_symlink("/proc/self/exe", link);
  struct stat of_link {
  }, of_file{}, of_open{}, of_entry{};
  struct stat64 of_open64 {};
  const int file = open(link.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(lstat(link.c_str(), &of_link), 0);
  EXPECT_EQ(stat(link.c_str(), &of_file), 0);
  EXPECT_EQ(fstat(file, &of_open), 0);
  EXPECT_EQ(fstat64(file, &of_open64), 0);
  EXPECT_EQ(fstatat(AT_FDCWD, link.c_str(), &of_entry, AT_SYMLINK_NOFOLLOW), 0);
  close(file);
  std::filesystem::remove(link);
  EXPECT_TRUE(S_ISLNK(of_link.st_mode));
  EXPECT_EQ(of_entry.st_ino, of_link.st_ino);
  EXPECT_TRUE(S_ISREG(of_file.st_mode));
  EXPECT_EQ(of_open.st_ino, of_file.st_ino);
  EXPECT_EQ(of_open64.st_size, of_file.st_size);
  EXPECT_EQ(stat(link.c_str(), &of_file), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(GlibcTest, FormerVersionsAreThoseOfGlibc) {
  EXPECT_EQ(gettid(), getpid());
  void* const library = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  void* const cosine = dlsym(library, "cos");
  Dl_info info{};
  EXPECT_NE(dladdr(cosine, &info), 0);
  EXPECT_NE(std::string(info.dli_fname).find("libm"), std::string::npos);
  EXPECT_EQ(dlclose(library), 0);
  EXPECT_EQ(pthread_setname_np(pthread_self(), "glibc"), 0);
}

TEST(GlibcTest, FunctionsOfFormerVersionsCompute) {
  const volatile double two = 2;
  EXPECT_DOUBLE_EQ(exp(two), 7.38905609893065);
  EXPECT_DOUBLE_EQ(log(two), 0.6931471805599453);
  EXPECT_DOUBLE_EQ(pow(two, 10.5), 1448.1546878700494);
}

TEST(GlibcTest, RandomNumbersDiffer) {
  const std::set<std::uint32_t> numbers{arc4random(), arc4random(), arc4random(), arc4random()};
  EXPECT_GT(numbers.size(), 1U);
}

TEST(GlibcTest, NumbersAreRead) {
  char* end = nullptr;
  EXPECT_EQ(__isoc23_strtol("-12x", &end, 10), -12);
  EXPECT_EQ(*end, 'x');
  int number = 0;
  EXPECT_EQ(__isoc23_sscanf("64 KiB", "%d", &number), 1);
  EXPECT_EQ(number, 64);
  EXPECT_EQ(__isoc23_strtoll("-9000000000", nullptr, 0), -9'000'000'000);
  EXPECT_EQ(__isoc23_strtoul("0x10", nullptr, 0), 16U);
  EXPECT_EQ(__isoc23_strtoull("18446744073709551615", nullptr, 10), 18'446'744'073'709'551'615U);
}

}  // namespace
