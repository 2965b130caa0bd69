// Operators compiled with CompileOptions::debug check the bounds of their spans.
#include <string>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BoundsTest : public DeviceTest {
 protected:
  static Definition debug() {
    Definition how;
    how.options = CompileOptions{.debug = true};
    return how;
  }
  static void expect_refused(const Ticket& ticket, const std::string& what) {
    EXPECT_EQ(ticket.status(), status::out_of_bounds) << what;
    DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, AllOf(HasSubstr("ticket " + std::to_string(ticket.position())), HasSubstr(what)));
  }
};
DWELL_ON_EVERY_DEVICE(BoundsTest);

constexpr const char* kPoke = R"(
DWELL_OPERATOR(poke)(dwell::Group g, dwell::i64 index, dwell::Span<float> x, dwell::Span<const float> from) {
  if (g.rank() != 0) return;
  x[index] = from[0];
})";
using Poke = void(i64, Span<float>, Span<const float>);

TEST_P(BoundsTest, InvalidElementIsNamed) {
  Runtime runtime(with_all_parts());
  const auto poke = runtime.define<Poke>("poke", kPoke, debug());
  const auto cells = filled<float>(runtime, 32, 1);
  const auto from = filled<float>(runtime, 1, 7);
  // Half of the buffer: the other half belongs to the buffer, but not to the slice.
  const auto half = cells.slice(0, 16);
  runtime.submit(poke, i64{15}, half, from).wait();
  for (const i64 index : {i64{16}, i64{17}, i64{-1}, i64{1} << 40}) {
    SCOPED_TRACE(index);
    expect_refused(runtime.submit(poke, index, half, from),
                   "of operator poke (version 1) failed: it asked for element " + std::to_string(index) + " of a span of 16, at poke.op:4");
  }
  std::vector<float> expected(32, 1);
  expected[15] = 7;
  EXPECT_EQ(read(cells), expected) << "nothing beyond the slice was written";
  runtime.submit(poke, i64{0}, half, from).wait();
}

TEST_P(BoundsTest, SubspansSharedMemoryAndAtomicOperationsAreChecked) {
  constexpr const char* kAccess = R"(
DWELL_OPERATOR(access)(dwell::Group g, unsigned kind, dwell::Span<unsigned> x) {
  const dwell::Span<unsigned> shared = g.shared<unsigned>(8);
  if (g.rank() != 0) return;
  shared[7] = 1;
  if (kind == 0) x[0] = shared[8];
  if (kind == 1) x.atomic_add(x.size(), 1u);
  if (kind == 2) x.subspan(3, 2)[0] = 1;
  if (kind == 3) x.subspan(2, 1)[1] = 1;
})";
  Runtime runtime(options());
  const auto access = runtime.define<void(unsigned, Span<unsigned>)>("access", kAccess, debug());
  const auto cells = filled<unsigned>(runtime, 4, 0);
  const char* const expected[] = {"element 8 of a span of 8, at access.op:6", "element 4 of a span of 4, at access.op:7",
                                  "2 elements from 3 on of a span of 4, at access.op:8", "element 1 of a span of 1, at access.op:9"};
  for (unsigned kind = 0; kind < std::size(expected); ++kind) expect_refused(runtime.submit(access, kind, cells), expected[kind]);
  EXPECT_EQ(read(cells), std::vector<unsigned>(4, 0));
}

TEST_P(BoundsTest, NodesAndGroupsReportTheirErrors) {
  Runtime runtime(with_all_parts());
  const auto poke = runtime.define<Poke>("poke", kPoke, debug());
  const auto cells = filled<float>(runtime, 16, 1);
  const auto from = filled<float>(runtime, 1, 7);
  Graph graph;
  const Node first = graph.add(poke, i64{3}, cells, from);
  graph.add(poke, i64{20}, cells, from).after(first);
  const GraphExec exec = runtime.instantiate(graph);
  expect_refused(runtime.launch(exec), "element 20 of a span of 16, at poke.op:4");
  expect_refused(runtime.submit(poke, i64{21}, cells, from, groups(2)), "element 21 of a span of 16, at poke.op:4");
}

TEST_P(BoundsTest, EachOfManyTasksReportsItsError) {
  Runtime runtime(options());
  const auto poke = runtime.define<Poke>("poke", kPoke, debug());
  const auto cells = filled<float>(runtime, 16, 1);
  const auto from = filled<float>(runtime, 1, 7);
  constexpr i64 kTasks = 64;
  std::vector<Ticket> tickets;
  for (i64 i = 0; i < kTasks; ++i) tickets.push_back(runtime.submit(poke, 16 + i, cells, from));
  // A worker keeps the last few errors; older ones have no details.
  int told = 0;
  for (i64 i = 0; i < kTasks; ++i) {
    EXPECT_EQ(tickets[static_cast<std::size_t>(i)].status(), status::out_of_bounds);
    try {
      tickets[static_cast<std::size_t>(i)].wait();
    } catch (const Error& error) {
      const std::string& message = error.message();
      if (message.find("element " + std::to_string(16 + i) + " of a span of 16") != std::string::npos) {
        ++told;
      } else {
        EXPECT_THAT(message, HasSubstr("an element beyond a span"));
      }
    }
  }
  EXPECT_GE(told, 4);
}

TEST_P(BoundsTest, OperatorsWithoutDebugCheckNothing) {
  Runtime runtime(options());
  const auto poke = runtime.define<Poke>("poke", kPoke);
  const auto cells = filled<float>(runtime, 32, 1);
  const auto from = filled<float>(runtime, 1, 7);
  runtime.submit(poke, i64{16}, cells.slice(0, 16), from).wait();
  EXPECT_EQ(read(cells)[16], 7) << "it lies in the buffer";
}

}  // namespace
}  // namespace dwell::test
