// Memory of tensors, kept until the operations that name it run.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dwell::pytorch {

// A set. Operations name the same few storages again and again, and every operation of PyTorch's asks for its own.
class Storages {
 public:
  void keep(c10::StorageImpl* storage) {
    const c10::StorageImpl*& place = place_of(storage);
    if (place == storage) return;
    place = storage;
    kept_.push_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
    if (kept_.size() * 2 > places_.size()) grow();
  }
  bool has(const c10::StorageImpl* storage) { return place_of(storage) == storage; }
  void clear() {
    if (!kept_.empty()) places_.assign(places_.size(), nullptr);
    kept_.clear();
  }

 private:
  // Where it is, or would be.
  const c10::StorageImpl*& place_of(const c10::StorageImpl* storage) {
    std::size_t at = reinterpret_cast<std::uintptr_t>(storage) / 64 * 0x9E3779B97F4A7C15U >> 20U;
    for (;; ++at) {
      const c10::StorageImpl*& place = places_[at & (places_.size() - 1)];
      if (place == storage || place == nullptr) return place;
    }
  }
  void grow() {
    places_.assign(places_.size() * 2, nullptr);
    for (const auto& storage : kept_) place_of(storage.get()) = storage.get();
  }

  std::vector<const c10::StorageImpl*> places_ = std::vector<const c10::StorageImpl*>(256);
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> kept_;
};

}  // namespace dwell::pytorch
