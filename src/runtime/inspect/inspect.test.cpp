#include "runtime/inspect/inspect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <dwell/error.hpp>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/live.hpp"

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class InspectStructures : public testing::Test {
 protected:
  Inspection of(std::string_view name) { return inspect(name, {metrics_, info_, diagnosis_}).value(); }

  Metrics metrics_ = test::metrics_after(1);
  RuntimeInfo info_;
  Diagnosis diagnosis_ = test::diagnosis_of_two();
};

TEST_F(InspectStructures, HeldTasksAreListedWithTheirPredecessors) {
  const Inspection held = of("held");
  EXPECT_EQ(held.as<std::uint64_t>("not_complete"), 2U);
  EXPECT_EQ(held.as<std::uint64_t>("more"), 0U);
  EXPECT_EQ(held.at("ticket 7.operator").text, "axpy (version 2)");
  EXPECT_EQ(held.at("ticket 7.doing").text, "running");
  EXPECT_EQ(held.as<std::uint32_t>("ticket 7.groups"), 4U);
  EXPECT_THAT(held.at("ticket 7.workers").elements<std::uint32_t>(), ElementsAre(1U));
  EXPECT_EQ(held.at("ticket 7.nodes").text, "left");
  EXPECT_EQ(held.at("ticket 8.doing").text, "waiting_for_host");
  EXPECT_THAT(held.at("ticket 8.waits_for").elements<std::uint64_t>(), ElementsAre(7U));
  EXPECT_EQ(held.at("ticket 8.waits_for_what").text, "the callback of a node");
  EXPECT_TRUE(held.as<bool>("ticket 8.cancelled"));
  EXPECT_THAT(to_string(held), HasSubstr("ticket 8: operator a graph, doing waiting_for_host, cancelled true, waits_for [7], "
                                         "waits_for_what the callback of a node\n"));
  DWELL_EXPECT_ERROR(static_cast<void>(held.as<std::uint64_t>("ticket 7.doing")), errc::signature_mismatch, HasSubstr("is a text"));
}

TEST_F(InspectStructures, QueueAndGraphsListTheirOwn) {
  diagnosis_.tasks[0].doing = Doing::waits_to_run;
  const Inspection queue = of("queue");
  EXPECT_EQ(queue.as<std::uint64_t>("queued"), metrics_.queued);
  EXPECT_THAT(to_string(queue), HasSubstr("ticket 7: operator axpy (version 2), doing waiting_to_run"));
  EXPECT_THAT(to_string(queue), Not(HasSubstr("ticket 8")));
  const std::string graphs = to_string(of("graphs"));
  EXPECT_THAT(graphs, HasSubstr("ticket 8: operator a graph"));
  EXPECT_THAT(graphs, Not(HasSubstr("ticket 7:")));
}

TEST_F(InspectStructures, UnlistedTasksAreCounted) {
  diagnosis_.total = 1000;
  EXPECT_EQ(of("held").as<std::uint64_t>("more"), 998U);
  EXPECT_THAT(to_string(of("queue")), HasSubstr("more: 998\n"));
}

}  // namespace
}  // namespace dwell::runtime
