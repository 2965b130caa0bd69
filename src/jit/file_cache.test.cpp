#include "jit/file_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "image/byte_stream.hpp"
#include "jit/sha256.hpp"
#include "jit/temporary_directory.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

class FileCacheTest : public testing::Test {
 protected:
  fs::path folder() const { return root_.path() / "a" / "dwell"; }
  FileCache cache() {
    return FileCache(folder(), [this](const std::string& text) { warnings_.push_back(text); });
  }
  fs::path file() const { return folder() / key_; }

  TemporaryDirectory root_;
  std::string key_ = CacheKey().add("test", "entry").finish();
  std::vector<std::string> warnings_;
};

TEST_F(FileCacheTest, KeepsWhatWasStored) {
  EXPECT_FALSE(cache().load(key_));
  cache().store(key_, image::as_bytes("payload"));
  ASSERT_TRUE(cache().load(key_));
  EXPECT_EQ(image::as_text(*cache().load(key_)), "payload");
  cache().store(key_, {});
  EXPECT_TRUE(cache().load(key_)->empty());
  EXPECT_TRUE(warnings_.empty());

  struct stat status {};
  ASSERT_EQ(stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 1);
}

TEST_F(FileCacheTest, AKeyIsNeverAPath) {
  cache().store("../outside", image::as_bytes("x"));
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_FALSE(cache().load("../outside"));
}

TEST_F(FileCacheTest, EveryDamagedByteIsAMissThatRemovesTheFile) {
  cache().store(key_, image::as_bytes("a payload of some length"));
  std::string whole;
  {
    std::ifstream in(file(), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto put = [&](const std::string& bytes) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes;
    fs::permissions(file(), fs::perms::owner_read | fs::perms::owner_write);
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    put(damaged);
    EXPECT_FALSE(cache().load(key_)) << "byte " << i;
    EXPECT_FALSE(fs::exists(file())) << "byte " << i;
  }
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    put(whole.substr(0, size));
    EXPECT_FALSE(cache().load(key_)) << "size " << size;
  }
  put(whole + "x");
  EXPECT_FALSE(cache().load(key_));
  put(whole);
  EXPECT_TRUE(cache().load(key_));
}

TEST_F(FileCacheTest, AnEntryUnderAnotherKeyIsAMiss) {
  cache().store(key_, image::as_bytes("payload"));
  const std::string other = CacheKey().add("test", "other").finish();
  fs::copy_file(file(), folder() / other);
  EXPECT_FALSE(cache().load(other));
}

TEST_F(FileCacheTest, RefusesWhatOthersMayWrite) {
  cache().store(key_, image::as_bytes("payload"));
  fs::permissions(file(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(cache().load(key_));
  EXPECT_FALSE(fs::exists(file()));

  cache().store(key_, image::as_bytes("payload"));
  fs::rename(file(), root_.path() / "elsewhere");
  fs::create_symlink(root_.path() / "elsewhere", file());
  EXPECT_FALSE(cache().load(key_));
  EXPECT_FALSE(fs::exists(fs::symlink_status(file())));
  EXPECT_TRUE(fs::exists(root_.path() / "elsewhere"));
  EXPECT_TRUE(warnings_.empty());

  cache().store(key_, image::as_bytes("payload"));
  fs::permissions(folder(), fs::perms::others_write, fs::perm_options::add);
  FileCache open = cache();
  EXPECT_FALSE(open.load(key_));
  open.store(key_, image::as_bytes("payload"));
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(FileCacheTest, AFolderThatCannotBeMadeIsOneWarning) {
  std::ofstream(root_.path() / "a") << "a file where the folder should be";
  FileCache blocked = cache();
  blocked.store(key_, image::as_bytes("payload"));
  blocked.store(key_, image::as_bytes("payload"));
  EXPECT_FALSE(blocked.load(key_));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find(folder().string()), std::string::npos);
}

TEST_F(FileCacheTest, OffKeepsNothing) {
  const FileCache off;
  off.store(key_, image::as_bytes("payload"));
  EXPECT_FALSE(off.load(key_));
  EXPECT_TRUE(off.directory().empty());
}

TEST_F(FileCacheTest, ManyWritersLeaveOneWholeEntry) {
  const FileCache shared = cache();
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) {
        shared.store(key_, image::as_bytes(std::string(1000, c)));
        const auto back = shared.load(key_);
        ASSERT_TRUE(back);
        EXPECT_EQ(image::as_text(*back), std::string(1000, image::as_text(*back)[0]));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 1);
}

TEST(FileCacheEnvironment, IsFoundInOrder) {
  const auto with = [](const char* name, const char* value) {
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
    return FileCache::from_environment().directory();
  };
  const std::string home = getenv("HOME") != nullptr ? getenv("HOME") : "/";
  const std::string before = getenv("DWELL_CACHE_DIR") != nullptr ? getenv("DWELL_CACHE_DIR") : "";
  with("DWELL_CACHE_DIR", nullptr);
  with("DWELL_CACHE", nullptr);
  EXPECT_EQ(with("XDG_CACHE_HOME", nullptr), fs::path(home) / ".cache/dwell");
  EXPECT_EQ(with("XDG_CACHE_HOME", "/x"), "/x/dwell");
  EXPECT_EQ(with("DWELL_CACHE_DIR", "/y"), "/y");
  EXPECT_EQ(with("DWELL_CACHE", "off"), "");
  with("DWELL_CACHE", nullptr);
  with("XDG_CACHE_HOME", nullptr);
  with("DWELL_CACHE_DIR", before.empty() ? nullptr : before.c_str());
}

}  // namespace
}  // namespace dwell::jit
