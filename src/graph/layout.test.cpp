#include "graph/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/graph_plan.hpp"

namespace dwell::graph {
namespace {

using device::Header;
using device::kFewSuccessors;
using device::kFirstRecord;
using device::kOnly;
using std::uint32_t;
using std::uint64_t;
using test::GraphPlan;
using test::PlainExec;
using testing::ElementsAre;
using testing::HasSubstr;
namespace flag = device::flag;
namespace source = device::source;

std::vector<uint32_t> counted(uint32_t words, uint32_t first = 100) {
  std::vector<uint32_t> all(words);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Argument word `word` of a node, read from its record as a worker does.
uint32_t in_record(const PlainExec& exec, uint32_t node, uint32_t word) {
  const uint32_t at = device::kHeaderWords + word;
  return exec.record(exec.layout.cell(node) + at / device::kSlotWords).quad[at % device::kSlotWords / 3].word[at % 3];
}

// The end of the message for a cycle.
std::string cycle_of(const GraphPlan& plan) {
  try {
    const Layout layout(plan.data);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::invalid_argument);
    return error.message();
  }
  return "no cycle";
}

TEST(LayoutTest, AnEmptyGraphIsARecordThatEnds) {
  const PlainExec exec{GraphPlan()};
  EXPECT_EQ(exec.head().sinks, 1U);
  EXPECT_EQ(exec.head().start, kFirstRecord);
  EXPECT_TRUE(exec.successors(kFirstRecord).empty());
}

TEST(LayoutTest, EveryByteIsWritten) {
  const uint32_t value = 0;
  GraphPlan body;
  body.add(0);
  GraphPlan plan;
  for (uint32_t i = 0; i < kFewSuccessors + 2; ++i) plan.add(0);  // more first nodes than one node makes ready
  const uint32_t many = plan.add(0, counted(5), 3);
  for (uint32_t i = 0; i < kFewSuccessors + 2; ++i) plan.edge(many, plan.add(0, counted(detail::kMaxWords - 1)));
  plan.edge(plan.add(0, counted(detail::kMaxWords + 1)), plan.add(0));
  plan.branch(detail::BranchKind::choose, value, {&body, &body});
  plan.control(detail::kHostNode);
  const Layout layout(plan.data);
  const uint32_t opcodes[] = {7};
  std::vector<std::byte> once(layout.bytes(), std::byte{0x5A});
  std::vector<std::byte> again(layout.bytes(), std::byte{0xA5});
  layout.write(plan.data, opcodes, 0x400, once.data());
  layout.write(plan.data, opcodes, 0x400, again.data());
  EXPECT_EQ(once, again);
}

TEST(LayoutTest, RecordsContainTheirCell) {
  GraphPlan plan;
  for (uint32_t i = 0; i < 3; ++i) plan.add(i, {}, i + 1);
  const PlainExec exec(plan);
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t cell = exec.layout.cell(i);
    EXPECT_EQ(exec.record(cell).quad[0].lap, cell);
    const Header header = exec.header(cell);
    EXPECT_EQ(header.opcode, i);
    EXPECT_EQ(header.groups, i + 1);
    EXPECT_EQ(header.slots, 1U);
    EXPECT_EQ(exec.record(cell).quad[0].word[2], cell);
    EXPECT_EQ(exec.layout.opcode_at(i), cell * device::kCell + 4);
  }
}

TEST(LayoutTest, NodesThatWaitForNothingFollowTheRecordBeforeAll) {
  GraphPlan plan;
  plan.add(0);
  plan.add(0);
  plan.add(0);
  plan.edge(0, 2);
  const PlainExec exec(plan);
  EXPECT_THAT(exec.successors(exec.head().start), ElementsAre(exec.layout.cell(0) | kOnly, exec.layout.cell(1) | kOnly));
  const Header start = exec.header(exec.head().start);
  EXPECT_EQ(start.source, source::control);
  EXPECT_EQ(start.flags, flag::share);
  EXPECT_EQ(exec.head().sinks, 2U);
}

TEST(LayoutTest, ChainNodesAreContiguous) {
  GraphPlan plan;
  for (uint32_t i = 0; i < 6; ++i) plan.add(0, counted(i == 2 ? 15 : 1));
  // Added in another order than they run: 5 -> 0 -> 2 -> 4, with 1 and 3 apart.
  plan.edge(5, 0);
  plan.edge(0, 2);
  plan.edge(2, 4);
  const PlainExec exec(plan);
  const auto cell = [&](uint32_t node) { return exec.layout.cell(node); };
  EXPECT_EQ(cell(2), cell(0) + 1);
  EXPECT_EQ(cell(4), cell(2) + 2) << "behind both slots";
  for (const uint32_t node : {0U, 2U}) EXPECT_EQ(exec.header(cell(node)).flags, flag::node::chain) << node;
  for (const uint32_t node : {1U, 3U, 4U}) EXPECT_EQ(exec.header(cell(node)).flags, 0U) << node;
  for (const uint32_t node : {0U, 1U, 2U, 3U, 4U}) EXPECT_EQ(exec.header(cell(node)).source, source::node) << node;
}

TEST(LayoutTest, AChainEndsWhereANodeIsWideOrLargeOrHasOtherEdges) {
  GraphPlan plan;
  plan.add(0);
  plan.add(0, {}, 2);
  plan.add(0);
  plan.add(0, counted(device::kChainSlots * device::kSlotWords));
  plan.add(0);
  plan.add(0);
  plan.add(0);
  plan.add(0);
  for (uint32_t i = 1; i < 7; ++i) plan.edge(i - 1, i);
  plan.edge(4, 7);
  plan.edge(7, 6);
  const PlainExec exec(plan);
  const auto chained = [&](uint32_t node) { return (exec.header(exec.layout.cell(node)).flags & flag::node::chain) != 0; };
  EXPECT_FALSE(chained(0)) << "the next one is wide";
  EXPECT_FALSE(chained(1)) << "it is wide";
  EXPECT_FALSE(chained(2)) << "the next one takes three slots";
  EXPECT_TRUE(chained(3));
  EXPECT_FALSE(chained(4)) << "two wait for it";
  EXPECT_FALSE(chained(5)) << "the next one waits for two";
  EXPECT_EQ(exec.header(exec.layout.cell(1)).source, source::control);
  EXPECT_EQ(exec.header(exec.layout.cell(1)).flags, flag::share);
}

TEST(LayoutTest, ControlNodesHaveNoGroupsAndAreInNoChain) {
  GraphPlan plan;
  plan.add(0);
  plan.control();
  plan.add(0);
  plan.add(0);
  for (uint32_t i = 0; i < 3; ++i) plan.edge(i, i + 1);
  const PlainExec exec(plan);
  const auto header = [&](uint32_t node) { return exec.header(exec.layout.cell(node)); };
  EXPECT_EQ(header(0).flags, 0U);
  EXPECT_EQ(header(1).flags, flag::share);
  EXPECT_EQ(header(1).source, source::control);
  EXPECT_EQ(header(1).groups, 0U);
  EXPECT_EQ(header(1).slots, 1U);
  EXPECT_EQ(header(2).flags, flag::node::chain);
  EXPECT_THAT(exec.successors(exec.layout.cell(1)), ElementsAre(exec.layout.cell(2) | kOnly));
}

TEST(LayoutTest, ABranchHasTheSuccessorsOfEachValue) {
  using Kind = detail::BranchKind;
  const uint32_t value = 0;
  GraphPlan three;  // two nodes without predecessors, and one behind both
  for (int i = 0; i < 3; ++i) three.add(0);
  three.edge(0, 2);
  three.edge(1, 2);
  GraphPlan many;
  for (int i = 0; i < 5; ++i) many.add(0);
  const GraphPlan none;
  GraphPlan plan;
  const auto choice = plan.branch(Kind::choose, value, {&three, &many, &none});
  const auto once = plan.branch(Kind::run_if, value, {&three});
  const auto either = plan.branch(Kind::run_if, value, {&three, &many});
  const auto loop = plan.branch(Kind::repeat_while, value, {&many});
  plan.edge(choice.end, once.node);
  plan.edge(choice.end, loop.node);
  plan.edge(once.end, loop.node);
  const PlainExec exec(plan);
  const auto only = [&](uint32_t node) { return exec.layout.cell(node) | kOnly; };
  const auto follows = [&](const detail::GraphData::Branch& branch, uint32_t of) { return exec.choice(exec.layout.cell(branch.node), of); };
  const auto sources = [&](const detail::GraphData::Branch& branch, uint32_t body, uint32_t count) {
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < count; ++i) all.push_back(only(branch.bodies[body].first + i));
    return all;
  };
  EXPECT_EQ(follows(choice, 0), sources(choice, 0, 2));
  EXPECT_EQ(follows(choice, 1), sources(choice, 1, 5));
  EXPECT_THAT(follows(choice, 2), ElementsAre(only(choice.bodies[2].exit)));
  for (const uint32_t of : {3U, 4U, ~0U}) EXPECT_THAT(follows(choice, of), ElementsAre(only(choice.end)));
  EXPECT_THAT(follows(once, 0), ElementsAre(only(once.end)));
  for (const uint32_t of : {1U, ~0U}) EXPECT_EQ(follows(once, of), sources(once, 0, 2));
  EXPECT_EQ(follows(either, 0), sources(either, 1, 5));
  EXPECT_EQ(follows(either, 1), sources(either, 0, 2));
  EXPECT_THAT(follows(loop, 0), ElementsAre(only(loop.end)));
  EXPECT_EQ(follows(loop, 2), sources(loop, 0, 5));
  for (const auto* branch : {&choice, &once, &either, &loop}) {
    const uint32_t cell = exec.layout.cell(branch->node);
    EXPECT_THAT(exec.successors(cell), ElementsAre(only(branch->end))) << "past all when it is cancelled";
    EXPECT_EQ(exec.header(cell).source, source::control);
    EXPECT_EQ(exec.header(cell).flags, flag::share | flag::control::branch);
    EXPECT_EQ(exec.header(cell).groups, 0U);
    const auto exit = exec.successors(exec.layout.cell(branch->bodies[0].exit));
    EXPECT_THAT(exit, ElementsAre(only(branch == &loop ? branch->node : branch->end)));
  }
  EXPECT_EQ(exec.state(exec.layout.cell(loop.node)).in_degree, 2U) << "what leads back does not count";
  EXPECT_THAT(exec.successors(exec.layout.cell(once.end)), ElementsAre(exec.layout.cell(loop.node)));
  EXPECT_THAT(exec.successors(exec.head().start), ElementsAre(only(choice.node), only(either.node)));
  EXPECT_EQ(exec.head().sinks, 2U) << "no node of a body is one";
}

