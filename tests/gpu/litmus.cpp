// No stale reads: neither by the host once a ticket is done, nor by a task that follows a write.
//
// Operators use ordinary loads and stores, and the L1 caches of multiprocessors are not coherent. Visibility depends on the few fences of
// src/device (docs/memory_model.md); each test names the fences whose absence it would detect. A stale word shows as a word of an earlier
// round: each round writes other values to the same words, and the readers of one round leave their L1 warm for the next.
#include <algorithm>

#include "tests/gpu/gpu_test.hpp"

namespace dwell::test {
namespace {

// In round `seed`, word i holds seed + i * kStep: each word identifies its round.
constexpr u32 kStep = 0x9E3779B1U;
constexpr u32 kWords = 512;  // 16 lines, four words a thread

constexpr const char* kWrite = R"(
DWELL_OPERATOR(write)(dwell::Group g, dwell::Span<dwell::u32> words, dwell::u32 seed) {
  for (auto i : g.range(words.size())) words[i] = seed + static_cast<dwell::u32>(i) * 0x9E3779B1u;
})";
using Write = void(Span<u32>, u32);

// The fields of the report that `check` writes.
enum Field : u32 { kChecks, kStale, kClaimed, kSeed, kIndex, kGot, kFields };

// Every group reads all words with ordinary loads.
constexpr const char* kCheck = R"(
DWELL_OPERATOR(check)(dwell::Group g, dwell::Span<const dwell::u32> words, dwell::u32 seed, dwell::Span<dwell::u32> report) {
  using namespace dwell::device;
  dwell::u32 stale = 0;
  for (auto i : g.local_range(words.size())) {
    const dwell::u32 got = words[i];
    if (got == seed + static_cast<dwell::u32>(i) * 0x9E3779B1u) continue;
    ++stale;
    if (compare_exchange<Order::relaxed>(&report[2], 0u, 1u) == 0) {
      report[3] = seed;
      report[4] = static_cast<dwell::u32>(i);
      report[5] = got;
    }
  }
  stale = g.sum(stale);
  if (g.rank() == 0) {
    fetch_add<Order::relaxed>(&report[0], 1u);
    if (stale != 0) fetch_add<Order::relaxed>(&report[1], stale);
  }
})";
using Check = void(Span<const u32>, u32, Span<u32>);

// Reads all words repeatedly until control[0] is set, so that they stay in the L1 of its multiprocessor. Executes nothing that would clear
// it: no acquire, no fence. control[1] counts the running tasks.
constexpr const char* kKeepWarm = R"(
DWELL_OPERATOR(keep_warm)(dwell::Group g, dwell::Span<const dwell::u32> words, dwell::Span<dwell::u32> control) {
  using namespace dwell::device;
  if (g.rank() == 0) fetch_add<Order::relaxed>(&control[1], 1u);
  const dwell::u64 start = now_ns();
  dwell::u32 sum = 0;
  while (load<Order::relaxed, Scope::device>(&control[0]) == 0 && now_ns() - start < 100000000000ull)
    for (auto i : g.local_range(words.size())) sum += words[i];
  if (sum == 1) control[2] = sum;  // keeps the compiler from removing the loads
  g.sync();
})";
using KeepWarm = void(Span<const u32>, Span<u32>);

std::vector<u32> pattern(std::size_t words, u32 seed) {
  std::vector<u32> all(words);
  for (std::size_t i = 0; i < words; ++i) all[i] = seed + static_cast<u32>(i) * kStep;
  return all;
}

// Results of the host's reads.
struct Readings {
  std::size_t checks = 0;
  std::size_t stale = 0;
  std::string first;

