// Reads tables of words that the device writes concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.hpp"
#include "device/arena.hpp"
#include "runtime/device/arena.hpp"

namespace dwell::runtime {

// Atomic access to words, copied ones or those the device may be writing.
struct OwnWords {
  const u64* at;

  u64 operator[](std::size_t i) const { return at[i]; }
  OwnWords from(std::size_t i) const { return {at + i}; }
};
struct SharedWords {
  const u64* at;

  u64 operator[](std::size_t i) const { return device::load<device::Order::relaxed, device::Scope::device>(at + i); }
  SharedWords from(std::size_t i) const { return {at + i}; }
};

// The host's view of a table in the arena. Reads the table directly if the host can; else keeps a pinned copy from the first read until its
// destruction. So a read neither allocates nor frees memory, which could wait for a lease. Used by one thread at a time.
class Mirror {
 public:
  // Mirrors `bytes` at `offset` in the arena.
  Mirror(std::uint64_t offset, std::size_t bytes) : offset_(offset), bytes_(bytes) {}
  explicit Mirror(const Arena::Piece& piece) : Mirror(piece.offset(), piece.bytes()) {}

  // Adds to `copies` the copies needed before the next read of `bytes` from `first` on. The arena must not move until that read. Throws
  // errc::out_of_memory.
  void want(backend::Backend& backend, const backend::Allocation& arena, std::size_t first, std::size_t bytes,
            std::vector<backend::HostCopy>& copies) {
    if (arena.host() != nullptr) {
      words_ = reinterpret_cast<const u64*>(static_cast<const std::byte*>(arena.host()) + offset_);
      return;
    }
    if (copy_ == nullptr) copy_ = backend.allocate_host(bytes_);
    copies.push_back({static_cast<std::byte*>(copy_->host()) + first, arena.device() + offset_ + first, bytes});
  }
  void want(backend::Backend& backend, const backend::Allocation& arena, std::vector<backend::HostCopy>& copies) {
    want(backend, arena, 0, bytes_, copies);
  }

  // Calls `look` with the words of the table.
  template <class Look>
  void look_with(const Look& look) const {
    if (words_ != nullptr)
      look(SharedWords{words_});
    else
      look(OwnWords{static_cast<const u64*>(copy_->host())});
  }

 private:
  std::uint64_t offset_;
  std::size_t bytes_;
  const u64* words_ = nullptr;  // set if the host can access the table
  std::unique_ptr<backend::Allocation> copy_;
};

}  // namespace dwell::runtime
