#include "live/flight.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dwell/signature.hpp>

#include "device/ring.hpp"
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
    head.ring_slots = kSlots;
    define(5, "add (version 2)", Signature::of<float, std::uint32_t>());
  }
  FlightFile& head() { return *reinterpret_cast<FlightFile*>(bytes_.data()); }
  void define(std::uint32_t opcode, const char* name, const Signature& signature) {
    FlightOperator& op = head().operators[opcode];
    std::strcpy(op.name, name);
    op.parameters = static_cast<std::uint32_t>(signature.parameters().size());
    for (std::uint32_t i = 0; i < std::min<std::size_t>(op.parameters, FlightOperator::kParameters); ++i)
      op.parameter[i] = signature.parameters()[i];
  }
  // Puts a task into the ring.
  void submit(std::uint32_t position, std::uint32_t flags, const std::vector<std::uint32_t>& arguments) {
    std::vector<std::uint32_t> words(device::kHeaderWords);
    words.insert(words.end(), arguments.begin(), arguments.end());
    const auto slots = static_cast<std::uint32_t>(words.size() + device::kSlotWords - 1) / device::kSlotWords;
    words.resize(slots * device::kSlotWords);
    const device::Header header{5, 1, slots, flags, 0};
    words[0] = header.word0();
    words[1] = header.word1();
    auto* const ring = reinterpret_cast<device::Quad*>(bytes_.data() + FlightFile::ring_at(2));
    for (std::uint32_t quad = 0; quad < slots * 4; ++quad) {
      const std::uint32_t at = position + quad / 4;
      ring[device::index_of(at, kShift) * 4 + quad % 4] = {device::lap_of(at, kShift),
                                                           {words[quad * 3], words[quad * 3 + 1], words[quad * 3 + 2]}};
    }
  }
  // An exec of three nodes, in cells 2, 4 and 6: "left", one without a name, a loop.
  void instantiate(std::uint64_t offset, const char* name, std::uint64_t position, bool again = false, std::uint32_t lease = 0) {
    FlightFile& head = this->head();
    FlightExec& exec = head.execs[head.execs_written++ % FlightFile::kExecs];
    exec = {offset, 640, position, head.nodes_taken, 3, lease, again ? 1U : 0U, {}};
    std::strcpy(exec.name, name);
    const std::pair<std::uint32_t, const char*> nodes[] = {{0, "left"}, {1, ""}, {2 | FlightNode::kWhole, "'loop' (while)"}};
    for (const auto& [number, text] : nodes) {
      FlightNode& node = head.nodes[head.nodes_taken++ % FlightFile::kNodes];
      node = {2 + 2 * (number & 3), number, {}, 0, {}};
      std::strcpy(node.name, text);
    }
  }
  static std::uint64_t node(std::uint64_t offset) {
    const std::uint64_t at = offset / 64;
    return at | 5ULL << 32U | FlightEntry::kNode | FlightEntry::kValid;
  }
  // The text of note `number` of worker 0.
  std::string noted(std::uint32_t number, std::uint64_t word, std::uint32_t lease = 12) {
    note(0, number, word);
    reinterpret_cast<FlightEntry*>(bytes_.data() + FlightFile::entries_at())[number % kFlightEntries].lease = lease;
    const Flight flight = read_flight(write());
    const Flight::Task& task = flight.workers.at(0).back();
    return task.name + (task.arguments.empty() ? "" : " " + task.arguments);
  }
  // Writes note `number` of a worker.
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

  static constexpr std::uint32_t kShift = 7;
  static constexpr std::uint32_t kSlots = 1U << kShift;
  std::vector<char> bytes_ = std::vector<char>(FlightFile::bytes(2, kSlots));
  const jit::TemporaryDirectory folder_;
  const std::filesystem::path path_ = folder_.path() / "file";
};

