#include "jit/cache/cache_entry.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "jit/base/temporary_directory.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

class CacheEntryTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    // Written under another name and renamed, as the cache does.
    std::ofstream(folder_.path() / "new") << text;
    fs::rename(folder_.path() / "new", folder_.path() / name);
  }
  TemporaryDirectory folder_;
  const File opened_{open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(CacheEntryTest, RemovalSparesAReplacement) {
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

TEST_F(CacheEntryTest, NeverBlocksOnAnythingButRegularFiles) {
  ASSERT_EQ(mkfifo((folder_.path() / "fifo").c_str(), 0600), 0);
  fs::create_directory(folder_.path() / "folder");
  for (const char* const name : {"fifo", "folder"}) {
    const FoundEntry found = read_entry(opened_, name);
    EXPECT_TRUE(found.present && found.broken);
    EXPECT_EQ(found.fault, "it is not a regular file");
    EXPECT_EQ(describe_entry(opened_, name), "");
  }
  EXPECT_EQ(remove_seen(opened_, "folder", read_entry(opened_, "folder").status), Removal::refused);
}

TEST_F(CacheEntryTest, SizesBeyondTheFileAreDamage) {
  const std::string key(64, 'a');
  const std::vector<std::byte> payload(100);
  std::vector<std::byte> whole = entry_head(key, "what it is", payload);
  whole.insert(whole.end(), payload.begin(), payload.end());
  const auto read = [&](const std::vector<std::byte>& bytes) {
    put(key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return read_entry(opened_, key);
  };
  EXPECT_TRUE(read(whole).payload);
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  const std::size_t head = whole.size() - payload.size();
  for (const std::uint64_t value : {most, most - head, most - whole.size(), most / 2, std::uint64_t{1} << 32U, kLargestPayload}) {
    for (std::size_t at = 0; at + sizeof(value) <= head; ++at) {
      auto changed = whole;
      std::memcpy(changed.data() + at, &value, sizeof(value));
      const FoundEntry found = read(changed);
      EXPECT_FALSE(found.payload) << value << " at " << at;
      EXPECT_TRUE(found.broken) << value << " at " << at;
    }
  }
}

}  // namespace
}  // namespace dwell::jit
