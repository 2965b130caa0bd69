#include "runtime/graphs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PlainExec final : public Exec {
 public:
  explicit PlainExec(std::string name = {}) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  std::uint32_t nodes() const override { return 0; }
  NodeFacts facts_of(std::uint32_t) const override { return {}; }
  std::string text_of(std::uint32_t) const override { return {}; }
  std::string node_at(std::uint32_t) const override { return "a node"; }
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
};

Graphs::Flight flight_of(const std::shared_ptr<const Exec>& exec) {
  Graphs::Flight flight;
  flight.emplace_back(0, exec);
  return flight;
}

TEST(GraphsTest, DestroyedExecIsNotFoundByNumber) {
  Graphs graphs;
  auto first = std::make_shared<PlainExec>();
  const auto second = std::make_shared<PlainExec>();
  const std::uint32_t of_first = graphs.next_number();
  const std::uint32_t of_second = graphs.next_number();
  EXPECT_NE(of_first, 0U);
  EXPECT_NE(of_first, of_second);
  graphs.add(4096, 1024, of_first, first, 0);
  EXPECT_EQ(graphs.numbered(of_first), first);
  EXPECT_EQ(graphs.numbered(of_second), nullptr);
  graphs.remove(4096);
  graphs.add(4096, 1024, of_second, second, 0);
  EXPECT_EQ(graphs.numbered(of_first), nullptr);
  EXPECT_EQ(graphs.numbered(of_second), second);
  graphs.remove(8192);
  EXPECT_EQ(graphs.numbered(of_second), second);
}

TEST(GraphsTest, NamesAreOfLiveExecs) {
  Graphs graphs;
  const auto exec = std::make_shared<PlainExec>("step");
  graphs.add(4096, 1024, graphs.next_number(), exec, 0);
  EXPECT_EQ(graphs.name_of(4096), "step");
  EXPECT_EQ(graphs.name_of(4160), "") << "no exec begins there";
  graphs.remove(4096);
  EXPECT_EQ(graphs.name_of(4096), "");
  EXPECT_EQ(title_of("step"), "graph 'step'");
  EXPECT_EQ(title_of(""), "a graph");
}

TEST(GraphsTest, UsersAreLaunchesAndTasksThatMayLaunch) {
  Graphs graphs;
  const auto exec = std::make_shared<PlainExec>();
  const auto other = std::make_shared<PlainExec>();
  graphs.add(4096, 1024, graphs.next_number(), exec, 0);
  graphs.add(8192, 1024, graphs.next_number(), other, 0);
  graphs.launched(3, flight_of(exec));
  graphs.launched(5, flight_of(other));
  graphs.launched(9, flight_of(exec));
  EXPECT_THAT(graphs.users(4096), ElementsAre(3, 9));
  EXPECT_THAT(graphs.users(8192), ElementsAre(5));
  EXPECT_THAT(graphs.users(1024), IsEmpty());
  graphs.collect(4);
  EXPECT_THAT(graphs.users(4096), ElementsAre(9));
}

TEST(GraphsTest, PlaceKnowsEarlierExecs) {
  Graphs graphs;
  const auto exec = std::make_shared<PlainExec>();
  const auto before = std::chrono::steady_clock::now();
  graphs.add(4096, 1024, 1, exec, 7);
  const Graphs::Place first = graphs.place_of(4096 + 130);
  EXPECT_EQ(first.exec, exec);
  EXPECT_EQ(first.number, 1U);
  EXPECT_EQ(first.cell(4096 + 130), 2U);
  EXPECT_GE(first.since, before);
  EXPECT_EQ(first.lease, std::nullopt);
  EXPECT_TRUE(first.holds(5119));
  EXPECT_FALSE(first.holds(5120));
  EXPECT_FALSE(first.holds(4095));
  EXPECT_EQ(graphs.place_of(5120).exec, nullptr);
  graphs.add(16384, 1024, 2, exec, 7);
  graphs.remove(4096);
  EXPECT_EQ(graphs.place_of(4096).exec, nullptr);
  EXPECT_EQ(graphs.place_of(16384).lease, std::nullopt) << "it was there before another one went";
  graphs.add(3072, 1024, 3, exec, 8);
  graphs.add(5056, 1024, 4, exec, 9);
  EXPECT_EQ(graphs.place_of(3072).lease, std::nullopt);
  EXPECT_EQ(graphs.place_of(5056).lease, 9U);
}

}  // namespace
}  // namespace dwell::runtime