TEST_F(FlightTest, ListsTheLastTasksInOrder) {
  // More notes than entries, across the wrap-around of the numbers.
  for (std::uint32_t i = 0; i < 100; ++i) note(1, ~0U - 49 + i, task(i));
  head().details[0] = {task(98), 12, "", "(0.5, 0x1000[4])"};
  const Flight flight = read_flight(write());
  EXPECT_EQ(flight.pid, 4711);
  EXPECT_EQ(flight.runtime, 3U);
  ASSERT_EQ(flight.workers.size(), 2U);
  EXPECT_TRUE(flight.workers[0].empty());
  // Number 0, behind the largest, marks an empty entry.
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

TEST_F(FlightTest, ListsNodesAndUnknownOperators) {
  std::strcpy(head().failure, "the device failed");
  note(0, 0, 0x89ABCDEFULL | 7ULL << 32U | FlightEntry::kNode | FlightEntry::kValid);
  const Flight flight = read_flight(write());
  ASSERT_EQ(flight.workers[0].size(), 1U);
  EXPECT_TRUE(flight.workers[0][0].node);
  EXPECT_EQ(flight.workers[0][0].offset, 0x89ABCDEFULL * 64);
  EXPECT_EQ(flight.workers[0][0].name, "operator 7");
  EXPECT_THAT(to_string(flight), HasSubstr("the device failed"));
}

TEST_F(FlightTest, EachOpcodeHasAName) {
  define(FlightEntry::kOpcodeMask, "last (version 1)", {});
  note(0, 0, task(1, FlightEntry::kOpcodeMask));
  EXPECT_EQ(read_flight(write()).workers[0].at(0).name, "last (version 1)");
}

TEST_F(FlightTest, TheLaunchOfAGraphIsNoOperator) {
  define(0, "first (version 1)", {});
  note(0, 0, task(3, 0));
  note(0, 1, task(4, 0) | FlightEntry::kLaunch);
  const Flight flight = read_flight(write());
  EXPECT_FALSE(flight.workers[0].at(0).launch);
  EXPECT_TRUE(flight.workers[0].at(1).launch);
  EXPECT_THAT(to_string(flight), HasSubstr("  first (version 1), ticket 3, lease 12\n  a graph, ticket 4, lease 12\n"));
}

TEST_F(FlightTest, ListsNamesAndArgumentsOfNodesByLease) {
  const std::uint64_t node = 0x89ABCDEFULL | 5ULL << 32U | FlightEntry::kNode | FlightEntry::kValid;
  note(0, 0, node);
  note(0, 1, node);
  reinterpret_cast<FlightEntry*>(bytes_.data() + FlightFile::entries_at())->lease = 11;
  note(1, 0, task(0x89ABCDEF));
  head().details[0] = {node, 12, "left: add (version 2)", "(0.5)"};
  EXPECT_THAT(to_string(read_flight(write())), Not(HasSubstr("unknown"))) << "nobody was there to know them";
  std::strcpy(head().failure, "the device failed");
  const std::string text = to_string(read_flight(write()));
  EXPECT_THAT(text, HasSubstr("add (version 2) (arguments unknown), node at 0x226af37bc0, lease 11\n"
                              "  left: add (version 2) (0.5), node at 0x226af37bc0, lease 12"));
  EXPECT_THAT(text, HasSubstr("add (version 2), ticket 2309737967, lease 12"));
}

TEST_F(FlightTest, RingHasArgumentsOfItsTasks) {
  submit(42, 0, {0x40200000, 7});
  EXPECT_EQ(noted(0, task(42)), "add (version 2) (2.5, 7)");
  EXPECT_EQ(noted(1, task(42 + kSlots)), "add (version 2)") << "of the next lap";
  submit(42 + kSlots, 0, {0x3F000000, 8});
  EXPECT_EQ(noted(2, task(42 + kSlots)), "add (version 2) (0.5, 8)");
  EXPECT_EQ(noted(3, task(42)), "add (version 2)") << "of the lap before";
}

TEST_F(FlightTest, TaskOfSeveralSlotsIsReadOnlyIfComplete) {
  define(5, "many (version 1)", Signature(std::vector<Parameter>(20, device::Describe<std::uint32_t>::value)));
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < 20; ++i) words.push_back(i);
  submit(30, 0, words);
  EXPECT_EQ(noted(0, task(30)), "many (version 1) (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, ...)");
  submit(31 + kSlots, 0, {1});
  EXPECT_EQ(noted(1, task(30)), "many (version 1)") << "its second slot is another's";
}

