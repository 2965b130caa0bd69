// Snapshots of tables that a test fills as workers do, in memory that the host reaches or does not reach.
#include "runtime/observe/meters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/observe.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/keeper.hpp"

namespace dwell::runtime {
namespace {

constexpr std::uint32_t kWorkers = 20;
constexpr std::size_t kTimesBytes = device::OperatorTimes::kShards * sizeof(device::OperatorTimes);

// A backend of memory and copies; runs nothing.
class MetersBackend final : public backend::Backend {
 public:
  explicit MetersBackend(bool reached) : reached_(reached) {}

  backend::DeviceInfo info() const override { return {}; }
  std::unique_ptr<backend::Allocation> allocate(std::size_t bytes) override { return std::make_unique<Memory>(bytes, reached_); }
  std::unique_ptr<backend::Region> reserve(std::size_t bytes, std::size_t) override {
    return std::make_unique<Region>(bytes + (64U << 20U), reached_);
  }
  std::unique_ptr<backend::Allocation> allocate_host(std::size_t bytes) override {
    ++host_memory;
    return std::make_unique<Memory>(bytes, true);
  }
  void copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  void copy_on_device(std::uint64_t, std::uint64_t, std::size_t) override { ADD_FAILURE() << "nothing moves"; }
  void clear(std::uint64_t, std::size_t) override { ADD_FAILURE() << "nothing is cleared"; }
  void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    copied.push_back(bytes);
  }
  void copy_all_to_host(std::span<const backend::HostCopy> copies) override {
    ++waits;
    copied.clear();
    backend::Backend::copy_all_to_host(copies);
  }
  std::unique_ptr<backend::LoadedImage> load(std::span<const std::byte>) override { return std::make_unique<Image>(); }
  void start(backend::LoadedImage&, const device::Lease&) override { ADD_FAILURE() << "there is nothing to run"; }
  void finish() override {}
  std::string fault() override { return {}; }
  void abandon() override {}

  int host_memory = 0;
  int waits = 0;
  std::vector<std::size_t> copied;  // bytes of each copy of the last snapshot

 private:
  template <class Base>
  class Holding : public Base {
   public:
    Holding(std::size_t bytes, bool reached) : words_((bytes + kAligned) / sizeof(std::uint64_t) + 1) {
      this->device_ = device::align_up(reinterpret_cast<std::uint64_t>(words_.data()), kAligned);
      this->host_ = reached ? reinterpret_cast<void*>(this->device_) : nullptr;
      this->bytes_ = bytes;
    }

   private:
    static constexpr std::uint64_t kAligned = 256;
    std::vector<std::uint64_t> words_;
  };
  using Memory = Holding<backend::Allocation>;
  class Region final : public Holding<backend::Region> {
   public:
    using Holding::Holding;
    void grow(std::size_t) override { throw Error(errc::out_of_memory, "the tables are larger than a test has"); }
  };
  class Image final : public backend::LoadedImage {
   public:
    std::uint32_t max_workers(std::uint32_t) const override { return kWorkers; }
  };

  const bool reached_;
};

// The expected snapshot of one operator.
struct MetersExpected {
  std::uint64_t tasks = 0;
  std::uint64_t failures = 0;
  std::uint64_t timed = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t min_ns = ~0ULL;
  std::uint64_t max_ns = 0;
  std::uint64_t waits = 0;
  std::uint64_t waited_ns = 0;
  std::uint64_t longest_wait_ns = 0;
  std::array<std::uint64_t, TimeHistogram::kBuckets> count = {};
};

class MetersTest : public testing::TestWithParam<bool> {
 protected:
  MetersTest() {
    arena_.at_rest([this](const backend::Allocation& memory) {
      device::point_into_arena(&bench_.lease, bench_.layout, memory.device());
      keeper_.change_leases([&](device::Lease& lease) { device::point_into_arena(&lease, bench_.layout, memory.device()); });
    });
    keeper_.hand_over(backend_.load({}));
  }

