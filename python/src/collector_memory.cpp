// How values of a collector end, and what becomes of their memory.
#include <algorithm>
#include <bit>
#include <utility>

#include "collector.hpp"

namespace dwell::python {

namespace {

constexpr std::size_t kMostPooledBytes = std::size_t{64} << 20U;

// As much as is allocated, so that sizes come again: small ones to a power of two.
std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kLeast = 64;
  constexpr std::size_t kSmall = std::size_t{1} << 20U;
  constexpr std::size_t kStep = std::size_t{1} << 16U;
  return bytes <= kSmall ? std::bit_ceil(std::max(bytes, kLeast)) : (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

// ---- The end of values -----------------------------------------------------------------------------------------------------------

void Collector::bury(Value* value) {
  const std::shared_ptr<Collector> collector = value->collector;
  if (collector->owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return collector->dispose(value);
  {
    const std::lock_guard lock(collector->buried_mutex_);
    collector->buried_.push_back(value);
  }
  collector->drain();
}

// Whoever has the lock comes here when it has let go of it, so that one that was buried meanwhile does not stay.
void Collector::drain() {
  for (;;) {
    std::vector<Value*> buried;
    std::vector<Allocated> trash;
    {
      const std::lock_guard lock(buried_mutex_);
      if (buried_.empty()) return;
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    {
      const std::lock_guard list(buried_mutex_);
      buried.swap(buried_);
    }
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    for (Value* const value : buried) dispose(value);
    trash.swap(trash_);
    owner_.store({}, std::memory_order_relaxed);
  }
}

void Collector::dispose(Value* value) {
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
  // What somebody shares, by DLPack, is not ours to use again.
  if (foreign || bytes > kMostPooledBytes || rounded(bytes) != bytes || memory.use_count() != 1) return retire(std::move(memory));
  // Others may be of sizes that nobody asks for any more.
  if (pooled_ + bytes > kMostPooledBytes) empty_pool();
  pooled_ += bytes;
  pool_[bytes].push_back(std::move(memory));
}

void Collector::retire(Allocated memory) {
  if (collected_ == 0) return trash_.push_back(std::move(memory));
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
