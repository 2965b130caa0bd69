// Argument lists built at run time, in every call that takes arguments.
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class ListsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(ListsTest);

constexpr const char* kPairs = R"(
struct Triple { dwell::u32 a, b, c; };
DWELL_OPERATOR(triples)(dwell::Group g, dwell::Span<Triple> x, dwell::Span<dwell::u32> size) {
  for (auto i : g.range(x.size())) x[i].b += x[i].a * x[i].c;
  if (g.rank() == 0) size[0] = static_cast<dwell::u32>(x.size());
})";

TEST_P(ListsTest, BytesAreASpanOfStructsOfAnySize) {
  Runtime runtime(options());
  const Operator<> triples = runtime.define("triples", kPairs);
  const std::vector<Parameter>& takes = triples.signature().parameters();
  auto bytes = runtime.allocate<std::byte>(8 * 12);
  const auto size = runtime.allocate<u32>(1);
  std::vector<u32> values;
  for (u32 i = 0; i < 8; ++i) values.insert(values.end(), {i, 100, 10 + i});
  bytes.write(std::as_bytes(std::span(values)));

  Arguments list;
  list.add(takes[0], bytes.slice(12, 6 * 12)).add(size);  // all but the first and the last
  runtime.submit(triples, list).wait();
  std::vector<u32> result(values.size());
  bytes.read(std::as_writable_bytes(std::span(result)));
  for (u32 i = 0; i < 8; ++i) EXPECT_EQ(result[i * 3 + 1], i == 0 || i == 7 ? 100 : 100 + i * (10 + i)) << i;
  EXPECT_EQ(read(size)[0], 6U);

  DWELL_EXPECT_ERROR(Arguments().add(takes[0], bytes.slice(0, 13)), errc::invalid_argument,
                     AllOf(HasSubstr("13 bytes"), HasSubstr("no whole number")));
  DWELL_EXPECT_ERROR(Arguments().add(value_of(ElementType::f32), bytes.slice(0, 4)), errc::invalid_argument, HasSubstr("float"));
}

TEST_P(ListsTest, ManyRowsRunOnceEachAndInTheirOrder) {
  Runtime runtime(options());
  const Operator<> add = runtime.define("add", kAdd);
  const Operator<> append = runtime.define("append", kAppend);
  const auto cells = filled<u32>(runtime, 300, 0);
  std::vector<Arguments> rows(300);
  for (u32 i = 0; i < 300; ++i) rows[i].add(cells).add(i).add(i + 1);
  runtime.submit_many(add, rows).wait();
  runtime.wait_all();
  const std::vector<u32> counts = read(cells);
  for (u32 i = 0; i < 300; ++i) EXPECT_EQ(counts[i], i + 1);

  // In order: each is linked to the previous one.
  const auto number = filled<u32>(runtime, 1, 0);
  std::vector<Arguments> chain(200);
  for (u32 i = 0; i < 200; ++i) chain[i].add(number).add(i).add(link);
  runtime.submit_many(append, chain).wait();
  EXPECT_EQ(read(number)[0], appended(200));

  EXPECT_TRUE(runtime.submit_many(add, std::span<const Arguments>()).done());
}

TEST_P(ListsTest, NoRowIsSubmittedWhenOneDoesNotFit) {
  Runtime runtime(options());
  const Operator<> add = runtime.define("add", kAdd);
  const auto cells = filled<u32>(runtime, 1, 0);
  std::vector<Arguments> rows(100);
  for (Arguments& row : rows) row.add(cells).add(0U).add(1U);
  rows[70] = Arguments().add(cells).add(0U).add(1.0F);
  DWELL_EXPECT_ERROR(runtime.submit_many(add, rows), errc::signature_mismatch, HasSubstr("argument 3"));
  runtime.wait_all();
  EXPECT_EQ(read(cells)[0], 0U);
  EXPECT_EQ(runtime.metrics().submitted, 0U);
}

TEST_P(ListsTest, TrySubmitDetectsAFullRing) {
  Options small = options();
  small.ring_slots = 128;
  small.workers = 1;
  Runtime runtime(small);
  const Operator<> hold = runtime.define("hold", kHold);
  const Operator<> add = runtime.define("add", kAdd);
  const auto cells = filled<u32>(runtime, 1, 0);
  Latch latch(runtime);
  // Parked, so that the loop reads the ring before the task occupies its only worker.
  runtime.park();
  const Ticket held = runtime.submit(hold, Arguments().add(latch.words()));
  Arguments one;
  one.add(cells).add(0U).add(1U);
  u32 taken = 0;
  while (runtime.try_submit(add, one)) ASSERT_LT(++taken, 1000U);
  EXPECT_GT(taken, 50U);
  runtime.resume();
  latch.release();
  held.wait();
  runtime.wait_all();
  EXPECT_EQ(read(cells)[0], taken);
  EXPECT_TRUE(runtime.try_submit(add, one).has_value());
}

