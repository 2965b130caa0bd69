// The end of a collector's values, and their memory.
#include <algorithm>
#include <bit>
#include <utility>

#include "collector.hpp"

namespace dwell::python {

namespace {

constexpr std::size_t kMostPooledBytes = std::size_t{64} << 20U;

// Rounds sizes, small ones to a power of two, so that memory fits other values.
std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kLeast = 64;
  constexpr std::size_t kSmall = std::size_t{1} << 20U;
  constexpr std::size_t kStep = std::size_t{1} << 16U;
  return bytes <= kSmall ? std::bit_ceil(std::max(bytes, kLeast)) : (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

// ---- The end of values -----------------------------------------------------------------------------------------------------------

void Collector::delete_value(Value* value) {
  const std::shared_ptr<Collector> collector = value->collector;
  if (collector->owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return collector->destroy(value);
  {
    const std::lock_guard lock(collector->unused_mutex_);
    collector->unused_.push_back(value);
  }
  collector->delete_unused();
}

// Called by each thread that has released the lock, so that no unused value stays.
void Collector::delete_unused() {
  for (;;) {
    std::vector<Value*> unused;
    std::vector<Allocated> freed;
    {
      const std::lock_guard lock(unused_mutex_);
      if (unused_.empty()) return;
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    {
      const std::lock_guard list(unused_mutex_);
      unused.swap(unused_);
    }
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    for (Value* const value : unused) destroy(value);
    freed.swap(freed_);
    owner_.store({}, std::memory_order_relaxed);
  }
}

void Collector::destroy(Value* value) {
  if (value->lazy()) unlist(*value);
  if (value->memory != nullptr) release(std::move(value->memory), value->foreign);
  delete value;
}

// ---- Memory ----------------------------------------------------------------------------------------------------------------------

Collector::Allocated Collector::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  std::vector<Allocated>& blocks = pool_[size];
  if (blocks.empty()) return hold(runtime_, size, dwell::Memory::device);
  Allocated memory = std::move(blocks.back());
  blocks.pop_back();
  pooled_ -= size;
  return memory;
}

void Collector::release(Allocated memory, bool foreign) {
  const std::size_t bytes = memory->buffer.bytes();
  // A consumer of DLPack may still use it.
  if (foreign || bytes > kMostPooledBytes || rounded(bytes) != bytes || memory.use_count() != 1) return retire(std::move(memory));
  // The pool may hold sizes that are not needed any more.
  if (pooled_ + bytes > kMostPooledBytes) empty_pool();
  pooled_ += bytes;
  pool_[bytes].push_back(std::move(memory));
}

void Collector::retire(Allocated memory) {
  if (collected_ == 0) return freed_.push_back(std::move(memory));
  retired_bytes_ += memory->buffer.bytes();
  retired_.push_back(std::move(memory));
}

void Collector::empty_pool() {
  for (auto& [size, blocks] : pool_)
    for (Allocated& one : blocks) retire(std::move(one));
  pool_.clear();
  pooled_ = 0;
}

}  // namespace dwell::python
