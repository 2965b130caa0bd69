// Looks at tables of words that the device writes meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.hpp"
#include "device/arena.hpp"
#include "runtime/device/arena.hpp"

namespace dwell::runtime {

// Words that are copied, and words that the device may be writing: each is whole.
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

// The host's sight of a table in the arena. Where the host reaches the table it looks there; else it keeps a pinned copy from the first
// look on, which goes with the mirror: a look takes no memory, and gives none back, which could wait for a lease. One thread at a time.
class Mirror {
 public:
  // Of `bytes` at `offset` in the arena.
  Mirror(std::uint64_t offset, std::size_t bytes) : offset_(offset), bytes_(bytes) {}
  explicit Mirror(const Arena::Piece& piece) : Mirror(piece.offset(), piece.bytes()) {}

  // The arena lies there until it is looked at next. Adds to `copies` what is to be copied before the next look at `bytes` from `first` on.
  // Throws errc::out_of_memory.
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

  // Calls `look` with the words from the table's begin on.
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
  const u64* words_ = nullptr;  // where the host reaches the table
  std::unique_ptr<backend::Allocation> copy_;
};

}  // namespace dwell::runtime
