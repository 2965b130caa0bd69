#include "jit/host/working_folder.hpp"

#include <gtest/gtest.h>

#include "tests/unit/child.hpp"
#include "tests/unit/operators.hpp"

#include "jit/host/host_compiler.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

fs::path header_in(const WorkingFolder::Job& job) { return job.include() / "dwell" / "device.hpp"; }

TEST(WorkingFolder, IsMadeOnceAndHoldsTheHeaders) {
  WorkingFolder folder;
  const WorkingFolder::Job one = folder.start();
  const WorkingFolder::Job two = folder.start();
  EXPECT_EQ(one.include(), two.include());
  EXPECT_NE(one.path(), two.path());
  EXPECT_TRUE(fs::exists(header_in(one)));
}

TEST(WorkingFolder, IsMadeAgainAfterItWasRemoved) {
  WorkingFolder folder;
  const WorkingFolder::Job one = folder.start();
  fs::remove_all(one.include().parent_path());
  EXPECT_FALSE(one.stands(header_in(one)));
  const WorkingFolder::Job two = folder.start();
  EXPECT_TRUE(two.stands(header_in(two)));
}

TEST(WorkingFolder, IsMadeAgainWhenOneHeaderIsGone) {
  WorkingFolder folder;
  const WorkingFolder::Job one = folder.start();
  fs::remove(header_in(one));
  const WorkingFolder::Job two = folder.start();
  EXPECT_NE(one.include(), two.include());
  EXPECT_TRUE(fs::exists(header_in(two)));
}

TEST(WorkingFolder, ForkedChildrenMakeTheirOwn) {
  WorkingFolder folder;
  const WorkingFolder::Job one = folder.start();
  const int end = test::run_child([&] {
    const fs::path inherited = one.include();
    const WorkingFolder::Job own = folder.start();
    return own.include() != inherited && fs::exists(header_in(own)) ? 0 : 1;
  });
  EXPECT_TRUE(test::ended_well(end));
  EXPECT_TRUE(one.stands(header_in(one)));
}

}  // namespace
}  // namespace dwell::jit
