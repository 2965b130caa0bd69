#include "jit/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dwell::jit {

namespace {

constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* from) {
  return std::to_integer<std::uint32_t>(from[0]) << 24U | std::to_integer<std::uint32_t>(from[1]) << 16U |
         std::to_integer<std::uint32_t>(from[2]) << 8U | std::to_integer<std::uint32_t>(from[3]);
}

}  // namespace

void Sha256::block(const std::byte* bytes) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3U);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10U);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> add = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  const std::size_t held = total_ % 64;
  total_ += bytes.size();
  if (held != 0) {
    const std::size_t take = std::min(bytes.size(), 64 - held);
    std::copy_n(bytes.begin(), take, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(take);
    if (held + take < 64) return *this;
    block(pending_.data());
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
  return *this;
}

Digest Sha256::finish() {
  const std::uint64_t bits = total_ * 8;
  std::array<std::byte, 72> tail{};
  tail[0] = std::byte{0x80};
  const std::size_t padding = (total_ % 64 < 56 ? 56 : 120) - total_ % 64;
  for (std::size_t i = 0; i < 8; ++i) tail[padding + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  update(std::span(tail).first(padding + 8));
  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) { return Sha256().update(bytes).finish(); }

std::string hex(const Digest& digest) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest) {
    text += digits[std::to_integer<std::size_t>(byte >> 4)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

CacheKey& CacheKey::add(std::string_view label, std::span<const std::byte> part) {
  for (const auto piece : {std::as_bytes(std::span(label.data(), label.size())), part}) {
    const std::uint64_t size = piece.size();
    hash_.update(std::as_bytes(std::span(&size, 1))).update(piece);
  }
  return *this;
}

}  // namespace dwell::jit
