#include "runtime/observe/flight_recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "device/ring.hpp"
#include "live/directory.hpp"
#include "live/flight.hpp"
#include "tests/unit/breakable_backend.hpp"
#include "tests/unit/live.hpp"

namespace dwell::runtime {
namespace {

class FlightRecorderFiles : public test::LiveTest {
 protected:
  static std::string none(std::uint32_t, std::uint32_t) { return {}; }
  const FlightRecorder::Arguments kNone = none;
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
  for (unsigned i = 0; i < live::Directory::kFlights + 3; ++i) last = FlightRecorder(backend_, i, "cpu", 2, {}).keep("it failed", kNone);
  EXPECT_EQ(files(), live::Directory::kFlights);
  EXPECT_TRUE(std::filesystem::exists(last));
}

TEST_F(FlightRecorderFiles, AFailureThatIsToldTwiceIsOne) {
  FlightRecorder one(backend_, 1, "cpu", 2, {});
  for (unsigned i = 0; i <= live::Directory::kFlights; ++i) EXPECT_TRUE(std::filesystem::exists(one.keep("it failed", kNone)));
}

TEST_F(FlightRecorderFiles, TellTheArgumentsOfTheLastTasksFirst) {
  constexpr std::uint32_t kWorkers = 40;
  FlightRecorder one(backend_, 1, "cpu", kWorkers, {});
  one.assign(7, "add (version 2)");
  auto* const entries = reinterpret_cast<device::Quad*>(one.device());
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    for (std::uint32_t i = 0; i < live::kFlightEntries; ++i)
      entries[worker * live::kFlightEntries + i] = {
          i + 1, {worker * 1000 + i, 7U | static_cast<std::uint32_t>(live::FlightEntry::kValid >> 32U), 1}};
  const auto path = one.keep("it failed", [](std::uint32_t opcode, std::uint32_t position) {
    return position % 2 == 0 ? std::string() : "(" + std::to_string(opcode) + ", " + std::to_string(position) + ")" + std::string(200, 'x');
  });
  const live::Flight flight = live::read_flight(path);
  ASSERT_EQ(flight.workers.size(), kWorkers);
  std::size_t told = 0;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    const auto& tasks = flight.workers[worker];
    ASSERT_EQ(tasks.size(), live::kFlightEntries);
    EXPECT_EQ(tasks.back().name, "add (version 2)");
    EXPECT_THAT(tasks.back().arguments, testing::StartsWith("(7, " + std::to_string(worker * 1000 + 63) + ")x"));
    EXPECT_LT(tasks.back().arguments.size(), 128U);
    told += static_cast<std::size_t>(std::ranges::count_if(tasks, [](const auto& task) { return !task.arguments.empty(); }));
  }
  EXPECT_EQ(told, live::FlightFile::kArguments) << "of 1280";
}

}  // namespace
}  // namespace dwell::runtime
