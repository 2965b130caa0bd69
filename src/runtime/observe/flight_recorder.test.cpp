#include "runtime/observe/flight_recorder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "live/directory.hpp"
#include "tests/unit/breakable_backend.hpp"
#include "tests/unit/live.hpp"

namespace dwell::runtime {
namespace {

class FlightRecorderFiles : public test::LiveTest {
 protected:
  test::BreakableBackend backend_{std::make_shared<test::BreakableDevice>()};
};

TEST_F(FlightRecorderFiles, GoWithTheirObjects) {
  {
    const FlightRecorder one(backend_, 1, "cpu", 2, {});
    EXPECT_EQ(files(), 1U);
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(FlightRecorderFiles, OfFailuresTheYoungestStay) {
  std::filesystem::path last;
  for (unsigned i = 0; i < live::Directory::kFlights + 3; ++i) last = FlightRecorder(backend_, i, "cpu", 2, {}).keep("it failed");
  EXPECT_EQ(files(), live::Directory::kFlights);
  EXPECT_TRUE(std::filesystem::exists(last));
}

TEST_F(FlightRecorderFiles, AFailureThatIsToldTwiceIsOne) {
  FlightRecorder one(backend_, 1, "cpu", 2, {});
  for (unsigned i = 0; i <= live::Directory::kFlights; ++i) EXPECT_TRUE(std::filesystem::exists(one.keep("it failed")));
}

}  // namespace
}  // namespace dwell::runtime
