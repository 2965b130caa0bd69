// Memory of tensors, kept until the operations that name it run.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <dwell/tensor.hpp>

#include "memory.hpp"

namespace dwell::pytorch {

// A set of storages, by hashing: operations name the same few again and again, and each call of PyTorch's asks for its own.
class Storages {
 public:
  Storages() = default;
  // With `guards`, storages that operations write are guarded until they run.
  explicit Storages(bool guards) : guards_(guards) {}

  // Keeps the storages of tensors; the first `results` are written, the first `made` were allocated for results.
  void keep(std::span<const at::Tensor* const> tensors, std::size_t results, std::size_t made) {
    for (std::size_t i = 0; i < tensors.size(); ++i) keep(storage_of(*tensors[i]), i < results, i < made);
  }
  // Keeps the same storages, as written.
  void keep(const Storages& others) {
    for (const Kept& kept : others.kept_) keep(*kept.storage, true, false);
  }
  // Returns whether a storage is kept, or shares memory with one that is.
  bool has(c10::StorageImpl* storage) {
    return place_of(places_, storage)->storage == storage || ((has_foreign_ || is_foreign(*storage)) && overlaps(*storage));
  }
  // Whether somebody may still read the memory that begins at this address: false if it was allocated for a result that only this keeps.
  bool is_needed(std::uint64_t address) {
    const Place* const place = place_of(made_, reinterpret_cast<const void*>(address));
    return place->storage == nullptr || c10::raw::intrusive_ptr::use_count(place->storage) != 1;
  }
  // The memory of which is_needed is false now: first and last address of each, by address.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> unneeded() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    for (const Place& place : made_) {
      if (place.storage == nullptr || c10::raw::intrusive_ptr::use_count(place.storage) != 1) continue;
      const auto first = reinterpret_cast<std::uint64_t>(place.key);
      all.emplace_back(first, first + place.storage->nbytes());
    }
    std::ranges::sort(all);
    return all;
  }
  // The memory of all storages, by address.
  std::vector<TensorView::Extent> extents() const {
    std::vector<TensorView::Extent> all;
    for (const Kept& kept : kept_) {
      const auto first = reinterpret_cast<std::uint64_t>(kept.data);
      if (kept.storage->nbytes() != 0) all.push_back({first, first + kept.storage->nbytes()});
    }
    std::ranges::sort(all, {}, [](const auto& one) { return one.first; });
    return all;
  }
  // Returns whether no storage was given other memory since it was kept.
  bool are_in_place() const {
    return std::ranges::all_of(kept_, [](const Kept& kept) { return memory_of(*kept.storage) == kept.data; });
  }
  void clear() {
    if (!kept_.empty()) places_.assign(places_.size(), {});
    if (made_count_ != 0) made_.assign(made_.size(), {});
    made_count_ = 0;
    has_foreign_ = false;
    if (guards_)
      for (const Kept& kept : kept_) Guard::lift(*kept.storage);
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

  void keep(c10::StorageImpl& storage, bool result, bool made) {
    if (result && guards_) Guard::set(storage);
    Place* const place = place_of(places_, &storage);
    if (place->storage == &storage) return;
    *place = {&storage, &storage};
    void* const data = memory_of(storage);
    kept_.push_back({c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage), data});
    has_foreign_ = has_foreign_ || is_foreign(storage);
    if (made) {
      *place_of(made_, data) = {data, &storage};
      if (++made_count_ * 2 > made_.size()) grow(made_);
    }
    if (kept_.size() * 2 > places_.size()) grow(places_);
  }
  bool overlaps(c10::StorageImpl& storage) const {
    if (memory_of(storage) == nullptr) return false;  // its size may be symbolic
    const auto extent = [](c10::StorageImpl& of) {
      const auto first = reinterpret_cast<std::uintptr_t>(memory_of(of));
      return std::pair(first, first + of.nbytes());
    };
    const auto [first, end] = extent(storage);
    return std::ranges::any_of(kept_, [&](const Kept& kept) {
      const auto [other, other_end] = extent(*kept.storage);
      return first < other_end && other < end;
    });
  }
  // Returns the place of a key, or the free place for it.
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
  Places made_ = Places(256);  // allocated for results, by address
  std::size_t made_count_ = 0;
  bool guards_ = false;
  bool has_foreign_ = false;
  std::vector<Kept> kept_;
};

}  // namespace dwell::pytorch
