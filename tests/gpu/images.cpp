// Operators that need a large part of a multiprocessor: they compute correctly beside small ones, reduce the workers while they are in the
// image, and are refused if no worker would fit.
#include <algorithm>
#include <numeric>

#include "tests/gpu/gpu_test.hpp"
#include "tests/gpu/stream.hpp"

namespace dwell::test {
namespace {

class ImagesTest : public GpuTest {};

using Map = void(Span<const u32>, Span<u32>);

// Two hundred live values.
constexpr const char* kManyRegisters = R"(
DWELL_OPERATOR(many_registers)(dwell::Group g, dwell::Span<const dwell::u32> in, dwell::Span<dwell::u32> out) {
  for (auto i : g.range(out.size())) {
    dwell::u32 v[200];
    const dwell::u32 x = in[i];
#pragma unroll
    for (dwell::u32 k = 0; k < 200; ++k) v[k] = x * (2 * k + 1) + k;
#pragma unroll 1
    for (dwell::u32 round = 0; round < 3; ++round) {
#pragma unroll
      for (dwell::u32 k = 0; k < 200; ++k) v[k] = v[k] * 3 + (v[(k + 7) % 200] >> 3);
    }
    dwell::u32 all = 0;
#pragma unroll
    for (dwell::u32 k = 0; k < 200; ++k) all = all * 31 + v[k];
    out[i] = all;
  }
})";

u32 many_registers(u32 x) {
  std::vector<u32> v(200);
  for (u32 k = 0; k < 200; ++k) v[k] = x * (2 * k + 1) + k;
  for (int round = 0; round < 3; ++round)
    for (u32 k = 0; k < 200; ++k) v[k] = v[k] * 3 + (v[(k + 7) % 200] >> 3);
  return std::accumulate(v.begin(), v.end(), 0U, [](u32 all, u32 value) { return all * 31 + value; });
}

// The same name and parameters, with few resources.
constexpr const char* kModest = R"(
DWELL_OPERATOR(many_registers)(dwell::Group g, dwell::Span<const dwell::u32> in, dwell::Span<dwell::u32> out) {
  for (auto i : g.range(out.size())) out[i] = in[i];
})";

// Reverses 10240 words through 40 KB of static shared memory. Fails if that overlaps the scratch memory.
constexpr u32 kTable = 10240;
constexpr const char* kReverse = R"(
DWELL_OPERATOR(reverse)(dwell::Group g, dwell::Span<const dwell::u32> in, dwell::Span<dwell::u32> out) {
  __shared__ dwell::u32 table[10240];
  const dwell::Span<dwell::u32> scratch = g.shared<dwell::u32>(1024);
  for (auto i : g.local_range(scratch.size())) scratch[i] = 0xABCD0000u + static_cast<dwell::u32>(i);
  for (auto i : g.local_range(10240)) table[i] = in[i];
  g.sync();
  for (auto i : g.local_range(scratch.size()))
    if (scratch[i] != 0xABCD0000u + static_cast<dwell::u32>(i)) g.fail(1);
  for (auto i : g.local_range(10240)) out[i] = table[10239 - i];
  g.sync();
})";

// More than a kernel's 48 KB of static shared memory.
constexpr const char* kTooMuch = R"(
DWELL_OPERATOR(too_much)(dwell::Group g, dwell::Span<const dwell::u32> in, dwell::Span<dwell::u32> out) {
  __shared__ dwell::u32 table[16384];
  for (auto i : g.local_range(16384)) table[i] = in[i];
  g.sync();
  for (auto i : g.local_range(16384)) out[i] = table[16383 - i];
})";

// `add` (tests/conformance/suite.hpp) with a table as large as that of `reverse`.
constexpr const char* kAddWithTable = R"(
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
  __shared__ dwell::u32 table[10240];
  for (auto i : g.local_range(10240)) table[i] = value;
  g.sync();
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], table[value & 1023u]);
})";

std::vector<u32> counting(u32 count) {
  std::vector<u32> all(count);
  std::iota(all.begin(), all.end(), 5U);
  return all;
}

TEST_F(ImagesTest, LargeOperatorsAndSmallOnesRunBesideEachOther) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto many = runtime.define<Map>("many_registers", kManyRegisters);
  auto reverse = runtime.define<Map>("reverse", kReverse);
  constexpr u32 kRounds = 1000;
  constexpr u32 kOuts = 16;
  const std::vector<u32> in = counting(kTable);
  auto from = runtime.allocate<u32>(kTable);
  from.write(in);
  auto cells = filled<u32>(runtime, 1, 0);
  auto computed = filled<u32>(runtime, kTable, 0);
  std::vector<Buffer<u32>> reversed;
  for (u32 i = 0; i < kOuts; ++i) reversed.push_back(filled<u32>(runtime, kTable, 0));
  for (u32 round = 0; round < kRounds; ++round) {
    for (u32 i = 0; i < 10; ++i) runtime.submit(add, cells, 0U, 1U);
    const u32 part = round * 128 % kTable;
    runtime.submit(many, from.slice(part, 128), computed.slice(part, 128));
    runtime.submit(reverse, from, reversed[round % kOuts]);
    if (round % 100 == 0) runtime.submit(many, from, computed, groups(80));
  }
  runtime.submit(reverse, from, reversed[0]).wait();  // throws if the memories overlap
  EXPECT_EQ(read(cells)[0], 10 * kRounds);
  const std::vector<u32> got = read(computed);
  for (u32 i = 0; i < kTable; ++i) ASSERT_EQ(got[i], many_registers(in[i])) << "element " << i;
  const std::vector<u32> backwards(in.rbegin(), in.rend());
  for (const Buffer<u32>& out : reversed) EXPECT_EQ(read(out), backwards);
}

