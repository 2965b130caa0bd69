#include "runtime/observe/flight_recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "device/ring.hpp"
#include "live/directory.hpp"
#include "live/flight.hpp"
#include "tests/unit/breakable_backend.hpp"
#include "tests/unit/live.hpp"

namespace dwell::runtime {
namespace {

class FlightRecorderFiles : public test::LiveTest {
 protected:
  static FlightRecorder::Details none(const live::FlightEntry&) { return {}; }
  const FlightRecorder::DetailsOf kNone = none;
  static constexpr std::uint64_t kSlots = 128;
  test::BreakableBackend backend_{std::make_shared<test::BreakableDevice>()};
};

TEST_F(FlightRecorderFiles, AreRemovedWithTheirObjects) {
  {
    const FlightRecorder one(backend_, 1, "cpu", 2, kSlots, {});
    EXPECT_EQ(files(), 1U);
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(FlightRecorderFiles, KeepTheLatestFailures) {
  std::filesystem::path last;
  for (unsigned i = 0; i < live::Directory::kFlights + 3; ++i)
    last = FlightRecorder(backend_, i, "cpu", 2, kSlots, {}).keep("it failed", kNone);
  EXPECT_EQ(files(), live::Directory::kFlights);
  EXPECT_TRUE(std::filesystem::exists(last));
}

// A device that cannot reach memory mapped by the process.
class UnpinnableBackend final : public test::BreakableBackend {
 public:
  using BreakableBackend::BreakableBackend;
  std::unique_ptr<backend::Allocation> pin(void*, std::size_t, std::shared_ptr<void>) override {
    throw Error(kind, "memory of this kind cannot be pinned");
  }

  errc kind = errc::unsupported;
};

TEST_F(FlightRecorderFiles, AreWrittenOnFailureWithoutPinnedMemory) {
  for (const errc kind : {errc::unsupported, errc::invalid_argument}) {
    UnpinnableBackend backend(std::make_shared<test::BreakableDevice>());
    backend.kind = kind;
    std::string warned;
    std::filesystem::path path;
    {
      FlightRecorder one(backend, 1, "cpu", 1, kSlots, [&](std::string_view why) { warned = why; });
      EXPECT_EQ(warned, "") << "nothing is lost as long as the process lives";
      EXPECT_EQ(files(), 0U);
      one.assign(7, "add (version 2)", Signature::of<float>());
      reinterpret_cast<device::Quad*>(one.device())[0] = {1, {42, 7U | static_cast<std::uint32_t>(live::FlightEntry::kValid >> 32U), 3}};
      path = one.keep("it failed", kNone);
    }
    const live::Flight flight = live::read_flight(path);
    EXPECT_EQ(flight.failure, "it failed");
    ASSERT_EQ(flight.workers.at(0).size(), 1U);
    EXPECT_EQ(flight.workers[0][0].name, "add (version 2)");
    EXPECT_EQ(flight.workers[0][0].position, 42U);
    std::filesystem::remove(path);
    { const FlightRecorder one(backend, 2, "cpu", 1, kSlots, {}); }
    EXPECT_EQ(files(), 0U) << "of those that end well there is none";
  }
}

TEST_F(FlightRecorderFiles, OtherPinErrorsAreReportedAndRecordsStayInMemory) {
  UnpinnableBackend backend(std::make_shared<test::BreakableDevice>());
  backend.kind = errc::out_of_memory;
  std::string warned;
  FlightRecorder one(backend, 1, "cpu", 1, kSlots, [&](std::string_view why) { warned = why; });
  EXPECT_THAT(warned, testing::HasSubstr("no flight recorder outlives this process: memory of this kind"));
  EXPECT_NE(one.device(), 0U);
  EXPECT_EQ(one.keep("it failed", kNone), "");
  EXPECT_EQ(files(), 0U);
}

TEST_F(FlightRecorderFiles, RepeatedFailureIsOne) {
  FlightRecorder one(backend_, 1, "cpu", 2, kSlots, {});
  for (unsigned i = 0; i <= live::Directory::kFlights; ++i) EXPECT_TRUE(std::filesystem::exists(one.keep("it failed", kNone)));
}

TEST_F(FlightRecorderFiles, HaveArgumentsOfTheLastTasksFirst) {
  constexpr std::uint32_t kWorkers = 40;
  FlightRecorder one(backend_, 1, "cpu", kWorkers, kSlots, {});
  one.assign(7, "add (version 2)", Signature::of<float>());
  auto* const entries = reinterpret_cast<device::Quad*>(one.device());
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    for (std::uint32_t i = 0; i < live::kFlightEntries; ++i)
      entries[worker * live::kFlightEntries + i] = {
          i + 1, {worker * 1000 + i, 7U | static_cast<std::uint32_t>(live::FlightEntry::kValid >> 32U), 1}};
  const auto path = one.keep("it failed", [](const live::FlightEntry& entry) {
    FlightRecorder::Details known;
    if (entry.low % 2 != 0)
      known.arguments = "(" + std::to_string(entry.opcode()) + ", " + std::to_string(entry.low) + ")" + std::string(200, 'x');
    return known;
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
  EXPECT_EQ(told, live::FlightFile::kDetails) << "of 1280";
}

TEST_F(FlightRecorderFiles, HaveArgumentsOfANodeOnceALease) {
  FlightRecorder one(backend_, 1, "cpu", 1, kSlots, {});
  auto* const entries = reinterpret_cast<device::Quad*>(one.device());
  const std::uint64_t node = 77U | 7ULL << 32U | live::FlightEntry::kNode | live::FlightEntry::kValid;
  for (std::uint32_t i = 0; i < 40; ++i)
    entries[i] = {i + 1, {static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(node >> 32U), i / 20}};
  unsigned asked = 0;
  const auto path = one.keep("it failed", [&](const live::FlightEntry& entry) {
    ++asked;
    EXPECT_TRUE(entry.is_node());
    EXPECT_EQ(entry.offset(), 77ULL * 64);
    return FlightRecorder::Details{"left", "(" + std::to_string(entry.lease) + ")"};
  });
  EXPECT_EQ(asked, 2U);
  const live::Flight flight = live::read_flight(path);
  ASSERT_EQ(flight.workers.at(0).size(), 40U);
  for (std::uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(flight.workers[0][i].arguments, i < 20 ? "(0)" : "(1)");
    EXPECT_EQ(flight.workers[0][i].name, "left");
  }
}

TEST_F(FlightRecorderFiles, HoldTheRing) {
  FlightRecorder one(backend_, 1, "cpu", 3, kSlots, {});
  one.assign(7, "add (version 2)", Signature::of<float>());
  ASSERT_NE(one.ring(), nullptr);
  EXPECT_EQ(one.device_ring(), reinterpret_cast<std::uint64_t>(one.ring())) << "of a CPU";
  EXPECT_EQ(one.device_ring() % 64, 0U);
  const device::Header header{7, 1, 1, 0, 0};
  device::Quad* const quads = one.ring()[kSlots - 1].quad;
  quads[0] = {1, {header.word0(), header.word1(), kSlots - 1}};
  quads[1] = {1, {0x40200000, 0, 0}};
  quads[2] = quads[3] = {1, {}};
  reinterpret_cast<device::Quad*>(one.device())[0] = {1,
                                                      {kSlots - 1, 7U | static_cast<std::uint32_t>(live::FlightEntry::kValid >> 32U), 1}};
  EXPECT_EQ(live::read_flight(one.keep("it failed", kNone)).workers.at(0).at(0).arguments, "(2.5)");
}

TEST_F(FlightRecorderFiles, OmitTheRingWithoutSpace) {
  std::string warned;
  rlimit64 now{};
  ASSERT_EQ(getrlimit64(RLIMIT_FSIZE, &now), 0);
  rlimit64 less = now;
  less.rlim_cur = live::FlightFile::bytes(1, 0) + 65536;
  auto* const before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit64(RLIMIT_FSIZE, &less), 0);
  const FlightRecorder one(backend_, 1, "cpu", 1, 1U << 16U, [&](std::string_view why) { warned = why; });
  setrlimit64(RLIMIT_FSIZE, &now);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(warned, "");
  EXPECT_EQ(one.ring(), nullptr);
  EXPECT_EQ(files(), 1U);
}

// An exec whose first node alone has a name.
class NamedExec final : public Exec {
 public:
  NamedExec(std::string name, std::uint32_t nodes) : name_(std::move(name)), nodes_(nodes) {}
  const std::string& name() const override { return name_; }
  std::uint32_t nodes() const override { return nodes_; }
  NodeFacts facts_of(std::uint32_t node) const override {
    return {node + 1, node == 0 ? "left" : "", node != 1, std::span(words_).first(node == 0 ? 1 : words_.size())};
  }
  std::string text_of(std::uint32_t) const override { return "'call' (callback)"; }
  std::string node_at(std::uint32_t) const override { return {}; }
  std::string name_at(std::uint32_t) const override { return {}; }
  std::string called_at(std::uint32_t) const override { return {}; }
  std::string title_at(std::uint32_t, const std::string&) const override { return {}; }
  std::string arguments_at(std::uint32_t) const override { return {}; }
  std::vector<std::uint32_t> next_at(std::uint32_t, std::size_t) const override { return {}; }
  Left left(std::span<const std::uint32_t>) const override { return {}; }
  std::string why(std::uint64_t, std::uint32_t) const override { return {}; }
  bool names(std::uint64_t, std::uint64_t) const override { return false; }

 private:
  const std::string name_;
  const std::uint32_t nodes_;
  const std::vector<std::uint32_t> words_ = std::vector<std::uint32_t>(live::FlightNode::kWords + 1, 7);
};

TEST_F(FlightRecorderFiles, NameTheNodesOfExecsAndTheirArguments) {
  FlightRecorder one(backend_, 1, "cpu", 1, kSlots, {});
  one.assign(7, "add (version 2)", Signature::of<std::uint32_t>());
  auto* const entries = reinterpret_cast<device::Quad*>(one.device());
  constexpr std::uint32_t kNode = 7U | static_cast<std::uint32_t>((live::FlightEntry::kNode | live::FlightEntry::kValid) >> 32U);
  const std::uint32_t cells[] = {1, 2, 3, live::FlightFile::kNodesOfExec, live::FlightFile::kNodesOfExec + 1};
  for (std::uint32_t i = 0; i < 5; ++i) entries[i] = {i + 1, {16 + cells[i], kNode, 3}};
  // The last of many execs, with more nodes than are recorded.
  for (std::uint32_t i = 0; i < 2 * live::FlightFile::kExecs; ++i) one.add(NamedExec("other", 100), 1U << 20U, 6400, std::nullopt, 0);
  const std::uint64_t first = one.add(NamedExec("step", 5000), 1024, 64 * 5001, 2, 9);
  const std::uint32_t other[] = {8};
  one.set_arguments(first, 2, other);
  one.set_arguments(first, live::FlightFile::kNodesOfExec, other);
  const live::Flight flight = live::read_flight(one.keep("it failed", kNone));
  std::vector<std::string> told;
  for (const live::Flight::Task& task : flight.workers.at(0)) told.push_back(task.name + task.arguments);
  EXPECT_THAT(told, testing::ElementsAre("left: add (version 2)(7)", "'call' (callback)", "#2: add (version 2)(8) as set last",
                                         "#1023: add (version 2)(7)", "add (version 2)"));
}

TEST_F(FlightRecorderFiles, CopiesOfTheLibraryHaveFilesOfTheirOwn) {
  std::string warned;
  const auto warn = [&](std::string_view why) { warned = why; };
  const FlightRecorder one(backend_, 1, "cpu", 1, kSlots, warn);
  const FlightRecorder other(backend_, 1, "cpu", 1, kSlots, warn);  // both count from 1
  EXPECT_EQ(warned, "");
  EXPECT_EQ(files(), 2U);
}

TEST_F(FlightRecorderFiles, ReleasedNodesLeaveOthersUnchanged) {
  FlightRecorder one(backend_, 1, "cpu", 1, kSlots, {});
  one.assign(7, "add (version 2)", Signature::of<std::uint32_t>());
  const std::uint64_t first = one.add(NamedExec("first", 1), 1U << 20U, 128, std::nullopt, 0);
  for (std::uint32_t i = 0; i < live::FlightFile::kNodes / live::FlightFile::kNodesOfExec; ++i)
    one.add(NamedExec("step", live::FlightFile::kNodesOfExec), 1024, std::uint64_t{64} * (live::FlightFile::kNodesOfExec + 1), 2, 9);
  const std::uint32_t other[] = {8};
  one.set_arguments(first, 0, other);
  constexpr std::uint32_t kNode = 7U | static_cast<std::uint32_t>((live::FlightEntry::kNode | live::FlightEntry::kValid) >> 32U);
  reinterpret_cast<device::Quad*>(one.device())[0] = {1, {16 + live::FlightFile::kNodesOfExec, kNode, 3}};
  const live::Flight::Task task = live::read_flight(one.keep("it failed", kNone)).workers.at(0).at(0);
  EXPECT_EQ(task.name + task.arguments, "#1023: add (version 2)(7)");
}

}  // namespace
}  // namespace dwell::runtime