TEST_P(ListsTest, GraphNodesTakeAndChangeThem) {
  Runtime runtime(options());
  const Operator<> append = runtime.define("append", kAppend);
  const auto number = filled<u32>(runtime, 1, 0);
  const auto other = filled<u32>(runtime, 1, 0);
  Graph graph;
  const Node first = graph.add(append, Arguments().add(number).add(0U));
  const Node second = graph.add(append, Arguments().add(number).add(1U).add(groups(1))).name("second").after(first);
  GraphExec exec = runtime.instantiate(graph);
  runtime.launch(exec).wait();
  EXPECT_EQ(read(number)[0], appended(2));

  exec.set(second, 1, Arguments().add(7U));
  exec.set(first, 0, Arguments().add(other));
  runtime.launch(exec).wait();
  EXPECT_EQ(read(number)[0], appended(2) * 31 + 7);
  EXPECT_EQ(read(other)[0], 0U);
  EXPECT_EQ(text_of(exec.parameter(first, 0)), "Span<u32>");
  DWELL_EXPECT_ERROR(exec.parameter(first, 2), errc::invalid_argument, HasSubstr("does not exist"));
  DWELL_EXPECT_ERROR(exec.set(first, 1, Arguments().add(1.0F)), errc::signature_mismatch, HasSubstr("u32"));
  DWELL_EXPECT_ERROR(exec.set(first, 1, Arguments().add(1U).add(1U)), errc::invalid_argument, HasSubstr("one argument"));

  DWELL_EXPECT_ERROR(graph.add(append, Arguments().add(number)), errc::signature_mismatch, HasSubstr("2 arguments are needed"));
  DWELL_EXPECT_ERROR(graph.add(append, Arguments().add(number).add(1U).add(link)), errc::invalid_argument,
                     HasSubstr("takes groups or a gang alone"));
  DWELL_EXPECT_ERROR(graph.add(append, Arguments().add(number).add(1U).add(repeat(2))), errc::invalid_argument,
                     HasSubstr("takes groups or a gang alone"));
  EXPECT_EQ(graph.size(), 2U);

  // A dropped buffer is detected, as with typed arguments.
  Graph stale;
  {
    const auto gone = filled<u32>(runtime, 1, 0);
    stale.add(append, Arguments().add(gone).add(1U));
  }
  DWELL_EXPECT_ERROR(runtime.instantiate(stale), errc::stale_handle, HasSubstr("dropped"));
}

TEST_P(ListsTest, AViewIsTheValueOfAConditionalNode) {
  Runtime runtime(options());
  const Operator<> count_down = runtime.define("count_down", R"(
    DWELL_OPERATOR(count_down)(dwell::Group g, dwell::Span<dwell::u32> left, dwell::Span<dwell::u32> rounds) {
      if (g.rank() == 0) { left[0] -= 1; rounds[0] += 1; }
      g.sync();
    })");
  auto left = runtime.allocate<std::byte>(4);
  const u32 five = 5;
  left.write(std::as_bytes(std::span(&five, 1)));
  const auto rounds = filled<u32>(runtime, 1, 0);
  Graph body;
  body.add(count_down, Arguments().add(BufferView(left, ElementType::u32)).add(rounds));
  Graph graph;
  graph.add_while("loop", DeviceValue(BufferView(left, ElementType::u32)), body);
  runtime.launch(runtime.instantiate(graph)).wait();
  EXPECT_EQ(read(rounds)[0], 5U);
  DWELL_EXPECT_ERROR(DeviceValue(BufferView(left, ElementType::i32)), errc::invalid_argument, HasSubstr("u32"));
  DWELL_EXPECT_ERROR(DeviceValue(BufferView(4096, 1, ElementType::u32)), errc::invalid_argument, HasSubstr("buffer"));
}

TEST_P(ListsTest, KernelsTakeThem) {
  if (on_cpu()) GTEST_SKIP() << "the CPU runs no kernels";
  Runtime runtime(options());
  const Module module = runtime.compile(R"(
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
__global__ void shift(double* to, double by) { to[threadIdx.x] += by; })");
  const auto x = filled<float>(runtime, 100, 2.0F);
  const auto y = filled<float>(runtime, 100, 1.0F);
  const LaunchConfig config{.grid = {1}, .block = {128}};
  module.kernel("axpy").launch(config, Arguments().add(3.0F).add(x).add(y).add(100)).wait();
  EXPECT_THAT(read(y), testing::Each(7.0F));
  const auto to = filled<double>(runtime, 4, 1.0);
  module.kernel("shift").launch({.block = {4}}, Arguments().add(to).add(0.5)).wait();
  EXPECT_THAT(read(to), testing::Each(1.5));
  DWELL_EXPECT_ERROR(module.kernel("shift").launch({.block = {4}}, Arguments().add(x).add(0.5)), errc::signature_mismatch,
                     HasSubstr("float"));
  DWELL_EXPECT_ERROR(module.kernel("shift").launch({.block = {4}}, Arguments().add(to).add(0.5).add(link)), errc::invalid_argument,
                     HasSubstr("modifiers"));
}

}  // namespace
}  // namespace dwell::test
