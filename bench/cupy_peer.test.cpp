// The use of CuPy's answers, with a stand-in for CuPy that runs nothing.
#include "bench/cupy_peer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "jit/base/temporary_directory.hpp"

namespace dwell::bench {
namespace {

using testing::HasSubstr;

// As much of CuPy as the peer uses. `left` is an expression for what a kernel leaves instead of `value`.
std::string stand_in(const std::string& left) {
  return R"py(
import os, re
assert os.path.isdir(os.environ["CUPY_CACHE_DIR"])
uint32 = None
cell = [0]
def zeros(count, dtype): return cell
def clear_memo(): pass
class RawModule:
    def __init__(self, code): self.value = int(re.search(r"to = (\d+)", code)[1])
    def get_function(self, name):
        value = self.value
        def launch(grid, block, arguments): arguments[0][0] = )py" +
         left + R"py(
        return launch
class cuda:
    class Device:
        def __init__(self, ordinal=0): pass
        def use(self): pass
        def synchronize(self): pass
)py";
}

class CupyPeerTest : public testing::Test {
 protected:
  std::optional<CupyTimes> time_with(const std::string& module) {
    std::ofstream(folder_.path() / "cupy.py") << module;
    return time_cupy(0, 3, &why_, "python3", {"PYTHONPATH=" + folder_.path().string()});
  }
  jit::TemporaryDirectory folder_;
  std::string why_;
};

TEST_F(CupyPeerTest, TakesTheTimesOfBothRounds) {
  const auto times = time_with(stand_in("value"));
  ASSERT_TRUE(times) << why_;
  EXPECT_EQ(times->cold.size(), 3U);
  EXPECT_EQ(times->warm.size(), 3U);
  EXPECT_GT(times->cold[0], 0);
}

TEST_F(CupyPeerTest, ReportsWhyThereIsNoPeer) {
  EXPECT_FALSE(time_with(stand_in("value + 1")));
  EXPECT_THAT(why_, HasSubstr("wrong value"));
  EXPECT_FALSE(time_with("raise ImportError('libnvrtc is too old')"));
  EXPECT_EQ(why_, "ImportError: libnvrtc is too old");
  EXPECT_FALSE(time_with("import sys\nsys.exit(3)"));
  EXPECT_THAT(why_, HasSubstr("python3 failed"));
  EXPECT_FALSE(time_cupy(0, 3, &why_, "/nowhere/python3"));
  EXPECT_THAT(why_, HasSubstr("cannot be started"));
}

}  // namespace
}  // namespace dwell::bench
