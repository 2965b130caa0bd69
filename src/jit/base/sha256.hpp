// SHA-256 (FIPS 180-4), for the keys and checksums of the cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "jit/base/sha256_blocks.hpp"

namespace dwell::jit {

using Digest = std::array<std::byte, 32>;

// Hashes a stream of bytes. A value; not for use from several threads at once.
class Sha256 {
 public:
  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text.data(), text.size()))); }
  // The digest of everything so far. Ends the stream: only destroy or assign the object after it.
  Digest finish();

 private:
  Sha256Blocks blocks_ = sha256_blocks();
  Sha256State state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::uint64_t total_ = 0;
};

Digest sha256(std::span<const std::byte> bytes);

// 64 lower-case hexadecimal digits.
std::string hex(const Digest& digest);

// A key computed from labelled parts. Different lists of parts have different keys: every label and part is hashed with its length.
class CacheKey {
 public:
  CacheKey& add(std::string_view label, std::span<const std::byte> part);
  CacheKey& add(std::string_view label, std::string_view part) { return add(label, std::as_bytes(std::span(part.data(), part.size()))); }
  // Ends the key, like Sha256::finish.
  std::string finish() { return hex(hash_.finish()); }

 private:
  Sha256 hash_;
};

}  // namespace dwell::jit
