#include "jit/cache/file_cache.hpp"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <dwell/error.hpp>

#include "tests/unit/cache_test.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

class FileCacheTest : public test::CacheTest {
 protected:
  fs::path file() const { return folder() / key_; }
  // Stores an entry of 1000 bytes, last used `seconds` ago.
  void store_aged(int number, int seconds) {
    FileCache(folder(), {}, 0).store(key_of(number), as_bytes(std::string(kPayload, 'x')));
    fs::last_write_time(folder() / key_of(number), fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  }
  // Which of the entries 0, 1, ... exist.
  std::vector<int> left() const {
    std::vector<int> numbers;
    for (int i = 0; i < 20; ++i) {
      if (fs::exists(folder() / key_of(i))) numbers.push_back(i);
    }
    return numbers;
  }
  static constexpr std::uint64_t kHeader = 8 + 4 + (8 + 64) + 8 + 8 + 32;
  static constexpr std::uint64_t kPayload = 1000 - kHeader;
};

TEST_F(FileCacheTest, LoadReturnsTheStoredPayload) {
  EXPECT_FALSE(cache().load(key_));
  cache().store(key_, as_bytes("payload"));
  ASSERT_TRUE(cache().load(key_));
  EXPECT_EQ(as_text(*cache().load(key_)), "payload");
  cache().store(key_, {});
  EXPECT_TRUE(cache().load(key_)->empty());
  EXPECT_TRUE(warnings_.empty());

  struct stat status {};
  ASSERT_EQ(stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(FileCacheTest, RemovesOneEntry) {
  EXPECT_FALSE(cache().remove(key_));
  cache().store(key_, as_bytes("payload"));
  cache().store(key_of(1), as_bytes("payload"));
  EXPECT_TRUE(cache().remove(key_));
  EXPECT_FALSE(cache().remove(key_));
  EXPECT_FALSE(cache().load(key_));
  EXPECT_TRUE(cache().load(key_of(1)));
  EXPECT_FALSE(FileCache().remove(key_));
}

TEST_F(FileCacheTest, AKeyIsNeverAPath) {
  cache().store("../outside", as_bytes("x"));
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_FALSE(cache().load("../outside"));
}

TEST_F(FileCacheTest, AnyDamagedByteIsAMissAndRemovesTheEntry) {
  cache().store(key_, as_bytes("a payload of some length"));
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

TEST_F(FileCacheTest, AnEntryUnderTheWrongKeyIsAMiss) {
  cache().store(key_, as_bytes("payload"));
  const std::string other = CacheKey().add("test", "other").finish();
  fs::copy_file(file(), folder() / other);
  EXPECT_FALSE(cache().load(other));
}

TEST_F(FileCacheTest, RefusesFilesWritableByOthers) {
  cache().store(key_, as_bytes("payload"));
  fs::permissions(file(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(cache().load(key_));
  EXPECT_FALSE(fs::exists(file()));

  cache().store(key_, as_bytes("payload"));
  fs::rename(file(), root_.path() / "elsewhere");
  fs::create_symlink(root_.path() / "elsewhere", file());
  EXPECT_FALSE(cache().load(key_));
  EXPECT_FALSE(fs::exists(fs::symlink_status(file())));
  EXPECT_TRUE(fs::exists(root_.path() / "elsewhere"));
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_NE(warnings_[0].find(file().string() + " of the cache: it belongs to another user, or others may write to it"), std::string::npos);
  EXPECT_NE(warnings_[1].find("it is not a regular file"), std::string::npos);
  warnings_.clear();

  cache().store(key_, as_bytes("payload"));
  fs::permissions(folder(), fs::perms::others_write, fs::perm_options::add);
  FileCache open = cache();
  EXPECT_FALSE(open.load(key_));
  open.store(key_, as_bytes("payload"));
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(FileCacheTest, EntriesOfOtherUsersAreRemoved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  cache().store(key_, as_bytes("payload"));
  ASSERT_EQ(chown(file().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache().load(key_));
  EXPECT_FALSE(fs::exists(file()));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("it belongs to another user"), std::string::npos);

  cache().store(key_, as_bytes("payload"));
  ASSERT_EQ(chown(folder().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache().load(key_));
  EXPECT_TRUE(fs::exists(file()));
  EXPECT_EQ(warnings_.size(), 2U);
}

TEST_F(FileCacheTest, EntriesOfOtherVersionsAreRemoved) {
  cache().store(key_, as_bytes("payload"));
  {
    std::fstream entry(file(), std::ios::in | std::ios::out | std::ios::binary);
    entry.seekp(8);
    entry.put(99);
  }
  EXPECT_FALSE(cache().load(key_));
  EXPECT_FALSE(fs::exists(file()));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("it was written by another version of dwell"), std::string::npos);
}

// Takes root's permission to read everything from this thread during its lifetime; only files open to others remain readable.
class NoRoot {
 public:
  NoRoot() : before_(setfsuid(kNobody)) {}
  ~NoRoot() { setfsuid(static_cast<uid_t>(before_)); }
  NoRoot(const NoRoot&) = delete;
  NoRoot& operator=(const NoRoot&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  int before_;
};

TEST_F(FileCacheTest, UnreadableEntriesStay) {
  cache().store(key_, as_bytes("payload"));
  const fs::perms others = fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec;
  for (fs::path at = folder(); at != root_.path().parent_path(); at = at.parent_path()) fs::permissions(at, others, fs::perm_options::add);
  fs::permissions(file(), fs::perms::none);
  const NoRoot no_root;
  EXPECT_FALSE(cache().load(key_));
  EXPECT_TRUE(fs::exists(file()));
  const FileCache::Verified verified = cache().verify();
  ASSERT_EQ(verified.broken.size(), 1U);
  EXPECT_FALSE(verified.broken[0].removed);
}

TEST_F(FileCacheTest, AStoreEvictsTheLeastRecentlyUsed) {
  for (int i = 0; i < 10; ++i) store_aged(i, 100 - i);
  fs::last_write_time(folder() / key_of(0), fs::file_time_type::clock::now() - std::chrono::seconds(5));
  const FileCache limited = cache(10'000);
  limited.store(key_of(10), as_bytes(std::string(kPayload, 'x')));
  // Evicts from 11 entries down to nine tenths of the limit.
  EXPECT_EQ(left(), (std::vector{0, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(FileCacheTest, AHitUpdatesTheTimeOfUse) {
  for (int i = 0; i < 4; ++i) store_aged(i, 100 - i);
  const FileCache limited = cache(4'000);
  EXPECT_TRUE(limited.load(key_of(0)));
  EXPECT_EQ(limited.entries().back().key, key_of(0));
  limited.store(key_of(4), as_bytes(std::string(kPayload, 'x')));
  EXPECT_EQ(left(), (std::vector{0, 3, 4}));
}

TEST_F(FileCacheTest, NothingIsEvictedBelowTheLimit) {
  for (int i = 0; i < 9; ++i) store_aged(i, 100 - i);
  cache(10'000).store(key_of(9), as_bytes(std::string(kPayload, 'x')));
  EXPECT_EQ(left().size(), 10U);
  cache(0).store(key_of(10), as_bytes(std::string(kPayload, 'x')));
  EXPECT_EQ(left().size(), 11U);
}

TEST_F(FileCacheTest, TheNewestEntryIsNeverEvicted) {
  store_aged(0, 10);
  const FileCache tiny = cache(1);
  for (int i = 1; i < 4; ++i) {
    tiny.store(key_of(i), as_bytes(std::string(kPayload, 'x')));
    EXPECT_EQ(left(), std::vector{i});
    EXPECT_TRUE(tiny.load(key_of(i)));
  }
}

TEST_F(FileCacheTest, ManyStoresStayWithinTheLimit) {
  const FileCache limited = cache(10'000);
  for (int i = 0; i < 60; ++i) {
    limited.store(key_of(i), as_bytes(std::string(kPayload, 'x')));
    EXPECT_LE(files().size(), 10U);
  }
  EXPECT_GE(files().size(), 9U);
}

TEST_F(FileCacheTest, FutureTimesCountAsNow) {
  for (int i = 0; i < 3; ++i) store_aged(i, i == 1 ? -1'000'000 : 100 - i);
  const FileCache limited = cache(3'000);
  limited.store(key_of(3), as_bytes(std::string(kPayload, 'x')));
  EXPECT_EQ(left(), (std::vector{1, 3}));
  EXPECT_LE(fs::last_write_time(folder() / key_of(1)), fs::file_time_type::clock::now());
}

TEST_F(FileCacheTest, EntriesOfAnyAgeAreHits) {
  store_aged(0, 0);
  const auto now = fs::file_time_type::clock::now();
  const fs::file_time_type epoch = std::chrono::file_clock::from_sys(std::chrono::sys_seconds());
  for (const auto time : {epoch, now + std::chrono::hours(24 * 365 * 30), now}) {
    fs::last_write_time(folder() / key_of(0), time);
    EXPECT_TRUE(cache().load(key_of(0)));
    const auto used = fs::last_write_time(folder() / key_of(0));
    EXPECT_LE(used, fs::file_time_type::clock::now());
    EXPECT_GE(used, now - std::chrono::seconds(2));
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(FileCacheTest, UseIsRecordedOnceAMinute) {
  store_aged(0, 30);
  const auto before = fs::last_write_time(folder() / key_of(0));
  EXPECT_TRUE(cache().load(key_of(0)));
  EXPECT_EQ(fs::last_write_time(folder() / key_of(0)), before);
}

TEST_F(FileCacheTest, EntriesCarryADescription) {
  cache().store(key_of(0), as_bytes("payload"), "operator axpy");
  cache().store(key_of(1), as_bytes("payload"), std::string(1000, 'x'));
  store_aged(2, 1000);
  ASSERT_EQ(cache().entries().size(), 3U);
  EXPECT_EQ(cache().entries().front().key, key_of(2));
  for (const FileCache::Entry& entry : cache().entries()) {
    const std::string expected = entry.key == key_of(0) ? "operator axpy" : entry.key == key_of(1) ? std::string(200, 'x') : "";
    EXPECT_EQ(entry.description, expected);
    EXPECT_TRUE(cache().load(entry.key));
  }
}

TEST_F(FileCacheTest, LockFilesAreNotEntriesAndAreRemovedWhenFree) {
  const FileCache shared = cache();
  {
    const KeyLock lock = shared.lock(key_);
    EXPECT_TRUE(lock.held());
    EXPECT_FALSE(shared.lock(key_, std::chrono::milliseconds(0)).held());
    EXPECT_TRUE(shared.entries().empty());
    EXPECT_EQ(shared.clear(), 0U);
    EXPECT_EQ(files().size(), 1U);
  }
  EXPECT_EQ(files().size(), 0U);
  std::ofstream(folder() / (".lock-" + key_)) << "";  // of a killed process
  EXPECT_EQ(shared.clear(), 0U);
  EXPECT_EQ(files().size(), 0U);
  EXPECT_FALSE(FileCache().lock(key_).held());
  EXPECT_FALSE(shared.lock("../outside").held());
}

TEST_F(FileCacheTest, AbandonedTemporaryFilesAreRemovedAfterAnHour) {
  store_aged(0, 0);
  const auto put = [&](const std::string& name, int minutes) {
    std::ofstream(folder() / name) << "half";
    fs::last_write_time(folder() / name, fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
    return folder() / name;
  };
  const fs::path abandoned = put("." + key_of(1) + ".1.2.3", 61);
  const fs::path recent = put("." + key_of(1) + ".1.2.4", 59);
  const fs::path other = put(".config", 1000);
  cache().store(key_of(2), as_bytes("payload"));
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(recent));
  EXPECT_EQ(cache().clear(), 2U);
  EXPECT_FALSE(fs::exists(recent));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(FileCacheTest, ForeignFilesAreLeftAlone) {
  store_aged(0, 10);
  for (const std::string name : {"Makefile", "notes", "deadbeef"}) std::ofstream(folder() / name) << std::string(10'000, 'x');
  cache(1).store(key_of(1), as_bytes("payload"));
  EXPECT_EQ(cache().verify().entries, 1U);
  EXPECT_EQ(cache().clear(), 1U);
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(FileCacheTest, VerifyRemovesBrokenEntries) {
  for (int i = 0; i < 5; ++i) store_aged(i, 1000 - i);
  EXPECT_TRUE(cache().verify().broken.empty());
  const std::vector<FileCache::Entry> before = cache().entries();

  // Flips a byte at many places of the entry, and cuts it to many lengths.
  std::string whole(1000, 0);
  std::ifstream(folder() / key_of(2), std::ios::binary).read(whole.data(), 1000);
  const auto broken = [&](const std::string& bytes) {
    std::ofstream(folder() / key_of(2), std::ios::binary | std::ios::trunc) << bytes;
    fs::permissions(folder() / key_of(2), fs::perms::owner_read | fs::perms::owner_write);
    const FileCache::Verified verified = cache().verify();
    return verified.entries == 5 && verified.broken.size() == 1 && verified.broken[0].key == key_of(2) && verified.broken[0].removed &&
           !fs::exists(folder() / key_of(2));
  };
  for (std::size_t at = 0; at < whole.size(); at += 37) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_TRUE(broken(damaged)) << "byte " << at;
  }
  for (std::size_t size = 0; size < whole.size(); size += 111) EXPECT_TRUE(broken(whole.substr(0, size))) << "size " << size;

  // Verifying does not count as a use.
  const std::vector<FileCache::Entry> after = cache().entries();
  ASSERT_EQ(after.size(), 4U);
  EXPECT_EQ(after[0].key, before[0].key);
  EXPECT_EQ(after[0].last_use, before[0].last_use);
  EXPECT_EQ(after[0].bytes, 1000U);
}

TEST_F(FileCacheTest, ABrokenEntryIsReportedOnce) {
  store_aged(0, 10);
  fs::resize_file(folder() / key_of(0), 100);
  const FileCache shared = cache();
  EXPECT_FALSE(shared.load(key_of(0)));
  EXPECT_FALSE(shared.load(key_of(0)));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find((folder() / key_of(0)).string()), std::string::npos);
  EXPECT_NE(warnings_[0].find("its content is damaged"), std::string::npos);
}

TEST_F(FileCacheTest, AReadOnlyFolderWarnsOnce) {
  // Permissions do not stop root, so /proc/self stands in.
  const fs::path closed = geteuid() == 0 ? fs::path("/proc/self") : root_.path() / "closed";
  if (geteuid() != 0) {
    fs::create_directory(closed);
    fs::permissions(closed, fs::perms::owner_read | fs::perms::owner_exec);
  }
  const FileCache cache(closed, [this](const std::string& text) { warnings_.push_back(text); });
  for (int i = 0; i < 3; ++i) {
    cache.store(key_of(i), as_bytes("payload"));
    EXPECT_FALSE(cache.load(key_of(i)));
  }
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(FileCacheTest, MaintenanceOfAForeignFolderFails) {
  EXPECT_TRUE(cache().entries().empty());
  EXPECT_EQ(cache().verify().entries, 0U);
  EXPECT_EQ(cache().clear(), 0U);
  EXPECT_FALSE(fs::exists(folder()));

  store_aged(0, 10);
  fs::permissions(folder(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_THROW(cache().entries(), Error);
  EXPECT_THROW(cache().verify(), Error);
  EXPECT_THROW(cache().clear(), Error);
  EXPECT_TRUE(fs::exists(folder() / key_of(0)));
}

TEST_F(FileCacheTest, AnImpossibleFolderWarnsOnce) {
  std::ofstream(root_.path() / "a") << "a file where the folder should be";
  FileCache blocked = cache();
  blocked.store(key_, as_bytes("payload"));
  blocked.store(key_, as_bytes("payload"));
  EXPECT_FALSE(blocked.load(key_));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find(folder().string()), std::string::npos);
}

TEST_F(FileCacheTest, ADisabledCacheKeepsNothing) {
  const FileCache off;
  off.store(key_, as_bytes("payload"));
  EXPECT_FALSE(off.load(key_));
  EXPECT_TRUE(off.directory().empty());
}

TEST(FileCacheEnvironment, ABadLimitWarnsOnce) {
  const TemporaryDirectory root;
  const std::string before = getenv("DWELL_CACHE_DIR") != nullptr ? getenv("DWELL_CACHE_DIR") : "";
  setenv("DWELL_CACHE_DIR", root.path().c_str(), 1);
  std::vector<std::string> warnings;
  const auto with = [&](const char* value) {
    setenv("DWELL_CACHE_MAX_BYTES", value, 1);
    const FileCache cache = FileCache::from_environment([&](const std::string& text) { warnings.push_back(text); });
    for (int i = 0; i < 2; ++i) cache.load(std::string(64, '0'));
    return cache.max_bytes();
  };
  EXPECT_EQ(with("12345"), 12345U);
  EXPECT_EQ(with("0"), 0U);
  EXPECT_EQ(with(""), FileCache::kDefaultMaxBytes);
  EXPECT_TRUE(warnings.empty());
  for (const char* const bad : {"1G", "-1", "many", "99999999999999999999999", " 1"}) {
    warnings.clear();
    EXPECT_EQ(with(bad), FileCache::kDefaultMaxBytes);
    ASSERT_EQ(warnings.size(), 1U) << bad;
    EXPECT_NE(warnings[0].find(std::string("DWELL_CACHE_MAX_BYTES is '") + bad + "'"), std::string::npos);
  }
  unsetenv("DWELL_CACHE_MAX_BYTES");
  before.empty() ? unsetenv("DWELL_CACHE_DIR") : setenv("DWELL_CACHE_DIR", before.c_str(), 1);
}

TEST(FileCacheEnvironment, FoldersAreTriedInOrder) {
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