  // The settings of the next lease.
  device::Lease lease() {
    device::Lease next{};
    keeper_.change_leases([&](const device::Lease& lease) { next = lease; });
    return next;
  }
  // Records a call as a worker of that lease does.
  void call(const device::Lease& lease, std::uint32_t worker, std::uint32_t opcode, std::uint64_t ns, MetersExpected& expected) {
    const auto cell = static_cast<std::size_t>(worker) * lease.observed + opcode;
    ++lease.calls[cell];
    ++expected.tasks;
    ++tasks_[worker];
    if (ns % 7 == 3) {
      ++lease.failures[opcode];
      ++expected.failures;
    }
    if ((lease.timed & device::timed::times) == 0) return;
    device::OperatorTimes& times = lease.times[opcode * device::OperatorTimes::kShards + worker % device::OperatorTimes::kShards];
    const std::uint32_t bucket = device::observe::bucket_of(static_cast<std::uint32_t>(std::min<std::uint64_t>(ns, ~0U)));
    times.total += ns;
    times.most = std::max<u64>(times.most, ns);
    times.least = std::max<u64>(times.least, ~ns);
    ++times.bucket[bucket];
    ++expected.timed;
    expected.total_ns += ns;
    expected.min_ns = std::min(expected.min_ns, ns);
    expected.max_ns = std::max(expected.max_ns, ns);
    ++expected.count[bucket];
    if (worker % 3 != 0) return;
    ++times.waits;
    times.waited += ns / 2;
    times.longest_wait = std::max<u64>(times.longest_wait, ns / 2);
    ++expected.waits;
    expected.waited_ns += ns / 2;
    expected.longest_wait_ns = std::max(expected.longest_wait_ns, ns / 2);
  }
  Metrics snapshot() {
    Metrics metrics;
    meters_.read(metrics);
    return metrics;
  }
  static void expect(const OperatorMetrics& op, const MetersExpected& expected) {
    SCOPED_TRACE(op.name + " " + std::to_string(op.version));
    EXPECT_EQ(op.tasks, expected.tasks);
    EXPECT_EQ(op.failures, expected.failures);
    EXPECT_EQ(op.timed, expected.timed);
    EXPECT_EQ(op.total_ns, expected.total_ns);
    EXPECT_EQ(op.min_ns, expected.timed == 0 ? 0 : expected.min_ns);
    EXPECT_EQ(op.max_ns, expected.max_ns);
    EXPECT_EQ(op.waits, expected.waits);
    EXPECT_EQ(op.waited_ns, expected.waited_ns);
    EXPECT_EQ(op.longest_wait_ns, expected.longest_wait_ns);
    EXPECT_THAT(op.times.count, testing::ElementsAreArray(expected.count));
  }
  void expect_workers(const Metrics& metrics) const {
    ASSERT_EQ(metrics.workers.size(), kWorkers);
    for (std::uint32_t i = 0; i < kWorkers; ++i) EXPECT_EQ(metrics.workers[i].tasks, tasks_[i]) << i;
  }

