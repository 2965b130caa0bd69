// Messages out of operators while they run: tasks walk on a torus, and report each visit of the origin in a ring that the host reads.
#include <cstdio>
#include <map>

#include <dwell/dwell.hpp>

struct Visit {
  dwell::u32 walker;
  dwell::u32 step;
};

constexpr const char* kWalk = R"(
  struct Visit {
    dwell::u32 walker;
    dwell::u32 step;
  };

  // Each thread of each group is a walker. The ring is full now and then: they try again.
  DWELL_OPERATOR(walk)(dwell::Group g, dwell::Ring<Visit> visits, dwell::u32 steps) {
    const dwell::u32 walker = g.index() * g.size() + g.rank();
    dwell::u32 random = walker + 1;
    dwell::u32 x = 0, y = 0;
    for (dwell::u32 step = 1; step <= steps; ++step) {
      random = random * 1664525u + 1013904223u;
      const dwell::u32 way = random >> 30;
      x = (x + (way == 0) + 15 * (way == 1)) % 16;
      y = (y + (way == 2) + 15 * (way == 3)) % 16;
      bool waiting = x == 0 && y == 0;
      while (!dwell::device::all_lanes(!waiting))
        if (visits.push_each(g, waiting, Visit{walker, step})) waiting = false;
    }
  })";

int main() {
  dwell::Runtime runtime;
  auto walk = runtime.define<void(dwell::Ring<Visit>, dwell::u32)>("walk", kWalk);

  dwell::RingOptions to_host;
  to_host.consumers = dwell::Side::host;
  to_host.checksum = true;
  auto visits = runtime.ring<Visit>(1024, to_host);
  const dwell::Ticket ticket = runtime.submit(walk, visits, 10'000U, dwell::groups(8));
  ticket.then([&](const dwell::Ticket&) { visits.close(); });

  std::map<dwell::u32, dwell::u32> last;  // by walker
  unsigned count = 0;
  for (const Visit& visit : visits) {  // while they walk, until the ring is closed
    if (visit.step <= last[visit.walker]) return 1;
    last[visit.walker] = visit.step;
    ++count;
  }
  ticket.wait();
  const dwell::RingCounts skipped = visits.counts();
  std::printf("rings: %u visits of the origin by %zu walkers, %u damaged\n", count, last.size(), static_cast<unsigned>(skipped.damaged));
  return count > 0 && skipped.damaged == 0 ? 0 : 1;
}
