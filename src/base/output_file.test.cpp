#include "base/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "jit/base/temporary_directory.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Links = OutputFile::Links;

class OutputFileTest : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  std::string content(const std::string& name) const {
    std::ifstream file(at(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()); }
  static void write(const fs::path& target, Links links, const std::string& text) {
    OutputFile file(target, links);
    file.stream() << text;
    file.finish();
    file.commit();
  }
  // Writes to a pipe. Returns what another thread reads from it.
  std::string through_pipe(const std::string& name, Links links, const std::string& text) const {
    std::string got;
    std::thread reader([&] { got = content(name); });
    write(at(name), links, text);
    reader.join();
    return got;
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status {};
    return lstat(path.c_str(), &status) == 0 ? status.st_mode : 0;
  }

 private:
  jit::TemporaryDirectory folder_;
};

TEST_F(OutputFileTest, WritesAllOrNothing) {
  std::ofstream(at("a")) << "old";
  {
    OutputFile file(at("a"), Links::replace);
    file.stream() << "half";
    file.stream().flush();
    EXPECT_EQ(content("a"), "old");
  }
  EXPECT_EQ(files(), 1);
  write(at("a"), Links::replace, "new");
  EXPECT_EQ(content("a"), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, PipesAreNotReplaced) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const std::string text(300'000, 'x');
  EXPECT_EQ(through_pipe("pipe", Links::replace, text), text);
  fs::create_symlink("pipe", at("link"));
  for (const Links links : {Links::replace, Links::follow}) {
    EXPECT_EQ(through_pipe("link", links, "text"), "text");
    EXPECT_TRUE(S_ISLNK(mode_of(at("link"))));
  }
  EXPECT_TRUE(S_ISFIFO(mode_of(at("pipe"))));
}

TEST_F(OutputFileTest, DevicesAreNotReplacedAndAFullOneIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  fs::create_symlink("/dev/full", at("full"));
  for (const Links links : {Links::replace, Links::follow}) {
    OutputFile file(at("full"), links);
    file.stream() << std::string(100'000, 'x');
    errno = EAGAIN;  // as left by an unrelated call
    DWELL_EXPECT_ERROR(file.finish(), errc::io_failed, AllOf(HasSubstr(at("full").string()), HasSubstr("No space left")));
    EXPECT_TRUE(S_ISLNK(mode_of(at("full"))));
  }
}

TEST_F(OutputFileTest, LinksToFilesAreReplacedOrFollowed) {
  std::ofstream(at("target")) << "old";
  fs::create_symlink("target", at("link"));
  write(at("link"), Links::follow, "followed");
  EXPECT_TRUE(S_ISLNK(mode_of(at("link"))));
  EXPECT_EQ(content("target"), "followed");
  write(at("link"), Links::replace, "replaced");
  EXPECT_TRUE(S_ISREG(mode_of(at("link"))));
  EXPECT_EQ(content("target"), "followed");
  fs::create_symlink("none", at("dangling"));
  write(at("dangling"), Links::follow, "made");
  EXPECT_EQ(content("none"), "made");
}

TEST_F(OutputFileTest, AFileKeepsItsPermissions) {
  std::ofstream(at("secret")) << "old";
  ASSERT_EQ(chmod(at("secret").c_str(), 0600), 0);
  write(at("secret"), Links::replace, "new");
  EXPECT_EQ(mode_of(at("secret")) & 0777U, 0600U);
}

TEST_F(OutputFileTest, FoldersAndDiscsAreRefused) {
  DWELL_EXPECT_ERROR(OutputFile::check(at("."), Links::replace), errc::io_failed, HasSubstr("a folder"));
  DWELL_EXPECT_ERROR(OutputFile(at("none") / "a", Links::replace), errc::io_failed, HasSubstr("no folder"));
  if (mknod(at("disc").c_str(), S_IFBLK | 0600, makedev(7, 255)) != 0) GTEST_SKIP() << "only root makes devices";
  DWELL_EXPECT_ERROR(OutputFile::check(at("disc"), Links::replace), errc::io_failed, HasSubstr("a disc"));
  EXPECT_FALSE(open_to_write(at("disc"), 0, 0, std::chrono::milliseconds(0)));
}

TEST_F(OutputFileTest, PipesWithoutReadersDoNotBlockForEver) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const File file = open_to_write(at("pipe"), O_APPEND | O_CREAT, 0600, std::chrono::milliseconds(20));
  EXPECT_EQ(errno, ENXIO);
  EXPECT_FALSE(file);
}

TEST_F(OutputFileTest, TheFirstFailureIsKept) {
  FileBuffer buffer(File(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  std::ostream out(&buffer);
  out << std::string(100'000, 'x');
  errno = EAGAIN;
  EXPECT_FALSE(buffer.close());
  EXPECT_EQ(buffer.error(), EBADF);
}

}  // namespace
}  // namespace dwell
