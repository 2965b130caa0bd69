// Steps over all multiprocessors, with a barrier between them.
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kWhat = "step of a sweep over all multiprocessors";

// Each group has a cell, which becomes the sum of its own value and its neighbours', as in CudaSweep.
constexpr const char* kSweep = R"(
#include <dwell/device.hpp>
// Exchanges cells in words that also hold the step (dwell::Numbered).
static DWELL_DEVICE void step_by_words(dwell::Group g, dwell::Gang gang, dwell::Span<dwell::u64> words, unsigned* cells, unsigned steps,
                                       unsigned first) {
  const unsigned me = gang.rank(), n = gang.size();
  const unsigned left = me == 0 ? n - 1 : me - 1, right = me + 1 == n ? 0 : me + 1;
  const dwell::Numbered<unsigned> vector(words);
  const dwell::Span<unsigned> received = g.shared<unsigned>(4);  // the neighbours' cells, of this step and the one before
  unsigned mine = cells[me];
  for (unsigned step = first; step < first + steps; ++step) {
    unsigned* const current = &received[step % 2 * 2];
    if (g.rank() == 0) vector.put(me, step, mine);
    // Two threads read one word each, so that the waits overlap.
    for (unsigned i = g.rank(); i < 2; i += g.size()) current[i] = vector.get(i == 0 ? left : right, step);
    g.sync();
    mine = current[0] + mine * 3 + current[1];
  }
  if (g.rank() == 0) cells[me] = mine;
}
static DWELL_DEVICE void step_all(dwell::Group g, dwell::Gang gang, unsigned* even, unsigned* odd, unsigned steps, bool neighbours) {
  const unsigned me = gang.rank(), n = gang.size();
  const unsigned left = me == 0 ? n - 1 : me - 1, right = me + 1 == n ? 0 : me + 1;
  for (unsigned step = 0; step < steps; ++step) {
    const unsigned* const from = step % 2 == 0 ? even : odd;
    unsigned* const to = step % 2 == 0 ? odd : even;
    if (g.rank() == 0) to[me] = from[left] + from[me] * 3 + from[right];
    if (neighbours)
      gang.sync_neighbours(left, right);
    else
      gang.sync();
  }
}
DWELL_OPERATOR(sweep)(dwell::Group g, dwell::Span<unsigned> even, dwell::Span<unsigned> odd, dwell::Span<dwell::u64> words, unsigned steps,
                      unsigned form, unsigned first) {
  if (form == 2)
    step_by_words(g, g.gang(), words, even.data(), steps, first);
  else
    step_all(g, g.gang(), even.data(), odd.data(), steps, form == 1);
}
)";

// The ways to step, by the operator's argument `form`.
constexpr const char* kForms[] = {"Gang::sync", "Gang::sync_neighbours", "Numbered, between neighbours"};

// Returns the cells after the steps.
std::vector<unsigned> swept(std::vector<unsigned> cells, std::size_t steps) {
  const std::size_t n = cells.size();
  for (std::size_t step = 0; step < steps; ++step) {
    const std::vector<unsigned> before = cells;
    for (std::size_t i = 0; i < n; ++i) cells[i] = before[(i + n - 1) % n] + before[i] * 3 + before[(i + 1) % n];
  }
  return cells;
}

std::vector<unsigned> first_cells(std::size_t count) {
  std::vector<unsigned> cells(count);
  for (std::size_t i = 0; i < count; ++i) cells[i] = static_cast<unsigned>(i * i + 1);
  return cells;
}

// Returns the nanoseconds per step of each of `count` runs, after an untimed one.
template <class Run>
std::vector<double> time_runs(std::size_t count, std::size_t steps, Run run) {
  std::vector<double> times;
  for (std::size_t i = 0; i <= count; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    if (i != 0) times.push_back(nanoseconds_since(start) / static_cast<double>(steps));
  }
  return times;
}

void run(const Context& context, Report& report) {
  const auto runs = context.pick<std::size_t>(30, 2);
  const auto steps = context.pick<unsigned>(1'000, 100);  // even, so that the result is in the first row
  std::string why = "not a CUDA device";
  const auto peer = context.cuda ? open_cuda_peer(context.ordinal, &why) : nullptr;
  const std::size_t cells = peer ? peer->multiprocessors() : 2;
  const std::vector<unsigned> first = first_cells(cells);
  const std::vector<unsigned> expected = swept(first, steps * (runs + 1));

  double best[std::size(kForms)] = {};  // by form
  for (const Tier tier : {Tier::relocatable, Tier::lto}) {
    if (tier == Tier::lto && !context.cuda) continue;
    dwell::Options options = context.options();
    options.tier = tier;
    options.lease = std::chrono::seconds(1);  // keeps ends of leases out of the measurement
    if (!context.cuda) options.workers = static_cast<std::uint32_t>(cells);
    Runtime runtime(std::move(options));
    const auto sweeping = runtime.define<void(Span<unsigned>, Span<unsigned>, Span<u64>, unsigned, unsigned, unsigned)>("sweep", kSweep);
    Buffer<unsigned> even = runtime.allocate<unsigned>(cells);
    Buffer<unsigned> odd = runtime.allocate<unsigned>(cells);
    const Buffer<u64> words = runtime.allocate<u64>(2 * cells);
    const std::string side = !context.cuda ? "dwell" : tier == Tier::lto ? "dwell, lto" : "dwell, relocatable";
    for (unsigned form = 0; form < std::size(kForms); ++form) {
      even.write(first);
      unsigned next = 1;  // step of the words
      const Spread spread = spread_of(time_runs(runs, steps, [&] {
        runtime.submit(sweeping, even, odd, words, steps, form, next, gang(static_cast<std::uint32_t>(cells))).wait();
        next += steps;
      }));
      std::vector<unsigned> result(cells);
      even.read(result);
      report.check("cells as expected, " + side + ", " + kForms[form], result == expected);
      report.add({kWhat, side + ", " + kForms[form], true, "ns", spread});
      if (best[form] == 0 || spread.p50 < best[form]) best[form] = spread.p50;
    }
  }
  if (!peer) {
    report.note("no CUDA peers: " + why);
    return;
  }
  double barrier = 0;
  for (const auto& [way, name] : {std::pair{CudaSweeps::cooperative, "cooperative kernel, a barrier as grid.sync's"},
                                  std::pair{CudaSweeps::programmatic, "CUDA graph, programmatic dependent launch"}}) {
    const auto side = peer->sweep(way, cells, steps);
    side->write(first);
    const Spread spread = spread_of(time_runs(runs, steps, [&] { side->run(); }));
    std::vector<unsigned> result(cells);
    side->read(result);
    report.check(std::string("cells as expected, ") + name, result == expected);
    report.add({kWhat, name, false, "ns", spread});
    if (way == CudaSweeps::cooperative) barrier = spread.p50;
  }
  report.add(Goal{kForms[0], "ns", best[0], 900, barrier});
  report.add(Goal{kForms[1], "ns", best[1], 600, barrier});
  report.add(Goal{kForms[2], "ns", best[2], 700, 900});
}

const Registration kRegistration{{60, "sweep", "steps over all multiprocessors with a barrier between them", 60, run}};

}  // namespace

}  // namespace dwell::bench
