#include "live/flight.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "jit/base/temporary_directory.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::live {
namespace {

using testing::HasSubstr;
using testing::Not;

class FlightTest : public testing::Test {
 protected:
  FlightTest() {
    auto& head = this->head();
    head.magic = FlightFile::kMagic;
    head.version = FlightFile::kVersion;
    head.workers = 2;
    head.runtime = 3;
    head.pid = 4711;
    std::strcpy(head.command, "solver");
    std::strcpy(head.device, "cuda:0");
    std::strcpy(head.names[5], "add (version 2)");
  }
  FlightFile& head() { return *reinterpret_cast<FlightFile*>(bytes_.data()); }
  // The note with this number of a worker.
  void note(std::uint32_t worker, std::uint32_t number, std::uint64_t word) {
    auto* const entries = reinterpret_cast<FlightEntry*>(bytes_.data() + FlightFile::entries_at());
    entries[worker * kFlightEntries + number % kFlightEntries] = {number + 1, static_cast<std::uint32_t>(word),
                                                                  static_cast<std::uint32_t>(word >> 32U), 12};
  }
  static std::uint64_t task(std::uint32_t position, std::uint64_t opcode = 5) { return position | opcode << 32U | FlightEntry::kValid; }
  std::filesystem::path write(std::size_t bytes) {
    std::ofstream(path_, std::ios::binary).write(bytes_.data(), static_cast<std::streamsize>(bytes));
    return path_;
  }
  std::filesystem::path write() { return write(bytes_.size()); }

  std::vector<char> bytes_ = std::vector<char>(FlightFile::bytes(2));
  const jit::TemporaryDirectory folder_;
  const std::filesystem::path path_ = folder_.path() / "file";
};

TEST_F(FlightTest, TellsTheLastTasksInOrder) {
  // More than there are places, and over the end of the numbers.
  for (std::uint32_t i = 0; i < 100; ++i) note(1, ~0U - 49 + i, task(i));
  head().details[0] = {task(98), 12, "", "(0.5, 0x1000[4])"};
  const Flight flight = read_flight(write());
  EXPECT_EQ(flight.pid, 4711);
  EXPECT_EQ(flight.runtime, 3U);
  ASSERT_EQ(flight.workers.size(), 2U);
  EXPECT_TRUE(flight.workers[0].empty());
  // One of them has number 0 behind the largest, which no entry shows.
  ASSERT_GE(flight.workers[1].size(), kFlightEntries - 1);
  EXPECT_EQ(flight.workers[1].back().position, 99U);
  EXPECT_EQ(flight.workers[1].back().name, "add (version 2)");
  for (std::size_t i = 1; i < flight.workers[1].size(); ++i) EXPECT_GT(flight.workers[1][i].position, flight.workers[1][i - 1].position);
  const std::string text = to_string(flight, 2);
  EXPECT_THAT(text, HasSubstr("ticket 99, lease 12"));
  EXPECT_THAT(text, HasSubstr("add (version 2) (0.5, 0x1000[4]), ticket 98"));
  EXPECT_THAT(text, Not(HasSubstr("ticket 97")));
  EXPECT_THAT(text, HasSubstr("ended from outside"));
}

TEST_F(FlightTest, TellsNodesAndUnknownOperators) {
  std::strcpy(head().failure, "the device failed");
  note(0, 0, 0x89ABCDEFULL | 7ULL << 32U | 0x123ULL << 48U | FlightEntry::kNode | FlightEntry::kValid);
  const Flight flight = read_flight(write());
  ASSERT_EQ(flight.workers[0].size(), 1U);
  EXPECT_TRUE(flight.workers[0][0].node);
  EXPECT_EQ(flight.workers[0][0].address, 0x12389ABCDEFULL * 64);
  EXPECT_EQ(flight.workers[0][0].name, "operator 7");
  EXPECT_THAT(to_string(flight), HasSubstr("the device failed"));
}

TEST_F(FlightTest, EachOpcodeHasAName) {
  std::strcpy(head().names[FlightEntry::kOpcodeMask], "last (version 1)");
  note(0, 0, task(1, FlightEntry::kOpcodeMask));
  EXPECT_EQ(read_flight(write()).workers[0].at(0).name, "last (version 1)");
}

TEST_F(FlightTest, TheLaunchOfAGraphIsNoOperator) {
  std::strcpy(head().names[0], "first (version 1)");
  note(0, 0, task(3, 0));
  note(0, 1, task(4, 0) | FlightEntry::kLaunch);
  const Flight flight = read_flight(write());
  EXPECT_FALSE(flight.workers[0].at(0).launch);
  EXPECT_TRUE(flight.workers[0].at(1).launch);
  EXPECT_THAT(to_string(flight), HasSubstr("  first (version 1), ticket 3, lease 12\n  a graph, ticket 4, lease 12\n"));
}

TEST_F(FlightTest, TellsNamesAndArgumentsOfNodesOfTheirLeases) {
  const std::uint64_t node = 0x89ABCDEFULL | 5ULL << 32U | 0x123ULL << 48U | FlightEntry::kNode | FlightEntry::kValid;
  note(0, 0, node);
  note(0, 1, node);
  reinterpret_cast<FlightEntry*>(bytes_.data() + FlightFile::entries_at())->lease = 11;
  note(1, 0, task(0x89ABCDEF));
  head().details[0] = {node, 12, "left: add (version 2)", "(0.5)"};
  EXPECT_THAT(to_string(read_flight(write())), Not(HasSubstr("unknown"))) << "nobody was there to know them";
  std::strcpy(head().failure, "the device failed");
  const std::string text = to_string(read_flight(write()));
  EXPECT_THAT(text, HasSubstr("add (version 2) (arguments unknown), node at 0x48e26af37bc0, lease 11\n"
                              "  left: add (version 2) (0.5), node at 0x48e26af37bc0, lease 12"));
  EXPECT_THAT(text, HasSubstr("add (version 2), ticket 2309737967, lease 12"));
}

TEST_F(FlightTest, OtherFilesAreRefused) {
  DWELL_EXPECT_ERROR(read_flight(folder_.path() / "none"), errc::io_failed, HasSubstr("cannot be read"));
  DWELL_EXPECT_ERROR(read_flight(write(100)), errc::io_failed, HasSubstr("too short"));
  DWELL_EXPECT_ERROR(read_flight(write(bytes_.size() - 1)), errc::io_failed, HasSubstr("cut off"));
  head().version = 9;
  DWELL_EXPECT_ERROR(read_flight(write()), errc::io_failed, HasSubstr("version 9"));
  head().magic = 1;
  DWELL_EXPECT_ERROR(read_flight(write()), errc::io_failed, HasSubstr("no flight recorder"));
}

}  // namespace
}  // namespace dwell::live