TEST(LayoutTest, NoNodeOfABodyHasManySuccessors) {
  const uint32_t value = 0;
  constexpr uint32_t kMany = kFewSuccessors * kFewSuccessors + 1;
  GraphPlan body;
  const uint32_t root = body.add(0);
  for (uint32_t i = 0; i < kMany; ++i) {
    body.edge(root, body.add(0));
    body.add(0);
  }
  GraphPlan plan;
  const auto loop = plan.branch(detail::BranchKind::repeat_while, value, {&body});
  const PlainExec exec(plan);
  std::vector<uint32_t> node_of(exec.layout.bytes() / device::kCell, 0);
  for (uint32_t node = 0; node < plan.data.nodes.size(); ++node) node_of[exec.layout.cell(node)] = node;
  std::vector<uint32_t> visits(plan.data.nodes.size(), 0);
  std::vector<uint32_t> next = exec.choice(exec.layout.cell(loop.node), 1);
  EXPECT_LE(next.size(), kFewSuccessors);
  for (std::size_t i = 0; i < next.size(); ++i) {
    const uint32_t cell = next[i] & ~kOnly;
    if (++visits[node_of[cell]] > 1 || cell == exec.layout.cell(loop.node)) continue;
    const auto more = exec.successors(cell);
    EXPECT_LE(more.size(), kFewSuccessors);
    next.insert(next.end(), more.begin(), more.end());
  }
  for (uint32_t node = 0; node < body.data.nodes.size(); ++node) EXPECT_EQ(visits[loop.bodies[0].first + node], 1U) << node;
}

