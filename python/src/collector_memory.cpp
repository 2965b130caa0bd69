// How values of a collector end, and what becomes of their memory.
#include <algorithm>
#include <bit>
#include <utility>

#include "collector.hpp"

namespace dwell::python {

namespace {

constexpr std::size_t kMostPooledBytes = std::size_t{64} << 20U;

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
  const std::size_t rounded = std::bit_ceil(std::max<std::size_t>(bytes, 64));
  const auto at = static_cast<std::size_t>(std::countr_zero(rounded));
  if (at >= kClasses) return hold(runtime_, bytes, dwell::Memory::device);
  auto& blocks = pool_.at(at);
  if (blocks.empty()) return hold(runtime_, rounded, dwell::Memory::device);
  Allocated memory = std::move(blocks.back());
  blocks.pop_back();
  pooled_ -= rounded;
  return memory;
}

void Collector::release(Allocated memory, bool foreign) {
  const std::size_t bytes = memory->buffer.bytes();
  const auto at = static_cast<std::size_t>(std::countr_zero(std::max<std::size_t>(bytes, 1)));
  // What somebody shares, by DLPack, is not ours to use again.
  const bool again = !foreign && bytes >= 64 && std::has_single_bit(bytes) && at < kClasses && memory.use_count() == 1 &&
                     pooled_ + bytes <= kMostPooledBytes;
  if (again) {
    pooled_ += bytes;
    pool_.at(at).push_back(std::move(memory));
  } else {
    (collected_ == 0 ? trash_ : retired_).push_back(std::move(memory));
  }
}

}  // namespace dwell::python
