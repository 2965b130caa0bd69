#include "bench/staged_files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace dwell::bench {
namespace {

namespace fs = std::filesystem;

class StagedFilesTest : public testing::Test {
 protected:
  StagedFilesTest() : folder_(fs::path(testing::TempDir()) / ("dwell_staged_" + std::to_string(getpid()))) {
    fs::create_directory(folder_);
  }
  ~StagedFilesTest() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::ptrdiff_t count() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

TEST_F(StagedFilesTest, AppearTogetherWhenCommitted) {
  std::ofstream(folder_ / "a") << "old";
  StagedFiles files;
  files.add(folder_ / "a", [](std::ostream& to) { to << "new"; });
  files.add(folder_ / "b", [](std::ostream& to) { to << "more"; });
  EXPECT_EQ(content("a"), "old");
  EXPECT_FALSE(fs::exists(folder_ / "b"));
  files.commit();
  EXPECT_EQ(content("a"), "new");
  EXPECT_EQ(content("b"), "more");
  EXPECT_EQ(count(), 2);
}

TEST_F(StagedFilesTest, LeaveNothingBehindWhenNotCommitted) {
  {
    StagedFiles files;
    files.add(folder_ / "a", [](std::ostream& to) { to << "new"; });
    EXPECT_THROW(files.add(folder_ / "b", [](std::ostream& to) { to.setstate(std::ios::badbit); }), std::runtime_error);
  }
  EXPECT_EQ(count(), 0);
}

TEST_F(StagedFilesTest, LargeAndSmallWritesKeepTheirOrder) {
  const std::string large(300'000, 'x');
  StagedFiles files;
  files.add(folder_ / "a", [&](std::ostream& to) { to << 1 << large << 2 << 'y' << large; });
  files.commit();
  EXPECT_EQ(content("a"), "1" + large + "2y" + large);
}

TEST_F(StagedFilesTest, AFileThatCannotBeWrittenWholeIsAnError) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{.rlim_cur = 100'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  StagedFiles files;
  EXPECT_THROW(files.add(folder_ / "a", [](std::ostream& to) { to << std::string(200'000, 'x'); }), std::runtime_error);
  EXPECT_THROW(files.add(folder_ / "b", [](std::ostream& to) { to << std::string(100'000, 'x') << 1; }), std::runtime_error);
  setrlimit(RLIMIT_FSIZE, &before);
  static_cast<void>(std::signal(SIGXFSZ, handler));
}

// Others may write to the folder, and have planted links at the names that the process id or the target's name gives away.
TEST_F(StagedFilesTest, PlantedLinksAreNotFollowed) {
  std::ofstream(folder_ / "precious") << "precious";
  for (const std::string& name : {std::string("a"), std::string("a.new"), ".a." + std::to_string(getpid()) + ".part"})
    fs::create_symlink("precious", folder_ / name);
  StagedFiles files;
  files.add(folder_ / "a", [](std::ostream& to) { to << "new"; });
  files.commit();
  EXPECT_EQ(content("precious"), "precious");
  EXPECT_EQ(content("a"), "new");
  EXPECT_FALSE(fs::is_symlink(folder_ / "a"));
}

TEST_F(StagedFilesTest, AreRefusedEarly) {
  EXPECT_THROW(StagedFiles::check(folder_), std::runtime_error);
  EXPECT_THROW(StagedFiles::check(folder_ / "none" / "a"), std::runtime_error);
  StagedFiles::check(folder_ / "a");
  StagedFiles::check("in_the_current_folder");
}

}  // namespace
}  // namespace dwell::bench
