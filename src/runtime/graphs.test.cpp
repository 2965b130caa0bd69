#include "runtime/graphs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PlainExec final : public Exec {
 public:
  std::string node_at(std::uint32_t) const override { return "a node"; }
  std::string why(std::uint64_t, std::uint32_t) const override { return {}; }
  bool names(std::uint64_t, std::uint64_t) const override { return false; }
};

Graphs::Flight flight_of(const std::shared_ptr<const Exec>& exec) {
  Graphs::Flight flight;
  flight.emplace_back(0, exec);
  return flight;
}

TEST(GraphsTest, AnExecThatHasGoneIsNotFoundByItsNumberWhateverLiesThere) {
  Graphs graphs;
  auto first = std::make_shared<PlainExec>();
  const auto second = std::make_shared<PlainExec>();
  const std::uint32_t of_first = graphs.next_number();
  const std::uint32_t of_second = graphs.next_number();
  EXPECT_NE(of_first, 0U);
  EXPECT_NE(of_first, of_second);
  graphs.add(4096, 1024, of_first, first);
  EXPECT_EQ(graphs.numbered(of_first), first);
  EXPECT_EQ(graphs.numbered(of_second), nullptr);
  graphs.remove(4096);
  graphs.add(4096, 1024, of_second, second);
  EXPECT_EQ(graphs.numbered(of_first), nullptr);
  EXPECT_EQ(graphs.numbered(of_second), second);
  graphs.remove(8192);
  EXPECT_EQ(graphs.numbered(of_second), second);
}

TEST(GraphsTest, UsersAreLaunchesAndTasksThatMayLaunch) {
  Graphs graphs;
  const auto exec = std::make_shared<PlainExec>();
  const auto other = std::make_shared<PlainExec>();
  graphs.add(4096, 1024, graphs.next_number(), exec);
  graphs.add(8192, 1024, graphs.next_number(), other);
  graphs.launched(3, flight_of(exec));
  graphs.launched(5, flight_of(other));
  graphs.launched(9, flight_of(exec));
  EXPECT_THAT(graphs.users(4096), ElementsAre(3, 9));
  EXPECT_THAT(graphs.users(8192), ElementsAre(5));
  EXPECT_THAT(graphs.users(1024), IsEmpty());
  graphs.collect(4);
  EXPECT_THAT(graphs.users(4096), ElementsAre(9));
}

}  // namespace
}  // namespace dwell::runtime