TEST_F(ImagesTest, LargeOperatorCostsWorkersWhileInTheImage) {
  Options roomy = options();
  roomy.scratch_bytes = 16384;  // so that shared memory limits the workers beside a large table
  Runtime runtime(roomy);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  u32 sum = 0;
  const auto works = [&] {
    for (u32 i = 0; i < 2000; ++i) runtime.submit(add, cells, 0U, 1U);
    EXPECT_EQ(read(cells)[0], sum += 2000);
  };
  works();
  const RuntimeInfo small = runtime.info();
  EXPECT_LE(small.registers, 64U);
  EXPECT_LT(small.shared_bytes, 8192U);

  auto many = runtime.define<Map>("many_registers", kModest);
  EXPECT_EQ(runtime.info().workers, small.workers);
  many.redefine(kManyRegisters);
  works();
  const RuntimeInfo many_registers = runtime.info();
  EXPECT_GT(many_registers.registers, 200U);
  EXPECT_LT(many_registers.workers, small.workers);
  EXPECT_LE(many_registers.crew, many_registers.workers);
  // A rollback needs no new image; the next image drops the version.
  many.rollback();
  EXPECT_EQ(runtime.info().registers, many_registers.registers);
  auto reverse = runtime.define<Map>("reverse", kReverse);
  works();
  const RuntimeInfo much_memory = runtime.info();
  EXPECT_LT(much_memory.registers, many_registers.registers);
  EXPECT_GE(much_memory.shared_bytes, 40960U);
  EXPECT_LT(much_memory.workers, small.workers);
  EXPECT_GT(much_memory.workers, 0U);

  // A version stays for two images: as the rollback target, and until the next image is linked.
  const std::string modest = "DWELL_OPERATOR(reverse)(dwell::Group, dwell::Span<const dwell::u32>, dwell::Span<dwell::u32>) {}";
  reverse.redefine(modest);
  EXPECT_EQ(runtime.info().shared_bytes, much_memory.shared_bytes);
  reverse.redefine(modest + "\n");
  reverse.redefine(modest + "\n\n");
  works();
  const RuntimeInfo after = runtime.info();
  EXPECT_EQ(after.registers, small.registers);
  EXPECT_EQ(after.shared_bytes, small.shared_bytes);
  EXPECT_EQ(after.workers, small.workers);
  EXPECT_EQ(after.crew, small.crew);
}

TEST_F(ImagesTest, NothingIsLostWhenWorkersComeAndGo) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto many = runtime.define<Map>("many_registers", kModest);
  const std::vector<u32> in = counting(1024);
  auto from = runtime.allocate<u32>(in.size());
  from.write(in);
  auto to = filled<u32>(runtime, in.size(), 0);
  const unsigned most = runtime.info().workers;
  Stream stream(runtime, add);
  for (int turn = 0; turn < 30; ++turn) {
    many.redefine(kManyRegisters);
    EXPECT_LT(runtime.info().workers, most);
    runtime.submit(many, from, to, groups(8)).wait();
    EXPECT_EQ(read(to)[turn], many_registers(in[static_cast<std::size_t>(turn)]));
    // Until the large version is neither current nor the rollback target, and an image has been linked without it.
    many.redefine(kModest);
    many.redefine(std::string(kModest) + "\n");
    runtime.submit(many, from, to, drain).wait();
    many.redefine(kModest);
    EXPECT_EQ(runtime.info().workers, most);
    runtime.submit(many, from, to, groups(8)).wait();
    EXPECT_EQ(read(to), in);
  }
  stream.expect_all();
}