TEST_F(FlightTest, FileWithoutARingHasNoArguments) {
  submit(42, 0, {0x40200000, 7});
  head().ring_slots = 0;
  EXPECT_EQ(noted(0, task(42)), "add (version 2)");
}

TEST_F(FlightTest, TablesNameNodes) {
  constexpr std::uint64_t kOffset = 0x1234'0000;
  instantiate(kOffset, "step", 3);
  EXPECT_EQ(noted(0, node(kOffset + 128)), "left: add (version 2)");
  EXPECT_EQ(noted(1, node(kOffset + 256)), "#1: add (version 2)");
  EXPECT_EQ(noted(2, node(kOffset + 384)), "'loop' (while)");
  EXPECT_EQ(noted(3, node(kOffset + 512)), "add (version 2)") << "no node that is known";
  EXPECT_EQ(noted(4, node(kOffset + 640)), "add (version 2)") << "behind the exec";
}

TEST_F(FlightTest, TablesHaveArgumentsOfNodes) {
  instantiate(0x10000, "step", 3);
  FlightNode* const nodes = head().nodes;
  for (std::size_t i = 0; i < 3; ++i) std::ranges::copy(std::array{0x40200000U, 7U}, nodes[i].word);
  nodes[0].words = 2;
  nodes[1].words = 2 | FlightNode::kSet;
  nodes[2].words = 2;
  EXPECT_EQ(noted(0, node(0x10080)), "left: add (version 2) (2.5, 7)");
  EXPECT_EQ(noted(1, node(0x10100)), "#1: add (version 2) (2.5, 7) as set last");
  EXPECT_EQ(noted(2, node(0x10180)), "'loop' (while)") << "which calls no operator";
  nodes[0].words = 1;
  EXPECT_EQ(noted(3, node(0x10080)), "left: add (version 2) (2.5...)");
  define(5, "many (version 1)", Signature(std::vector<Parameter>(20, device::Describe<std::uint32_t>::value)));
  nodes[0].words = 20;  // more than are recorded
  EXPECT_EQ(noted(4, node(0x10080)), "left: many (version 1) (1075838976, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ...)");
}

TEST_F(FlightTest, NodesAreNamedByTheExecOfTheirTime) {
  instantiate(0x10000, "before", 3);
  instantiate(0x10080, "behind", 9, true, 12);
  EXPECT_EQ(noted(0, node(0x10100), 11), "#1: add (version 2)");
  EXPECT_EQ(noted(1, node(0x10100), 12), "add (version 2)") << "of either";
  EXPECT_EQ(noted(2, node(0x10100), 13), "left: add (version 2)");
}

TEST_F(FlightTest, OverwrittenNamesAreOmitted) {
  instantiate(0x10000, "first", 3);
  head().nodes_taken += FlightFile::kNodes - 2;
  EXPECT_EQ(noted(0, node(0x10080)), "add (version 2)");
  EXPECT_EQ(noted(1, node(0x10100)), "#1: add (version 2)");
  for (std::size_t i = 0; i < FlightFile::kExecs - 2; ++i) instantiate(0x100000, "others", 3);
  EXPECT_EQ(noted(2, node(0x10100)), "add (version 2)") << "its nodes are gone";
  submit(42, device::flag::share | device::source::launch << 12U, {0x10000, 0, 0});
  EXPECT_EQ(noted(3, task(42, 0) | FlightEntry::kLaunch), "graph 'first'");
  instantiate(0x100000, "others", 3);
  EXPECT_EQ(noted(4, task(42, 0) | FlightEntry::kLaunch), "a graph") << "the next one may be half written there";
}

