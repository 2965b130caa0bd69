// Memory of tensors, kept until the operations that name it run.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dwell::pytorch {

// A set. Operations name the same few storages again and again, and every operation of PyTorch's asks for its own.
class Storages {
 public:
  // Those of tensors; `made`: the first tensor's was allocated for what is to be written there.
  void keep(std::span<const at::Tensor* const> tensors, bool made) {
    for (const at::Tensor* const tensor : tensors) {
      keep(tensor->storage().unsafeGetStorageImpl(), made);
      made = false;
    }
  }
  // All that others keep.
  void keep(const Storages& others) {
    for (const Kept& kept : others.kept_) keep(kept.storage.get(), false);
  }
  bool has(const c10::StorageImpl* storage) { return place_of(places_, storage)->storage == storage; }
  // Whether anybody may still read what begins at this address. Nobody does when it was made for a result and is kept here alone.
  bool is_needed(std::uint64_t address) {
    const Place* const place = place_of(made_, reinterpret_cast<const void*>(address));
    return place->storage == nullptr || c10::raw::intrusive_ptr::use_count(place->storage) != 1;
  }
  // Whether all of them have the memory that they had when they came here.
  bool are_in_place() const {
    return std::ranges::all_of(kept_, [](const Kept& kept) { return kept.storage->data() == kept.data; });
  }
  void clear() {
    if (!kept_.empty()) places_.assign(places_.size(), {});
    if (made_count_ != 0) made_.assign(made_.size(), {});
    made_count_ = 0;
    kept_.clear();
  }

 private:
  struct Place {
    const void* key = nullptr;  // the storage, or its memory
    c10::StorageImpl* storage = nullptr;
  };
  using Places = std::vector<Place>;
  struct Kept {
    c10::intrusive_ptr<c10::StorageImpl> storage;
    const void* data;
  };

  void keep(c10::StorageImpl* storage, bool made) {
    Place* const place = place_of(places_, storage);
    if (place->storage == storage) return;
    *place = {storage, storage};
    kept_.push_back({c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage), storage->data()});
    if (made) {
      *place_of(made_, storage->data()) = {storage->data(), storage};
      if (++made_count_ * 2 > made_.size()) grow(made_);
    }
    if (kept_.size() * 2 > places_.size()) grow(places_);
  }
  // Where a key is, or would be.
  static Place* place_of(Places& in, const void* key) {
    std::size_t at = reinterpret_cast<std::uintptr_t>(key) / 64 * 0x9E3779B97F4A7C15U >> 20U;
    for (;; ++at) {
      Place& place = in[at & (in.size() - 1)];
      if (place.key == key || place.key == nullptr) return &place;
    }
  }
  static void grow(Places& places) {
    Places more(places.size() * 2);
    for (const Place& place : places)
      if (place.key != nullptr) *place_of(more, place.key) = place;
    places.swap(more);
  }

  Places places_ = Places(256);
  Places made_ = Places(256);  // by memory
  std::size_t made_count_ = 0;
  std::vector<Kept> kept_;
};

}  // namespace dwell::pytorch
