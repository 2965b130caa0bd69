#include "jit/base/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/child.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryDirectory, IsRemovedWithItsContent) {
  fs::path path;
  {
    const TemporaryDirectory folder;
    path = folder.path();
    EXPECT_TRUE(folder.stands());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    fs::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "b" / "file") << "text";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryDirectory, ForkedChildrenDoNotRemoveIt) {
  TemporaryDirectory folder;
  const int end = test::run_child([&] {
    const TemporaryDirectory inherited = std::move(folder);
    return inherited.stands() ? 1 : 0;
  });
  EXPECT_TRUE(test::ended_well(end));
  EXPECT_TRUE(folder.stands());
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST(TemporaryDirectory, DetectsItsRemovalAndSparesItsSuccessor) {
  fs::path path;
  {
    const TemporaryDirectory folder;
    path = folder.path();
    fs::remove(path);
    EXPECT_FALSE(folder.stands());
    fs::create_directory(path);
    EXPECT_FALSE(folder.stands()) << "another folder of the same name";
  }
  EXPECT_TRUE(fs::remove(path));
}

}  // namespace
}  // namespace dwell::jit
