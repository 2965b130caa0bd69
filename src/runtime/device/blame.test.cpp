#include "runtime/device/blame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dwell::runtime {
namespace {

using Holder = InFlightTasks::Holder;

Holder holder_of(std::uint32_t worker, std::uint64_t position, std::uint32_t opcode, bool launch = false) {
  return {worker, position, opcode, launch, {}};
}
std::string opcode_text(std::uint32_t opcode) { return "operator " + std::to_string(opcode); }
std::string launch_text(std::uint64_t position) { return position == 17 ? "graph 'step'" : "a graph"; }

TEST(Blame, NamesRunningTasks) {
  EXPECT_EQ(blame({holder_of(3, 17, 5)}, true, "", opcode_text, launch_text), "; it was running operator 5, ticket 17, on worker 3");
  EXPECT_EQ(blame({}, true, "", opcode_text, launch_text), "");
  EXPECT_THAT(blame({holder_of(3, 17, 5)}, false, "", opcode_text, launch_text), testing::StartsWith("; no task was running"));
  EXPECT_THAT(blame({}, true, "copy", opcode_text, launch_text), testing::EndsWith("may be to blame: copy"));
}

TEST(Blame, ALaunchIsNotTheOperatorWithOpcodeZero) {
  EXPECT_EQ(blame({holder_of(0, 16, 0), holder_of(1, 17, 0, true)}, true, "", opcode_text, launch_text),
            "; one of the tasks that were running is to blame: operator 0, ticket 16, on worker 0, graph 'step', ticket 17, on worker 1");
}

TEST(Blame, NamesSomeOfMany) {
  const std::string text = blame(std::vector(10, holder_of(1, 17, 5)), true, "", opcode_text, launch_text);
  EXPECT_THAT(text, testing::EndsWith(", and 2 more"));
}

}  // namespace
}  // namespace dwell::runtime
