// Shared by the tests of gangs: operators of gangs, and options with enough workers.
#pragma once

#include "tests/conformance/suite.hpp"

namespace dwell::test {

// Each group adds its rank to a sum, and sees all sums in each step.
inline constexpr const char* kGangSteps = R"(
DWELL_OPERATOR(gang_steps)(dwell::Group g, dwell::Span<dwell::u32> sums, dwell::Span<dwell::u32> wrong, dwell::u32 steps) {
  using namespace dwell::device;
  const dwell::Gang gang = g.gang();
  const dwell::u32 n = gang.size();
  if (n != g.count() || gang.rank() != g.index()) g.fail(1);
  for (dwell::u32 step = 0; step < steps; ++step) {
    if (g.rank() == 0) fetch_add<Order::relaxed>(&sums[step % 2], gang.rank() + 1);
    gang.sync();
    if (load<Order::relaxed, Scope::device>(&sums[step % 2]) != n * (n + 1) / 2 && g.rank() == g.size() - 1)
      fetch_add<Order::relaxed>(&wrong[0], 1u);
    gang.sync();
    if (gang.rank() == n - 1 && g.rank() == 0) store<Order::relaxed, Scope::device>(&sums[step % 2], 0u);
  }
})";
using GangSteps = void(Span<u32>, Span<u32>, u32);

// Adds 1 to the cell of each group in each step, and 1 to `calls` in each call.
inline constexpr const char* kLongGang = R"(
DWELL_OPERATOR(long_gang)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::Span<dwell::u32> calls, dwell::u32 steps, dwell::u32 ns) {
  struct State { dwell::u64 step; dwell::u32 check; };
  using namespace dwell::device;
  const dwell::Gang gang = g.gang();
  State state = gang.resume(State{0, 7});
  if (state.check != 7 + state.step) g.fail(1);
  if (gang.rank() == 0 && g.rank() == 0) fetch_add<Order::relaxed>(&calls[0], 1u);
  for (; state.step < steps; ++state.step) {
    if (g.rank() == 0) {
      // The neighbour has finished the previous step.
      if (load<Order::relaxed, Scope::device>(&cells[(gang.rank() + 1) % gang.size()]) < state.step) g.fail(2);
      fetch_add<Order::relaxed>(&cells[gang.rank()], 1u);
      const dwell::u64 start = now_ns();
      while (now_ns() - start < ns) {}
    }
    if (gang.should_yield()) {
      state.check = 7 + state.step + 1;
      return gang.yield(State{state.step + 1, state.check});
    }
  }
})";
using LongGang = void(Span<u32>, Span<u32>, u32, u32);

class GangSuite : public DeviceTest {
 protected:
  // Leases so short that a gang of milliseconds outlives several.
  Options short_leases() const {
    Options tiny = options();
    tiny.lease = 1ms;
    return tiny;
  }
  // Enough workers for gangs even on few cores.
  Options gang_options() {
    Options given = options();
    if (on_cpu()) given.workers = 4;
    return given;
  }
};

}  // namespace dwell::test
