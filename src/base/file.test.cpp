#include "base/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "jit/base/temporary_directory.hpp"

namespace dwell {
namespace {

class ReadFileTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& text) const {
    std::ofstream(folder_.path() / "file", std::ios::binary) << text;
    return folder_.path() / "file";
  }
  jit::TemporaryDirectory folder_;
};

TEST_F(ReadFileTest, ReturnsTheWholeContent) {
  EXPECT_EQ(read_file(file(""), 10)->size(), 0U);
  EXPECT_EQ(read_file(file("text"), 10)->size(), 4U);
  EXPECT_EQ(read_file(file("text"), 4)->size(), 4U);
  EXPECT_GT(read_file("/proc/self/status", 1U << 20U)->size(), 100U) << "a file that says that it is empty";
}

TEST_F(ReadFileTest, RefusesLongFiles) {
  EXPECT_FALSE(read_file(file("text"), 3));
  EXPECT_FALSE(read_file("/proc/self/status", 100));
  const std::filesystem::path huge = file("");
  ASSERT_EQ(truncate(huge.c_str(), off_t{1} << 42), 0);
  EXPECT_FALSE(read_file(huge, 1U << 30U));
}

TEST_F(ReadFileTest, ReadsRegularFilesOnly) {
  ASSERT_EQ(mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_file(folder_.path() / "pipe", 10));
  EXPECT_FALSE(read_file(folder_.path(), 10));
  EXPECT_FALSE(read_file(folder_.path() / "missing", 10));
}

TEST_F(ReadFileTest, ReportsWhyReadingFails) {
  const auto why = [](const std::filesystem::path& path, FileKinds kinds = FileKinds::regular) {
    std::string text;
    EXPECT_FALSE(read_file(path, 3, &text, kinds));
    return text;
  };
  ASSERT_EQ(mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(why(folder_.path() / "pipe"), "it is not a regular file");
  EXPECT_EQ(why("/dev/zero"), "it is not a regular file");
  EXPECT_EQ(why(folder_.path()), "it is a folder");
  EXPECT_EQ(why(folder_.path(), FileKinds::any), "it is a folder");
  EXPECT_EQ(why(folder_.path() / "missing"), "No such file or directory");
  EXPECT_EQ(why(file("text")), "it is longer than 3 bytes");
}

TEST_F(ReadFileTest, EndlessFilesAreTooLong) {
  std::string why;
  EXPECT_FALSE(read_file("/dev/zero", 100'000, &why, FileKinds::any));
  EXPECT_EQ(why, "it is longer than 100000 bytes");
  EXPECT_EQ(read_file("/dev/null", 0, &why, FileKinds::any)->size(), 0U);
}

TEST(File, ClosingKeepsErrno) {
  errno = ENOSPC;
  { const File none(1'000'000); }
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace dwell
