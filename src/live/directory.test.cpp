#include "live/directory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include <dwell/error.hpp>

#include "tests/unit/child.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/live.hpp"

namespace dwell::live {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::HasSubstr;

class LiveDirectory : public test::LiveTest {
 protected:
  void write(const std::string& name, std::chrono::hours age = 0h) const {
    std::ofstream(folder_ / name) << "content";
    fs::last_write_time(folder_ / name, fs::file_time_type::clock::now() - age);
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777U;
  }
};

TEST_F(LiveDirectory, IsAccessibleToItsOwnerOnly) {
  const mode_t before = umask(0);
  const Directory directory = Directory::make();
  const File socket = directory.listen(Process::self());
  umask(before);
  EXPECT_EQ(mode_of(folder_), 0700U);
  for (const auto& item : fs::directory_iterator(folder_)) EXPECT_EQ(mode_of(item.path()), 0600U) << item;
  EXPECT_EQ(files(), 1U);
}

TEST_F(LiveDirectory, IsRefusedIfOthersMayEnter) {
  mkdir(folder_.c_str(), 0700);
  chmod(folder_.c_str(), 0750);
  DWELL_EXPECT_ERROR(Directory::make(), errc::io_failed, HasSubstr("others may enter it"));
  DWELL_EXPECT_ERROR(Directory::find(geteuid()), errc::io_failed, HasSubstr("others may enter it"));
}

TEST_F(LiveDirectory, ALinkOrAFileIsRefused) {
  const fs::path real = root_ / "real";
  mkdir(real.c_str(), 0700);
  fs::create_directory_symlink(real, folder_);
  DWELL_EXPECT_ERROR(Directory::make(), errc::io_failed, HasSubstr(folder_.string()));
  fs::remove(folder_);
  std::ofstream(folder_) << "a file";
  DWELL_EXPECT_ERROR(Directory::make(), errc::io_failed, HasSubstr(folder_.string()));
}

TEST_F(LiveDirectory, FolderOfAnotherUserIsRefused) {
  mkdir(folder_.c_str(), 0700);
  DWELL_EXPECT_ERROR(Directory::find(geteuid() + 1), errc::io_failed, HasSubstr("another user"));
}

TEST_F(LiveDirectory, IsCreatedByTheFirstPublisher) { EXPECT_FALSE(Directory::find(geteuid())); }

TEST_F(LiveDirectory, ListsListeningProcesses) {
  const Directory directory = Directory::make();
  EXPECT_TRUE(directory.published().empty());
  const Process self = Process::self();
  {
    const File socket = directory.listen(self);
    EXPECT_THAT(directory.published(), testing::ElementsAre(self));
    EXPECT_TRUE(directory.connect(self));
    directory.withdraw(self);
  }
  EXPECT_FALSE(directory.connect(self));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(files(), 0U);
}

TEST_F(LiveDirectory, ProcessWithAFullBacklogIsListed) {
  const Directory directory = Directory::make();
  const Process self = Process::self();
  const File socket = directory.listen(self);
  std::vector<File> waiting;
  for (;;) {
    File connection = directory.connect(self);
    if (!connection) break;
    waiting.push_back(std::move(connection));
    ASSERT_LT(waiting.size(), 1000U);
  }
  EXPECT_THAT(directory.published(), testing::ElementsAre(self));
  EXPECT_EQ(files(), 1U);
}

TEST_F(LiveDirectory, TheSocketOfADeadProcessIsRemoved) {
  const Directory directory = Directory::make();
  const pid_t child = test::start_child([&] {
    directory.listen(Process::self()).release();
    return raise(SIGKILL);
  });
  test::end_of(child);
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(directory.published().empty());
  EXPECT_EQ(files(), 0U);
}

TEST_F(LiveDirectory, LeftoversOfAKilledPublisherAreRemoved) {
  const Directory directory = Directory::make();
  write("999999999.1.new", 1h);
  write("999999998.1.new");
  EXPECT_TRUE(directory.published().empty());
  EXPECT_FALSE(fs::exists(folder_ / "999999999.1.new"));
  EXPECT_TRUE(fs::exists(folder_ / "999999998.1.new")) << "it may be about to listen";
}

TEST_F(LiveDirectory, KeepsRecentRecordersOfDeadProcessesForADay) {
  const Directory directory = Directory::make();
  for (int i = 0; i < 12; ++i) write("9999999" + std::to_string(10 + i) + ".1.2.flight", std::chrono::hours(2 * i));
  static_cast<void>(directory.published());
  EXPECT_EQ(files(), 8U);
  EXPECT_TRUE(fs::exists(folder_ / "999999917.1.2.flight"));
  EXPECT_FALSE(fs::exists(folder_ / "999999918.1.2.flight"));
  write("999999910.1.2.flight", 25h);
  static_cast<void>(directory.published());
  EXPECT_FALSE(fs::exists(folder_ / "999999910.1.2.flight"));
}

TEST_F(LiveDirectory, RecorderOfReusedPidIsDead) {
  const Directory directory = Directory::make();
  const Process self = Process::self();
  const std::string earlier = std::to_string(self.pid) + "." + std::to_string(self.start - 1) + ".2.flight";
  const std::string own = directory.flight_of(self, 2).filename();
  write(earlier, 48h);
  write(own, 48h);
  static_cast<void>(directory.published());
  EXPECT_FALSE(fs::exists(folder_ / earlier));
  EXPECT_TRUE(fs::exists(folder_ / own));
}

TEST_F(LiveDirectory, OtherFilesAreLeftAlone) {
  const Directory directory = Directory::make();
  for (const char* const name : {"notes", "12.sock", "x.1.sock", "12.1.", "12.1.txt"}) write(name, 48h);
  static_cast<void>(directory.published());
  EXPECT_EQ(files(), 5U);
}

}  // namespace
}  // namespace dwell::live
