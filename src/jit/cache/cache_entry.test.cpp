#include "jit/cache/cache_entry.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "jit/base/temporary_directory.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

class CacheEntryTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    // Written beside it and renamed, as the cache does it.
    std::ofstream(folder_.path() / "new") << text;
    fs::rename(folder_.path() / "new", folder_.path() / name);
  }
  TemporaryDirectory folder_;
  const File opened_{open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(CacheEntryTest, WhatTookThePlaceOfABrokenEntryStays) {
  put("a", "broken");
  const FoundEntry found = read_entry(opened_, "a");
  ASSERT_TRUE(found.present && found.broken);
  put("a", "broken");
  EXPECT_EQ(remove_seen(opened_, "a", found.status), Removal::gone);
  EXPECT_TRUE(fs::exists(folder_.path() / "a"));
  const FoundEntry again = read_entry(opened_, "a");
  EXPECT_EQ(remove_seen(opened_, "a", again.status), Removal::done);
  EXPECT_EQ(remove_seen(opened_, "a", again.status), Removal::gone);
  EXPECT_FALSE(read_entry(opened_, "a").present);
}

TEST_F(CacheEntryTest, WhatIsNoFileIsNeverWaitedFor) {
  ASSERT_EQ(mkfifo((folder_.path() / "fifo").c_str(), 0600), 0);
  fs::create_directory(folder_.path() / "folder");
  for (const char* const name : {"fifo", "folder"}) {
    const FoundEntry found = read_entry(opened_, name);
    EXPECT_TRUE(found.present && found.broken);
    EXPECT_EQ(found.fault, "it is no regular file");
    EXPECT_EQ(describe_entry(opened_, name), "");
  }
  EXPECT_EQ(remove_seen(opened_, "folder", read_entry(opened_, "folder").status), Removal::refused);
}

}  // namespace
}  // namespace dwell::jit
