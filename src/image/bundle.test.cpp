#include "image/bundle.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"

namespace dwell::image {
namespace {

TEST(Bundle, KeepsOpcodesHolesAndSharedObjects) {
  const auto first = as_bytes("first");
  const std::vector<BundleEntry> entries = {{"a", first}, {}, {"b", as_bytes("second")}, {"a", first}, {}, {"c", first}};
  const std::vector<std::uint32_t> uses = {6, 6, 7, 8, 8, 8, 4, 0xFFFF'FFFF};
  const auto bytes = pack(entries, uses);
  const auto [back, words] = unpack(bytes);
  EXPECT_EQ(words, uses);
  ASSERT_EQ(back.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(back[i].symbol, entries[i].symbol);
    EXPECT_EQ(as_text(back[i].object), as_text(entries[i].object));
  }
  EXPECT_EQ(back[0].object.data(), back[3].object.data());
  EXPECT_EQ(back[0].object.data(), back[5].object.data());
  EXPECT_TRUE(unpack(pack({})).entries.empty());
}

TEST(Bundle, RefusesEveryTruncationAndSurvivesEveryFlip) {
  const std::vector<BundleEntry> entries = {{"a", as_bytes("first")}, {}, {"b", as_bytes("second")}};
  const auto bytes = pack(entries, std::vector<std::uint32_t>{3, 4, 5, 0, 1});
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_THROW(unpack(std::span(bytes).first(size)), Error) << size;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      auto damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      try {
        for (const BundleEntry& entry : unpack(damaged).entries) {
          if (entry.object.empty()) continue;
          EXPECT_GE(entry.object.data(), damaged.data());
          EXPECT_LE(entry.object.data() + entry.object.size(), damaged.data() + damaged.size());
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), errc::link_failed);
      }
    }
  }
}

TEST(Bundle, RefusesCountsAndSizesBeyondItsEnd) {
  const auto bytes = pack(std::vector<BundleEntry>{{"a", as_bytes("first")}, {}, {"b", as_bytes("second")}});
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t value : {most, most - 16, most / 2, std::uint64_t{1} << 32U}) {
    // The number of objects, and the size of the first.
    for (const std::size_t at : {std::size_t{8}, std::size_t{12}}) {
      auto changed = bytes;
      std::memcpy(changed.data() + at, &value, sizeof(value));
      EXPECT_THROW(unpack(changed), Error) << value << " at " << at;
    }
  }
}

}  // namespace
}  // namespace dwell::image
