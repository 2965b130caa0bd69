#include "image/bundle.hpp"

#include <gtest/gtest.h>

#include <dwell/error.hpp>

#include "image/byte_stream.hpp"

namespace dwell::image {
namespace {

TEST(Bundle, KeepsOpcodesHolesAndSharedObjects) {
  const auto first = as_bytes("first");
  const std::vector<BundleEntry> entries = {{"a", first}, {}, {"b", as_bytes("second")}, {"a", first}, {}, {"c", first}};
  const auto bytes = pack(entries);
  const auto back = unpack(bytes);
  ASSERT_EQ(back.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(back[i].symbol, entries[i].symbol);
    EXPECT_EQ(as_text(back[i].object), as_text(entries[i].object));
  }
  EXPECT_EQ(back[0].object.data(), back[3].object.data());
  EXPECT_EQ(back[0].object.data(), back[5].object.data());
  EXPECT_TRUE(unpack(pack({})).empty());
}

TEST(Bundle, RefusesEveryTruncationAndSurvivesEveryFlip) {
  const std::vector<BundleEntry> entries = {{"a", as_bytes("first")}, {}, {"b", as_bytes("second")}};
  const auto bytes = pack(entries);
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_THROW(unpack(std::span(bytes).first(size)), Error) << size;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      auto damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      try {
        for (const BundleEntry& entry : unpack(damaged)) {
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

}  // namespace
}  // namespace dwell::image