TEST(LayoutTest, EdgesMarkTheOnlyPredecessor) {
  GraphPlan plan;
  for (uint32_t i = 0; i < 6; ++i) plan.add(0);
  for (uint32_t i = 1; i < 5; ++i) plan.edge(0, i);
  plan.edge(1, 5);
  plan.edge(2, 5);
  plan.edge(1, 4);
  const PlainExec exec(plan);
  const auto cell = [&](uint32_t node) { return exec.layout.cell(node); };
  EXPECT_THAT(exec.successors(cell(0)), ElementsAre(cell(1) | kOnly, cell(2) | kOnly, cell(3) | kOnly, cell(4))) << "in the edges";
  EXPECT_THAT(exec.successors(cell(1)), ElementsAre(cell(5), cell(4))) << "in the record";
  EXPECT_THAT(exec.successors(cell(3)), testing::IsEmpty());
  EXPECT_EQ(exec.state(cell(5)).arrivals, device::arrivals(2));
  EXPECT_EQ(exec.state(cell(5)).in_degree, 2U);
  EXPECT_EQ(exec.state(cell(1)).arrivals, 0U);
  EXPECT_EQ(exec.head().sinks, 3U);
}

TEST(LayoutTest, AnEdgeAddedTwiceCountsTwice) {
  GraphPlan plan;
  plan.add(0);
  plan.add(0);
  plan.edge(0, 1);
  plan.edge(0, 1);
  const PlainExec exec(plan);
  EXPECT_EQ(exec.state(exec.layout.cell(1)).in_degree, 2U);
  EXPECT_THAT(exec.successors(exec.layout.cell(0)), ElementsAre(exec.layout.cell(1), exec.layout.cell(1)));
  EXPECT_EQ(exec.header(exec.layout.cell(0)).flags & flag::node::chain, 0U);
}

