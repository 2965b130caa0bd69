// The inner loop of SHA-256 (FIPS 180-4, 6.2.2): updates the state by whole blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dwell::jit {

using Sha256State = std::array<std::uint32_t, 8>;

// Hashes `bytes`, a multiple of 64, into `state`. All functions of this type are equivalent.
using Sha256Blocks = void (*)(Sha256State& state, std::span<const std::byte> bytes);

// In plain C++, for every machine.
void sha256_blocks_portable(Sha256State& state, std::span<const std::byte> bytes);

// With the SHA instructions of x86, about five times as fast; null on a processor without them.
Sha256Blocks sha256_blocks_x86();

// Returns the fastest one for this processor.
Sha256Blocks sha256_blocks();

}  // namespace dwell::jit