TEST_F(FlightTest, LaunchesAreNamedByTheirGraphs) {
  instantiate(0x10000, "before", 3);
  instantiate(0x10000, "behind", 43, true, 12);
  instantiate(0x20000, "", 3);
  for (const std::uint32_t position : {42U, 43U}) submit(position, device::flag::share | device::source::launch << 12U, {0x10000, 0, 0});
  submit(44, device::flag::share | device::source::launch << 12U, {0x20000, 0, 0});
  EXPECT_EQ(noted(0, task(42, 0) | FlightEntry::kLaunch), "graph 'before'");
  EXPECT_EQ(noted(1, task(43, 0) | FlightEntry::kLaunch), "graph 'behind'");
  EXPECT_EQ(noted(2, task(44, 0) | FlightEntry::kLaunch), "a graph") << "without a name";
}

TEST_F(FlightTest, OtherFilesAreRefused) {
  DWELL_EXPECT_ERROR(read_flight(folder_.path() / "none"), errc::io_failed, HasSubstr("cannot be read"));
  DWELL_EXPECT_ERROR(read_flight(write(100)), errc::io_failed, HasSubstr("too short"));
  DWELL_EXPECT_ERROR(read_flight(write(bytes_.size() - 1)), errc::io_failed, HasSubstr("cut off"));
  head().ring_slots = ~0ULL;
  DWELL_EXPECT_ERROR(read_flight(write()), errc::io_failed, HasSubstr("damaged"));
  head().ring_slots = FlightFile::kMostRingSlots;
  DWELL_EXPECT_ERROR(read_flight(write()), errc::io_failed, HasSubstr("cut off"));
  head().workers = ~0U;
  DWELL_EXPECT_ERROR(read_flight(write()), errc::io_failed, HasSubstr("damaged"));
  head().version = 9;
  DWELL_EXPECT_ERROR(read_flight(write()), errc::io_failed, HasSubstr("version 9"));
  head().magic = 1;
  DWELL_EXPECT_ERROR(read_flight(write()), errc::io_failed, HasSubstr("no flight recorder"));
}

// Reading a pipe would block, and reading a device would not end.
TEST_F(FlightTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  for (const std::filesystem::path& path : {folder_.path() / "pipe", std::filesystem::path("/dev/zero")})
    DWELL_EXPECT_ERROR(read_flight(path), errc::io_failed, HasSubstr("not a regular file"));
  DWELL_EXPECT_ERROR(read_flight(folder_.path()), errc::io_failed, HasSubstr("a folder"));
}

// Numbers 2^31 apart have no order: a sort by distance would leave its range.
TEST_F(FlightTest, DamagedNumbersAreSortedSafely) {
  std::vector<FlightEntry> entries;
  for (std::uint32_t i = 0; i < 4096; ++i) entries.push_back({(i % 3 << 31U) + i * 0x55555557U, i, 0, 0});
  sort_oldest_first(entries);
  std::uint64_t sum = 0;
  for (const FlightEntry& entry : entries) sum += entry.low;
  EXPECT_EQ(sum, 4096U * 4095 / 2);
  const std::uint32_t first = entries.front().number;
  EXPECT_TRUE(std::ranges::is_sorted(entries, {}, [&](const FlightEntry& entry) { return entry.number - first; }));
}

TEST_F(FlightTest, NodeCountsAreChecked) {
  instantiate(0, "step", 3);
  head().execs[0].bytes = ~0ULL;
  head().execs[0].nodes = ~0U;
  head().nodes_taken = ~0ULL;
  for (std::uint32_t i = 0; i < kFlightEntries; ++i) note(0, i, node(0x7000'0000'0000 + i * std::uint64_t{64}));
  EXPECT_EQ(read_flight(write()).workers[0].size(), kFlightEntries);
}

TEST_F(FlightTest, TextHasNoTerminalControls) {
  std::strcpy(head().command, "\x1b[2J");
  std::strcpy(head().device, "\x9b");
  std::strcpy(head().failure, "failed\n\x1b]0;x\x07");
  define(5, "\x1b[31m\xF6", Signature::of<>());
  note(0, 0, task(1));
  const std::string text = to_string(read_flight(write()));
  EXPECT_EQ(text.find_first_of("\x1b\x07\x9b\xF6"), std::string::npos) << text;
  EXPECT_THAT(text, HasSubstr("failed\n?]0;x?"));
}

}  // namespace
}  // namespace dwell::live
