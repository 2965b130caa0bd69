#include "jit/base/sha256.hpp"

#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

std::string digest_of(std::string_view text) { return hex(Sha256().update(text).finish()); }

// The vectors of FIPS 180-4 and its examples.
TEST(Sha256, KnownVectors) {
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesOfAnySizeGiveTheSameDigest) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  const std::string whole = digest_of(text);
  for (std::size_t piece = 1; piece <= 130; ++piece) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) hash.update(std::string_view(text).substr(at, piece));
    EXPECT_EQ(hex(hash.finish()), whole) << "pieces of " << piece;
  }
}

TEST(CacheKey, PartsAreDelimited) {
  const auto key = [](std::string_view a, std::string_view b) { return CacheKey().add("a", a).add("b", b).finish(); };
  EXPECT_EQ(key("one", "two"), key("one", "two"));
  EXPECT_NE(key("one", "two"), key("onet", "wo"));
  EXPECT_NE(key("", "x"), key("x", ""));
  EXPECT_EQ(key("one", "two").size(), 64U);
}

}  // namespace
}  // namespace dwell::jit