TEST(LayoutTest, ArgumentsLieInTheSlots) {
  GraphPlan plan;
  for (const uint32_t words : {1U, 9U, 10U, 93U}) plan.add(0, counted(words));
  const PlainExec exec(plan);
  EXPECT_EQ(exec.header(exec.layout.cell(1)).slots, 1U);
  EXPECT_EQ(exec.header(exec.layout.cell(2)).slots, 2U);
  EXPECT_EQ(exec.header(exec.layout.cell(3)).slots, device::kMaxSlots);
  for (uint32_t node = 0; node < 4; ++node)
    for (uint32_t word = 0; word < plan.data.nodes[node].words; ++word) {
      ASSERT_EQ(in_record(exec, node, word), 100 + word) << node;
      uint32_t at = 0;
      std::memcpy(&at, exec.memory + exec.layout.word_at(plan.data, node, word), sizeof(at));
      ASSERT_EQ(at, 100 + word) << node;
    }
}

TEST(LayoutTest, LargeArgumentsLieInABlock) {
  GraphPlan plan;
  plan.add(0, counted(94));
  plan.add(0, counted(5000, 7000));
  const PlainExec exec(plan);
  for (uint32_t node = 0; node < 2; ++node) {
    EXPECT_EQ(exec.header(exec.layout.cell(node)).slots, 1U);
    const uint64_t block = in_record(exec, node, 0) | static_cast<uint64_t>(in_record(exec, node, 1)) << 32U;
    const uint64_t offset = exec.layout.word_at(plan.data, node, 0);
    EXPECT_EQ(block, offset | static_cast<uint64_t>(device::kInArena) << 32U);
    EXPECT_EQ(offset % device::kCell, 0U);
    const auto* const words = reinterpret_cast<const uint32_t*>(exec.memory + offset);
    for (uint32_t word = 0; word < plan.data.nodes[node].words; ++word) ASSERT_EQ(words[word], (node == 0 ? 100 : 7000) + word);
    EXPECT_LE(offset + plan.data.nodes[node].words * 4, exec.layout.bytes());
  }
}

TEST(LayoutTest, ManySuccessorsAndGroupsHaveCountersBehindTheRecord) {
  for (const uint32_t many : {kFewSuccessors, kFewSuccessors + 1}) {
    GraphPlan plan;
    plan.add(0);  // has many successors
    plan.add(0, {}, 3);
    for (uint32_t i = 0; i < many; ++i) {
      plan.add(0);
      plan.edge(0, i + 2);
    }
    const PlainExec exec(plan);
    EXPECT_EQ(exec.layout.cell(1) - exec.layout.cell(0), many == kFewSuccessors ? 1U : 2U);
    EXPECT_EQ(exec.layout.cell(2) - exec.layout.cell(1), 2U);
    EXPECT_EQ(exec.successors(exec.layout.cell(0)).size(), many);
  }
}

TEST(LayoutTest, ManyStartsHaveCountersToo) {
  GraphPlan plan;
  for (uint32_t i = 0; i < kFewSuccessors + 1; ++i) plan.add(0);
  const PlainExec exec(plan);
  EXPECT_EQ(exec.layout.cell(0), kFirstRecord + 2);
  EXPECT_EQ(exec.successors(exec.head().start).size(), kFewSuccessors + 1);
}

