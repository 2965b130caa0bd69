#include "tests/scarcity/harness.hpp"

#include <algorithm>
#include <string>

namespace dwell::test {

namespace {

constexpr long kSanitizedStride = 7;

// The number of the next allocation to fail, after `number`.
long next(long number) {
  static const std::string wish = environment("DWELL_SCARCITY");
  if (wish == "all") return number + 1;
  if (environment("DWELL_STRESS") == "short" || kSanitized) return number + kSanitizedStride;
  static const std::uint64_t seed = std::strtoull(environment("DWELL_SCARCITY_SEED", "1").c_str(), nullptr, 10);
  constexpr long kAll = 200;
  if (number < kAll) return number + 1;
  std::uint64_t hash = (static_cast<std::uint64_t>(number) + seed) * 0x9E3779B97F4A7C15U;
  hash ^= hash >> 32U;
  return number + 1 + static_cast<long>(hash % static_cast<std::uint64_t>(number / 8));
}

}  // namespace

void ScarceMemoryTest::at_every_allocation(const Step& before, const Step& step, long many) {
  {
    // Once with memory: compiles all definitions, which may take long.
    World world;
    before(world);
    static_cast<void>(throws([&] { step(world); }));
    look_after(world);
    if (HasFailure()) return;
  }
  long failed = 0;
  for (long number = 1;; number = next(number)) {
    SCOPED_TRACE("allocation " + std::to_string(number) + ", " + std::to_string(many) + " at once");
    const Deadline deadline(std::chrono::seconds(60));
    World world;
    before(world);
    ScarceMemory::fail(number, many);
    static_cast<void>(throws([&] { step(world); }));
    const long made = ScarceMemory::relent();
    if (made >= number) ++failed;
    if (HasFailure()) ScarceMemory::tell();
    look_after(world);
    if (HasFailure()) {
      ScarceMemory::tell();
      break;
    }
    if (made < number) {
      std::printf("%ld of %ld allocations failed, %ld at once\n", failed, made, many);
      break;
    }
  }
  EXPECT_GT(failed, 0) << "nothing was short";
}

void ScarceMemoryTest::look_after(World& world) {
  if (!world.runtime) return;
  Ticket ticket;
  const bool closed = throws([&] { static_cast<void>(world.runtime->info()); });
  const bool lost = throws([&] {
    if (!world.op) world.op = world.runtime->define("op", adds("op", 1));
    if (world.cells.size() == 0) world.cells = world.runtime->allocate<u32>(16);
    ticket = world.runtime->submit(world.op, world.cells, 0U);
    EXPECT_TRUE(ticket.wait_for(std::chrono::seconds(5))) << "tasks do not run any more";
  });
  EXPECT_EQ(closed, lost) << "a runtime that is there does not work";
  EXPECT_EQ(lost, throws([&] { world.runtime->define("after", adds("after", 1)); }));
  EXPECT_EQ(lost, throws([&] { world.op.redefine(adds("op", 1)); }));
  for (const Ticket& earlier : world.tickets) static_cast<void>(earlier.status());
  world.tickets.clear();
  static_cast<void>(throws([&] { world.runtime->close(); }));
  world.runtime.reset();
}

}  // namespace dwell::test
