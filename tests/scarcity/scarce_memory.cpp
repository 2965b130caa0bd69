#include "tests/scarcity/scarce_memory.hpp"

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace dwell::test {

namespace {

constexpr long kNever = std::numeric_limits<long>::max();

std::atomic<long> count{0};
std::atomic<long> fails_from{kNever};
std::atomic<long> fails_until{kNever};
thread_local bool spared = false;

void* allocate(std::size_t bytes, std::size_t alignment) {
  const long number = spared ? 0 : count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number >= fails_from.load(std::memory_order_relaxed) && number < fails_until.load(std::memory_order_relaxed)) throw std::bad_alloc();
  void* made = nullptr;
  if (alignment <= alignof(std::max_align_t))
    made = std::malloc(bytes == 0 ? 1 : bytes);
  else if (posix_memalign(&made, alignment, bytes) != 0)
    made = nullptr;
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

}  // namespace

void ScarceMemory::fail(long first, long many) {
  fails_from = fails_until = kNever;
  count = 0;
  fails_until = first + many;
  fails_from = first;
}

long ScarceMemory::relent() {
  fails_from = kNever;
  return count;
}

ScarceMemory::Spared::Spared() { spared = true; }
ScarceMemory::Spared::~Spared() { spared = false; }

}  // namespace dwell::test

void* operator new(std::size_t bytes) { return dwell::test::allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return dwell::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* made) noexcept { std::free(made); }
void operator delete(void* made, std::size_t) noexcept { std::free(made); }
void operator delete(void* made, std::align_val_t) noexcept { std::free(made); }
void operator delete(void* made, std::size_t, std::align_val_t) noexcept { std::free(made); }
