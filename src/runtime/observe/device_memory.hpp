// Reads memory that the device writes concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.hpp"
#include "device/arena.hpp"

namespace dwell::runtime {

// Copies `words` words of 8 bytes, each atomically, from byte `offset` of `from`. Throws errc::device_lost.
inline void read_words(backend::Backend& backend, const backend::Allocation& from, std::uint64_t offset, std::uint64_t* to,
                       std::size_t words) {
  if (from.host() == nullptr) {
    backend.copy_to_host(to, from.device() + offset, words * sizeof(std::uint64_t));
    return;
  }
  const auto* const all = reinterpret_cast<const u64*>(static_cast<const std::byte*>(from.host()) + offset);
  for (std::size_t i = 0; i < words; ++i) to[i] = device::load<device::Order::relaxed, device::Scope::device>(all + i);
}

// Makes several copies out of one memory, which need one wait together. Addresses and sizes are of whole words of 8 bytes, each of which is
// copied atomically. Throws errc::device_lost.
inline void read_all_words(backend::Backend& backend, const backend::Allocation& from, std::span<const backend::HostCopy> copies) {
  if (from.host() == nullptr) {
    backend.copy_all_to_host(copies);
    return;
  }
  for (const backend::HostCopy& one : copies)
    read_words(backend, from, one.from - from.device(), static_cast<std::uint64_t*>(one.to), one.bytes / sizeof(std::uint64_t));
}

}  // namespace dwell::runtime