TEST_F(ImagesTest, OperatorWithoutRoomIsRefusedAndTheImageStays) {
  Options greedy = options();
  {
    const Foreign foreign;
    int most = 0;
    DWELL_BENCH_CUDA(foreign.driver, cuDeviceGetAttribute, &most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, foreign.device);
    greedy.scratch_bytes = static_cast<unsigned>(most) - 20480;
  }
  Runtime runtime(greedy);
  auto add = runtime.define<Add>("add", kAdd);
  const RuntimeInfo before = runtime.info();
  const std::uint64_t images = runtime.metrics().images;
  EXPECT_GT(before.workers, 0U);
  Stream stream(runtime, add);
  const auto refusal =
      AllOf(HasSubstr("would hold no worker"), HasSubstr(" registers a thread"), HasSubstr(std::to_string(greedy.scratch_bytes)));
  for (int turn = 0; turn < 5; ++turn) {
    DWELL_EXPECT_ERROR(runtime.define("reverse", kReverse), errc::resource_limit, refusal);
    DWELL_EXPECT_ERROR(add.redefine(kAddWithTable), errc::resource_limit, refusal);
    EXPECT_EQ(add.version(), 1U);
    EXPECT_EQ(add.versions(), 1U);
    const RuntimeInfo now = runtime.info();
    EXPECT_EQ(now.workers, before.workers);
    EXPECT_EQ(now.shared_bytes, before.shared_bytes);
    EXPECT_EQ(runtime.metrics().images, images);
  }
  auto modest = runtime.define<Map>("many_registers", kModest);
  EXPECT_EQ(runtime.metrics().images, images + 1);
  auto from = filled<u32>(runtime, 10, 7);
  auto to = filled<u32>(runtime, 10, 0);
  runtime.submit(modest, from, to).wait();
  EXPECT_THAT(read(to), testing::Each(7U));
  stream.expect_all();
}

TEST_F(ImagesTest, TooMuchScratchMemoryIsRefusedWithTheFirstOperator) {
  Options greedy = options();
  greedy.scratch_bytes = 1U << 20U;
  Runtime runtime(greedy);
  DWELL_EXPECT_ERROR(runtime.define("add", kAdd), errc::resource_limit, AllOf(HasSubstr("would hold no worker"), HasSubstr("1048576")));
  EXPECT_EQ(runtime.info().crew, 0U);
  runtime.close();
}

TEST_F(ImagesTest, OperatorBeyondALimitIsRefusedAndTheImageStays) {
  Options limited = options();
  limited.limits.registers = 128;
  limited.limits.shared_bytes = 16384;
  Runtime runtime(limited);
  auto add = runtime.define<Add>("add", kAdd);
  const RuntimeInfo before = runtime.info();
  const std::uint64_t images = runtime.metrics().images;
  EXPECT_GT(before.constant_bytes, 0U);
  EXPECT_GE(before.barriers, 2U);
  Stream stream(runtime, add);
  DWELL_EXPECT_ERROR(runtime.define("many_registers", kManyRegisters), errc::resource_limit,
                     AllOf(HasSubstr("'many_registers'"), HasSubstr("the option limits.registers is 128"), HasSubstr("max_registers")));
  DWELL_EXPECT_ERROR(runtime.define("reverse", kReverse), errc::resource_limit,
                     AllOf(HasSubstr("('reverse' 40960)"), HasSubstr("the option limits.shared_bytes is 16384")));
  EXPECT_EQ(runtime.metrics().images, images);
  EXPECT_EQ(runtime.info().workers, before.workers);
  stream.expect_all();
}

TEST_F(ImagesTest, OperatorsCostingTooManyWorkersAreRefused) {
  Options limited = options();
  {
    Runtime runtime(limited);
    runtime.define<Add>("add", kAdd);
    limited.limits.min_workers = runtime.info().workers;
  }
  Runtime runtime(limited);
  auto add = runtime.define<Add>("add", kAdd);
  const std::string least = "the least is " + std::to_string(limited.limits.min_workers);
  DWELL_EXPECT_ERROR(runtime.define("many_registers", kManyRegisters), errc::resource_limit,
                     AllOf(HasSubstr("'many_registers'"), HasSubstr(least), HasSubstr("registers a thread"), HasSubstr("scratch_bytes")));
  auto modest = runtime.define<Map>("many_registers", kModest);
  auto from = filled<u32>(runtime, 10, 7);
  auto to = filled<u32>(runtime, 10, 0);
  runtime.submit(modest, from, to).wait();
  EXPECT_THAT(read(to), testing::Each(7U));
}

TEST_F(ImagesTest, MoreThan48KiBOfStaticSharedMemoryWorkOrAreRefused) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  // The outcome depends on the version of the linker.
  try {
    auto much = runtime.define<Map>("too_much", kTooMuch);
    auto in = filled<u32>(runtime, 16384, 0);
    auto out = filled<u32>(runtime, 16384, 0);
    std::vector<u32> numbers(16384);
    std::iota(numbers.begin(), numbers.end(), 1U);
    in.write(numbers);
    runtime.submit(much, in, out).wait();
    std::ranges::reverse(numbers);
    EXPECT_EQ(read(out), numbers);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::link_failed);
    EXPECT_THAT(error.message(), HasSubstr("shared"));
  }
  auto cells = filled<u32>(runtime, 1, 0);
  runtime.submit(add, cells, 0U, 1U).wait();
  EXPECT_EQ(read(cells)[0], 1U);
}

}  // namespace
}  // namespace dwell::test
