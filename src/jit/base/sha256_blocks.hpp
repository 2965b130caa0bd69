// The part of SHA-256 (FIPS 180-4, 6.2.2) that takes the time: the state after whole blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dwell::jit {

using Sha256State = std::array<std::uint32_t, 8>;

// Works `bytes`, a multiple of 64 of them, into `state`. All functions of this type do the same.
using Sha256Blocks = void (*)(Sha256State& state, std::span<const std::byte> bytes);

// In plain C++, for every machine.
void sha256_blocks_portable(Sha256State& state, std::span<const std::byte> bytes);

// With the SHA instructions of x86, about five times as fast; null on a processor without them.
Sha256Blocks sha256_blocks_x86();

// The fastest that this processor has.
Sha256Blocks sha256_blocks();

}  // namespace dwell::jit