  test::Bench bench_{7, kWorkers};
  MetersBackend backend_{GetParam()};
  Arena arena_{backend_, bench_.layout, 0};
  Keeper keeper_{backend_, bench_.queue, test::keeper_settings(bench_, kWorkers), [](const auto& why, const auto&, bool) { return why; }};
  TaskSamples samples_{backend_, 7, [] { return 0; }};
  Meters meters_{backend_, keeper_, samples_, arena_};
  std::array<std::uint64_t, kWorkers> tasks_ = {};
};

INSTANTIATE_TEST_SUITE_P(Memory, MetersTest, testing::Bool(),
                         [](const auto& at) { return std::string(at.param ? "TheHostReaches" : "OfTheDevice"); });

TEST_P(MetersTest, AddUpAllTablesShardsAndWorkers) {
  meters_.set(Metering::times);
  std::mt19937_64 random(1);
  std::vector<MetersExpected> expected;
  // Tables grow twice; leases of all of them count.
  std::vector<device::Lease> leases;
  for (const std::uint32_t opcodes : {50U, 100U, 300U}) {
    meters_.reserve(opcodes);
    leases.push_back(lease());
    for (auto opcode = static_cast<std::uint32_t>(expected.size()); opcode < opcodes; ++opcode) {
      meters_.assign(opcode, "op" + std::to_string(opcode), 1, {});
      expected.emplace_back();
    }
    for (int i = 0; i < 20'000; ++i) {
      const device::Lease& one = leases[random() % leases.size()];
      const auto opcode = static_cast<std::uint32_t>(random() % std::min<std::uint64_t>(one.observed, opcodes));
      // Times of all magnitudes, an operator's within a range; also 0 and more than 32 bits.
      const std::uint64_t ns = random() >> (24 + opcode % 37 + random() % 4);
      call(one, static_cast<std::uint32_t>(random() % kWorkers), opcode, opcode % 5 == 0 ? 0 : ns, expected[opcode]);
    }
    const Metrics metrics = snapshot();
    ASSERT_EQ(metrics.operators.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(metrics.operators[i].name, "op" + std::to_string(i));
      expect(metrics.operators[i], expected[i]);
    }
    expect_workers(metrics);
  }
}

TEST_P(MetersTest, ReassignedOpcodeStartsFromZero) {
  meters_.set(Metering::times);
  meters_.assign(0, "before", 1, {});
  meters_.assign(7, "op", 1, {});
  std::array<MetersExpected, 2> expected;
  for (std::uint32_t i = 0; i < 100; ++i) call(lease(), i % kWorkers, 7, 1000 + 100 * i, expected[0]);
  meters_.assign(7, "op", 2, {});
  // Both versions live at once, under two opcodes.
  meters_.assign(9, "op", 1, {});
  // The minimum and maximum of an opcode cover all its meanings.
  expected[1].min_ns = expected[0].min_ns;
  expected[1].max_ns = expected[0].max_ns;
  expected[1].longest_wait_ns = expected[0].longest_wait_ns;
  for (std::uint32_t i = 0; i < 50; ++i) call(lease(), i % kWorkers, 7, 2000 + 10 * i, expected[1]);
  for (std::uint32_t i = 0; i < 30; ++i) call(lease(), i % kWorkers, 9, 5000, expected[0]);
  const Metrics metrics = snapshot();
  ASSERT_EQ(metrics.operators.size(), 3U);
  expect(metrics.operators[0], {});
  expect(metrics.operators[1], expected[0]);
  expect(metrics.operators[2], expected[1]);
  expect_workers(metrics);
}

TEST_P(MetersTest, TheTotalOfAnOperatorOnlyGrowsWhileItsOldVersionsAreFolded) {
  meters_.set(Metering::times);
  MetersExpected all;
  std::uint64_t before = 0;
  for (std::uint32_t version = 1; version <= 40; ++version) {
    meters_.assign(3, "op", version, {});
    for (std::uint32_t i = 0; i < version; ++i) call(lease(), i % kWorkers, 3, 100 * version + i, all);
    const Metrics metrics = snapshot();
    EXPECT_LE(metrics.operators.size(), 17U);
    const std::vector<OperatorMetrics> totals = metrics.totals();
    ASSERT_EQ(totals.size(), 1U);
    expect(totals[0], all);
    EXPECT_EQ(totals[0].tasks, before + version);
    before = totals[0].tasks;
  }
}

TEST_P(MetersTest, TellOfWorkersAndTheQueue) {
  bench_.control().head.value = ~0U;
  bench_.control().tail.value = 4;
  for (std::uint32_t i = 0; i < kWorkers; ++i)
    bench_.lease.worker_counts[i] = {100 + i,         200 + i, 300 + i, 400 + i, 500 + i, 600 + i,
                                     {1, 2, 3, 4, i}, 700 + i, 800 + i, 900 + i, 7,       {}};
  Metrics metrics = snapshot();
  EXPECT_EQ(metrics.queued, 5U);
  ASSERT_EQ(metrics.workers.size(), kWorkers);
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    const WorkerMetrics& worker = metrics.workers[i];
    EXPECT_EQ(worker.busy_ns, 100 + i);
    EXPECT_EQ(worker.fetched, 200 + i);
    EXPECT_EQ(worker.queued, 300 + i);
    EXPECT_EQ(worker.spawned, 400 + i);
    EXPECT_EQ(worker.leases, 500 + i);
    EXPECT_EQ(worker.present_ns, 600 + i);
    EXPECT_EQ(worker.stolen, 700 + i);
    EXPECT_EQ(worker.parks, 800 + i);
    EXPECT_EQ(worker.idle_ns, 900 + i);
    EXPECT_THAT(worker.log_dropped, testing::ElementsAre(1, 2, 3, 4, i));
  }
  bench_.control().tail.value = ~0U - 1;  // more claims than tasks
  EXPECT_EQ(snapshot().queued, 0U);
}

TEST_P(MetersTest, SnapshotWaitsOnceWithoutNewMemory) {
  meters_.set(Metering::times);
  for (std::uint32_t opcode = 0; opcode < 3; ++opcode) meters_.assign(opcode, "op" + std::to_string(opcode), 1, {});
  static_cast<void>(snapshot());
  const int waits = backend_.waits;
  const int memory = backend_.host_memory;
  for (int i = 0; i < 3; ++i) static_cast<void>(snapshot());
  EXPECT_EQ(backend_.waits, waits + 3);
  EXPECT_EQ(backend_.host_memory, memory);
  if (GetParam()) {
    EXPECT_EQ(memory, 1) << "of the stamps: the host looks where the words are";
    EXPECT_THAT(backend_.copied, testing::IsEmpty());
  } else {
    EXPECT_THAT(backend_.copied, testing::UnorderedElementsAre((kWorkers + 1) * 64 * 8, 3 * kTimesBytes, kWorkers * 128, 256))
        << "calls, times of three opcodes, workers, the queue";
  }
  // A change of meaning reads the cells of that opcode only.
  meters_.assign(1, "op1", 2, {});
  if (!GetParam()) {
    EXPECT_THAT(backend_.copied, testing::UnorderedElementsAre((kWorkers + 1) * 64 * 8, kTimesBytes));
  }
}

}  // namespace
}  // namespace dwell::runtime