  void check(std::span<const u32> words, u32 seed) {
    ++checks;
    u32 difference = 0;
    for (std::size_t i = 0; i < words.size(); ++i) difference |= words[i] ^ (seed + static_cast<u32>(i) * kStep);
    if (difference == 0) return;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const u32 got = words[i];
      if (got == seed + static_cast<u32>(i) * kStep) continue;
      if (stale++ == 0) {
        first = "in round " + std::to_string(seed) + " word " + std::to_string(i) + " was of round " +
                std::to_string(got - static_cast<u32>(i) * kStep);
      }
    }
  }
  void expect_none() const { EXPECT_EQ(stale, 0U) << "stale words in " << checks << " readings; " << first; }
};

class LitmusTest : public GpuTest {
 protected:
  std::chrono::seconds limit() const override { return 120s; }
};

// Runs `write` repeatedly on up to `cells` cells of `buffer` at once, with `width` groups each, until `rounds` have been checked. `fetch`
// updates the host's view of the buffer.
template <class Fetch>
void write_and_read(Runtime& runtime, const Operator<Write>& write, const Buffer<u32>& buffer, std::span<const u32> seen, std::size_t cells,
                    u32 width, std::size_t rounds, u32* seed, Readings* readings, Fetch fetch) {
  struct Cell {
    Ticket ticket;
    u32 seed = 0;
    bool complete = false;
  };
  std::vector<Cell> all(cells);
  const std::size_t words = std::size_t{kWords} * width;
  const auto submit = [&](std::size_t i) {
    all[i].seed = ++*seed;
    all[i].complete = false;
    all[i].ticket = runtime.submit(write, buffer.slice(i * words, words), all[i].seed, groups(width));
  };
  for (std::size_t i = 0; i < cells; ++i) submit(i);
  const std::size_t until = readings->checks + rounds;
  while (readings->checks < until) {
    // Only cells that were complete before the copy began must be in it.
    bool any = false;
    for (Cell& cell : all) any = (cell.complete = cell.ticket.done()) || any;
    if (!any) continue;
    fetch();
    for (std::size_t i = 0; i < cells; ++i) {
      if (!all[i].complete) continue;
      readings->check(seen.subspan(i * words, words), all[i].seed);
      submit(i);
    }
  }
  runtime.wait_all();
}

constexpr std::size_t kCells = 32;
constexpr u32 kWidth = 8;

