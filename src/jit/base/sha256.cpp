#include "jit/base/sha256.hpp"

#include <algorithm>

namespace dwell::jit {

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  const std::size_t held = total_ % 64;
  total_ += bytes.size();
  if (held != 0) {
    const std::size_t take = std::min(bytes.size(), 64 - held);
    std::copy_n(bytes.begin(), take, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(take);
    if (held + take < 64) return *this;
    blocks_(state_, pending_);
  }
  const std::size_t whole = bytes.size() / 64 * 64;
  blocks_(state_, bytes.first(whole));
  bytes = bytes.subspan(whole);
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