TEST(LayoutTest, PartsFollowEachOtherAndThereIsPadding) {
  GraphPlan plan;
  for (uint32_t i = 0; i < 50; ++i) {
    plan.add(0);
    for (uint32_t j = 0; j < i; ++j) plan.edge(j, i);
  }
  const PlainExec exec(plan);
  EXPECT_GE(exec.head().states, exec.layout.cell(49) + 1);
  EXPECT_GE(exec.head().edges, exec.head().states + (exec.layout.cell(49) + 1 - kFirstRecord) / 4);
  EXPECT_GE(exec.layout.bytes(), (exec.head().edges + device::kPadding) * device::kCell + plan.data.edges.size() * 4);
}

TEST(LayoutTest, ANodeTakesEightyBytesAndAnEdgeFour) {
  GraphPlan plan;
  constexpr uint32_t kNodes = 10000;
  for (uint32_t i = 0; i < kNodes; ++i) {
    plan.add(0, counted(9));
    for (uint32_t j = 1; j <= 4 && j <= i; ++j) plan.edge(i - j, i);
  }
  const Layout layout(plan.data);
  EXPECT_LE(layout.bytes(), kNodes * 80 + plan.data.edges.size() * 4 + 4096);
}

TEST(LayoutTest, ACycleIsListedFromItsFirstNodeOn) {
  GraphPlan plan;
  plan.add(0);
  for (const char* name : {"a", "b", "c"}) plan.add(0, {}, 1, name);
  plan.edge(0, 3);
  plan.edge(3, 1);
  plan.edge(1, 2);
  plan.edge(2, 3);
  EXPECT_EQ(cycle_of(plan),
            "the graph has a cycle: 'a' (operator op0) -> 'b' (operator op0) -> 'c' (operator op0) -> 'a' (operator op0); "
            "each waits for the one before it");
}

TEST(LayoutTest, SelfEdgeIsACycle) {
  GraphPlan plan;
  plan.add(0, {}, 1, "a");
  plan.edge(0, 0);
  EXPECT_THAT(cycle_of(plan), HasSubstr("cycle: 'a' (operator op0) -> 'a' (operator op0);"));
}

TEST(LayoutTest, NodesBeforeACycleAreNotListed) {
  GraphPlan plan;
  for (uint32_t i = 0; i < 6; ++i) plan.add(0);
  plan.edge(4, 5);
  plan.edge(5, 4);
  plan.edge(0, 4);
  plan.edge(5, 1);
  plan.edge(1, 2);
  plan.edge(2, 3);
  EXPECT_THAT(cycle_of(plan), HasSubstr("cycle: #4 (operator op0) -> #5 (operator op0) -> #4 (operator op0);"));
}

TEST(LayoutTest, ALongCycleIsCutShort) {
  for (const uint32_t count : {16U, 17U, 1000U}) {
    GraphPlan plan;
    for (uint32_t i = 0; i < count; ++i) plan.add(0);
    for (uint32_t i = 0; i < count; ++i) plan.edge(i, (i + 1) % count);
    const std::string text = cycle_of(plan);
    EXPECT_THAT(text, HasSubstr("-> #15 (operator op0) -> " + (count == 16 ? "" : "... " + std::to_string(count - 16) + " more -> ") +
                                "#0 (operator op0);"));
    DWELL_EXPECT_ERROR_FIELDS(Layout(plan.data), errc::invalid_argument, "node", "#0 (operator op0)", count);
  }
}

TEST(LayoutTest, BackwardEdgesWithoutACycleAreAllowed) {
  GraphPlan plan;
  for (uint32_t i = 0; i < 10; ++i) plan.add(0);
  for (uint32_t i = 0; i + 1 < 10; ++i) plan.edge(i + 1, i);
  const PlainExec exec(plan);
  EXPECT_THAT(exec.successors(exec.head().start), ElementsAre(exec.layout.cell(9) | kOnly));
}

TEST(LayoutTest, TooManyCellsAreRefused) {
  // The size is checked before the words of the nodes are read.
  GraphPlan plan;
  for (uint32_t i = 0; i < 20; ++i) {
    plan.add(0);
    plan.data.nodes.back().words = 1U << 30U;
  }
  DWELL_EXPECT_ERROR(Layout(plan.data), errc::invalid_argument, HasSubstr("20 nodes takes more than 64 GiB of device memory: divide it"));
}

}  // namespace
}  // namespace dwell::graph