// Detects a missing fence<Scope::device> in complete() (src/device/completion.hpp); for wide tasks the one in run_share() (worker.hpp),
// after which the last share completes the task for the others.
TEST_F(LitmusTest, DeviceResultsAreVisibleOnceTheTicketIsDone) {
  Runtime runtime(options());
  auto write = runtime.define<Write>("write", kWrite);
  constexpr std::size_t kMost = kCells * kWords * kWidth;
  auto buffer = runtime.allocate<u32>(kMost);
  const auto copy = runtime.allocate<u32>(kMost, Memory::host);
  const std::span<const u32> seen = copy.host();
  const Foreign foreign;
  Readings readings;
  u32 seed = 0;
  const auto fetch = [&](std::size_t words) {
    return [&, words] { foreign.copy_to_host(copy.host().data(), static_cast<const u32*>(buffer.data()), words); };
  };
  // One at a time, with nothing between the check of the ticket and the copy; then many at once.
  write_and_read(runtime, write, buffer, seen, 1, 1, times(200'000), &seed, &readings, fetch(kWords));
  write_and_read(runtime, write, buffer, seen, 1, kWidth, times(50'000), &seed, &readings, fetch(std::size_t{kWords} * kWidth));
  write_and_read(runtime, write, buffer, seen, kCells, 1, times(700'000), &seed, &readings, fetch(kCells * kWords));
  write_and_read(runtime, write, buffer, seen, kCells, kWidth, times(100'000), &seed, &readings, fetch(kMost));
  readings.expect_none();
  EXPECT_GE(readings.checks, times(1'000'000));
}

// The same through the public interface: Buffer::read sees a task's writes. Detects the same missing fences.
TEST_F(LitmusTest, ReadingABufferShowsTheWritesOfItsTasks) {
  Runtime runtime(options());
  auto write = runtime.define<Write>("write", kWrite);
  auto buffer = runtime.allocate<u32>(kWords);
  std::vector<u32> seen(kWords);
  Readings readings;
  for (u32 seed = 1; seed <= times(100'000); ++seed) {
    runtime.submit(write, buffer, seed);
    buffer.read(seen);
    readings.check(seen, seed);
  }
  readings.expect_none();
}

// Detects a missing fence<Scope::system> in complete(). For wide tasks it must cover the writes of other workers, which are fenced only at
// device scope in run_share().
TEST_F(LitmusTest, HostResultsAreVisibleOnceTheTicketIsDone) {
  Runtime runtime(options());
  auto write = runtime.define<Write>("write", kWrite);
  const auto buffer = runtime.allocate<u32>(kCells * kWords * kWidth, Memory::host);
  const std::span<const u32> seen = buffer.host();
  Readings readings;
  u32 seed = 0;
  const auto nothing = [] {};
  write_and_read(runtime, write, buffer, seen, 1, 1, times(400'000), &seed, &readings, nothing);
  write_and_read(runtime, write, buffer, seen, 1, kWidth, times(100'000), &seed, &readings, nothing);
  write_and_read(runtime, write, buffer, seen, kCells, 1, times(400'000), &seed, &readings, nothing);
  write_and_read(runtime, write, buffer, seen, kCells, kWidth, times(100'000), &seed, &readings, nothing);
  readings.expect_none();
  EXPECT_GE(readings.checks, times(1'000'000));
}

// The tasks and workers beside the readers.
struct Crowd {
  const char* name;
  unsigned workers;  // 0: the default
  bool warm;         // most workers only keep the words in their L1
};

// Few workers, so that each reads in almost every wide round.
constexpr Crowd kFew{"few workers", 24, false};
constexpr Crowd kMany{"all workers", 0, false};
// The fence at the end of a task drops its reads from the L1, like the fence at the start of the next. Detecting that the latter is missing
// needs a task that still runs on the same multiprocessor and keeps the words of the last round in its L1.
constexpr Crowd kWarm{"caches kept warm", 0, true};

// A runtime with tasks that write and check words.
class Readers {
 public:
  explicit Readers(const Crowd& crowd, std::size_t words = kWords, Memory memory = Memory::device)
      : runtime(options_for(crowd)),
        write(runtime.define<Write>("write", kWrite)),
        check(runtime.define<Check>("check", kCheck)),
        spin(runtime.define<Spin>("spin", kSpin)),
        buffer(runtime.allocate<u32>(words, memory)),
        report_(filled<u32>(runtime, kFields, 0)),
        control_(filled<u32>(runtime, 3, 0)) {
    // The first link of a runtime is a drain, which would wait for the tasks that keep the caches warm.
    runtime.submit(write, buffer, 0U);
    runtime.submit(write, buffer, 0U, link).wait();
    if (!crowd.warm) return;
    auto keep_warm = runtime.define<KeepWarm>("keep_warm", kKeepWarm);
    const u32 most = runtime.info().workers * 5 / 8;
    for (u32 i = 0; i < most; ++i) runtime.submit(keep_warm, buffer, control_);
    runtime.submit(write, buffer, 0U).wait();  // tracked, for a link
    EXPECT_TRUE(eventually([&] {
      u32 begun = 0;
      foreign.copy_to_host(&begun, static_cast<const u32*>(control_.data()) + 1, 1);
      return begun == most;
    }));
  }
  ~Readers() {
    try {
      let_go();
    } catch (const std::exception&) {
      // The device is lost, and these tasks with it.
    }
  }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  // One worker reads most rounds, usually the one that read the last; many read every fourth.
  template <class... Modifiers>
  Ticket submit_check(u32 seed, Modifiers... modifiers) {
    const u32 width = seed % 4 == 0 ? 24 : 1;
    checks += width;
    return runtime.submit(check, buffer, seed, report_, groups(width), modifiers...);
  }
  Ticket submit_check_of(const Slice<u32>& part, u32 seed) {
    ++checks;
    return runtime.submit(check, part, seed, report_, link);
  }
  void expect_none() {
    let_go();
    runtime.wait_all();
    const std::vector<u32> report = read(report_);
    EXPECT_EQ(report[kChecks], checks);
    EXPECT_EQ(report[kStale], 0U) << "stale words in " << checks << " readings; in round " << report[kSeed] << " word " << report[kIndex]
                                  << " was of round " << report[kGot] - report[kIndex] * kStep;
  }

  Foreign foreign;
  Runtime runtime;
  Operator<Write> write;
  Operator<Check> check;
  Operator<Spin> spin;
  Buffer<u32> buffer;

 private:
  static Options options_for(const Crowd& crowd) {
    Options options;
    options.device = cuda_device();
    options.workers = crowd.workers;
    options.task_timeout = 0ns;
    // Tasks that keep the caches warm stay the oldest in flight: all later tasks must fit behind them.
    if (crowd.warm) options.ring_slots = 1U << 18U;
    return options;
  }
  void let_go() {
    const u32 stop = 1;
    foreign.copy_to_device(control_.data(), &stop, 1);
  }

  std::size_t checks = 0;
  Buffer<u32> report_;
  Buffer<u32> control_;
};

// Detects a missing fence<Scope::device> in Hands::hand (src/device/cuda_control.hpp), unless the fence at the end of that worker's
// previous task covers it.
TEST_F(LitmusTest, ATaskSeesAnEarlierCopyOfTheHost) {
  for (const Crowd& crowd : {kMany, kFew}) {
    SCOPED_TRACE(crowd.name);
    Readers readers(crowd);
    for (u32 seed = 1; seed <= times(60'000); ++seed) {
      readers.buffer.write(pattern(kWords, seed));
      readers.submit_check(seed);
    }
    readers.expect_none();
  }
}

// The same with a copy on a foreign stream, unknown to the runtime. Detects a missing fence<Scope::device> in Hands::hand, which drops the
// L1 before the task; with warm caches no other fence does.
TEST_F(LitmusTest, ATaskSeesAnEarlierCopyOfAForeignStream) {
  for (const Crowd& crowd : {kMany, kFew, kWarm}) {
    SCOPED_TRACE(crowd.name);
    Readers readers(crowd);
    const auto from = readers.runtime.allocate<u32>(kWords, Memory::host);
    for (u32 seed = 1; seed <= times(60'000); ++seed) {
      std::ranges::copy(pattern(kWords, seed), from.host().begin());
      readers.foreign.copy_to_device(readers.buffer.data(), static_cast<const u32*>(from.host().data()), kWords);
      readers.submit_check(seed).wait();
    }
    readers.expect_none();
  }
}

// Detects a missing fence<Scope::system> in Hands::hand. The host's own stores are in order on x86-64.
TEST_F(LitmusTest, ATaskSeesEarlierStoresOfTheHost) {
  for (const Crowd& crowd : {kMany, kFew}) {  // without kWarm: hundreds of tasks that read host memory would dominate
    SCOPED_TRACE(crowd.name);
    Readers readers(crowd, kWords, Memory::host);
    const std::span<u32> words = readers.buffer.host();
    for (u32 seed = 1; seed <= times(100'000); ++seed) {
      for (u32 i = 0; i < kWords; ++i) words[i] = seed + i * kStep;
      readers.submit_check(seed).wait();
    }
    readers.expect_none();
  }
}

// A chain of writers and readers, mostly on one worker; a wide reader shares it with many. Detects a missing acq_rel exchange in
// complete(), after which a worker runs the linked task without another fence; the fence in complete() if the linked task runs elsewhere
// because it was fetched too late; for wide tasks the fence in share_out().
TEST_F(LitmusTest, ALinkedTaskSeesTheOneBeforeIt) {
  for (const Crowd& crowd : {kMany, kFew, kWarm}) {
    SCOPED_TRACE(crowd.name);
    Readers readers(crowd);
    for (u32 seed = 1; seed <= times(60'000); ++seed) {
      // Every eighth writer is wide: its last share then finds the reader.
      readers.runtime.submit(readers.write, readers.buffer, seed, groups(seed % 8 == 1 ? 4 : 1), link);
      readers.submit_check(seed, link);
    }
    readers.expect_none();
  }
}

// Concurrent pairs on all workers, repeatedly on the same cells. Each time the writer of a cell is on another worker, and all L1 caches
// have seen the cell before. Detects the same missing fences.
TEST_F(LitmusTest, LinkedPairsOnAllWorkersSeeEachOther) {
  for (const Crowd& crowd : {kMany, kFew, kWarm}) {
    SCOPED_TRACE(crowd.name);
    constexpr std::size_t kPairs = 64;
    Readers readers(crowd, kPairs * kWords);
    std::vector<Ticket> last(kPairs);
    const auto rounds = static_cast<u32>(times(100'000) / kPairs);
    for (u32 round = 1; round <= rounds; ++round) {
      for (u32 i = 0; i < kPairs; ++i) {
        last[i].wait();
        const auto cell = readers.buffer.slice(std::size_t{i} * kWords, kWords);
        const u32 seed = round * static_cast<u32>(kPairs) + i;
        readers.runtime.submit(readers.write, cell, seed);
        last[i] = readers.submit_check_of(cell, seed);
      }
    }
    readers.expect_none();
  }
}

// Several writers on several workers, then a reader that drains. Detects a missing fence in complete() before the addition to `completed`,
// the acquire in admission::drained, and the fence in admit(), by which the fetcher passes its acquire to the reader's worker.
TEST_F(LitmusTest, ADrainingTaskSeesAllTasksBeforeIt) {
  for (const Crowd& crowd : {kMany, kFew}) {  // without kWarm: a drain would wait for the tasks that keep the caches warm
    SCOPED_TRACE(crowd.name);
    constexpr u32 kParts = 8;
    constexpr u32 kPart = kWords / kParts;
    Readers readers(crowd);
    for (u32 seed = 1; seed <= times(60'000); ++seed) {
      for (u32 part = 0; part < kParts; ++part)
        readers.runtime.submit(readers.write, readers.buffer.slice(std::size_t{part} * kPart, kPart), seed + part * kPart * kStep);
      readers.submit_check(seed, drain);
    }
    readers.expect_none();
  }
}

// Only the host orders the two tasks: it has seen the completion entry of the first before it submits the second. Detects a missing fence
// in complete(), and with warm caches the one in Hands::hand.
TEST_F(LitmusTest, ATaskSeesATaskTheHostHasWaitedFor) {
  for (const Crowd& crowd : {kMany, kFew, kWarm}) {
    SCOPED_TRACE(crowd.name);
    Readers readers(crowd);
    for (u32 seed = 1; seed <= times(60'000); ++seed) {
      readers.runtime.submit(readers.write, readers.buffer, seed).wait();
      readers.submit_check(seed).wait();
    }
    readers.expect_none();
  }
}

// The words change while a task without memory runs, which therefore ends without a fence. The linked reader runs on the same worker,
// without passing Hands::hand. Detects a missing acquire of the exchange in complete().
TEST_F(LitmusTest, ALinkedTaskSeesACopyMadeDuringItsPredecessor) {
  Readers readers(kWarm);
  Runtime& runtime = readers.runtime;
  const auto from = runtime.allocate<u32>(kWords, Memory::host);
  for (u32 seed = 1; seed <= times(100'000); ++seed) {
    runtime.submit(readers.spin, u64{30'000});
    std::ranges::copy(pattern(kWords, seed), from.host().begin());
    readers.foreign.copy_to_device(readers.buffer.data(), static_cast<const u32*>(from.host().data()), kWords);
    readers.submit_check_of(readers.buffer.slice(), seed).wait();
  }
  readers.expect_none();
}

}  // namespace
}  // namespace dwell::test
