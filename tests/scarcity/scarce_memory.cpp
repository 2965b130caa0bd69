#include "tests/scarcity/scarce_memory.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>

namespace dwell::test {

namespace {

constexpr long kNever = std::numeric_limits<long>::max();
constexpr int kFrames = 64;

std::atomic<long> count{0};
std::atomic<long> fails_from{kNever};
std::atomic<long> fails_until{kNever};
std::atomic<long> counted{0};
thread_local bool spared = false;

// The stack of the first allocation that failed.
void* frames[kFrames];
std::atomic<int> frame_count{0};

void note_stack() {
  const bool before = spared;
  spared = true;
  const int found = backtrace(frames, kFrames);
  spared = before;
  frame_count.store(found, std::memory_order_release);
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  const long number = spared ? 0 : count.fetch_add(1, std::memory_order_relaxed) + 1;
  const long first = fails_from.load(std::memory_order_relaxed);
  if (number >= first && number < fails_until.load(std::memory_order_relaxed)) {
    if (number == first) note_stack();
    throw std::bad_alloc();
  }
  void* made = nullptr;
  if (alignment <= alignof(std::max_align_t))
    made = std::malloc(bytes == 0 ? 1 : bytes);
  else if (posix_memalign(&made, alignment, bytes) != 0)
    made = nullptr;
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

// Reports the failed allocations before the process ends.
const std::terminate_handler ends = std::set_terminate([] {
  ScarceMemory::tell();
  static const char text[] = "std::terminate in\n";
  static_cast<void>(::write(STDERR_FILENO, text, sizeof(text) - 1));
  void* here[kFrames];
  backtrace_symbols_fd(here, backtrace(here, kFrames), STDERR_FILENO);
  std::abort();
});

}  // namespace

void ScarceMemory::fail(long first, long many) {
  // The first backtrace loads a library, which allocates.
  static const int loaded = [] {
    void* frame = nullptr;
    return backtrace(&frame, 1);
  }();
  static_cast<void>(loaded);
  fails_from = fails_until = kNever;
  frame_count = 0;
  count = 0;
  fails_until = many >= kNever - first ? kNever : first + many;
  fails_from = first;
}

long ScarceMemory::relent() {
  if (fails_from.exchange(kNever) != kNever) counted = count.load();
  return counted;
}

void ScarceMemory::tell() {
  char text[128];
  const int length = std::snprintf(text, sizeof(text), "allocations %ld to %ld fail, of %ld until now; the first in\n", fails_from.load(),
                                   fails_until.load() - 1, count.load());
  static_cast<void>(::write(STDERR_FILENO, text, static_cast<std::size_t>(length)));
  backtrace_symbols_fd(frames, frame_count.load(std::memory_order_acquire), STDERR_FILENO);
}

ScarceMemory::Spared::Spared() : before_(spared) { spared = true; }
ScarceMemory::Spared::~Spared() { spared = before_; }

}  // namespace dwell::test

void* operator new(std::size_t bytes) { return dwell::test::allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return dwell::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* made) noexcept { std::free(made); }
void operator delete(void* made, std::size_t) noexcept { std::free(made); }
void operator delete(void* made, std::align_val_t) noexcept { std::free(made); }
void operator delete(void* made, std::size_t, std::align_val_t) noexcept { std::free(made); }
