#include "staged_files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace dwell::tool {
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

TEST_F(StagedFilesTest, AreRefusedEarly) {
  EXPECT_THROW(StagedFiles::check(folder_), std::runtime_error);
  EXPECT_THROW(StagedFiles::check(folder_ / "none" / "a"), std::runtime_error);
  StagedFiles::check(folder_ / "a");
  StagedFiles::check("in_the_current_folder");
}

}  // namespace
}  // namespace dwell::tool
