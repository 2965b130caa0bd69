// A fork-join tree of tasks that spawn tasks.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/openmp/module.hpp"
#include "bench/peer_module.hpp"
#include "bench/tbb/module.hpp"
#include "bench/timing.hpp"
#include "bench/tree.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kWhat = "task of a fork-join tree";
constexpr int kThreadsOnCpu = 2;                 // per side
constexpr std::uint32_t kCudaTasks = 1U << 17U;  // in the tree of CUDA kernels, which are much slower
constexpr std::chrono::seconds kMost{10};        // per run

// Implements tree.hpp.
constexpr const char* kTree = R"(
#include <dwell/device.hpp>
DWELL_USES(tree, dwell::Span<unsigned char>, unsigned, unsigned, unsigned)
DWELL_OPERATOR(tree)(dwell::Group g, dwell::Span<unsigned char> cells, unsigned first, unsigned count, unsigned mark) {
  if (g.rank() == 0) cells[first] = static_cast<unsigned char>(mark);
  if (count == 1) return;
  const unsigned left = (count - 1) / 2;
  if (left != 0) g.spawn(uses::tree, cells, first + 1, left, mark);
  g.spawn(uses::tree, cells, first + 1 + left, count - 1 - left, mark);
}
)";

class Trees {
 public:
  Trees(Report& report, std::size_t runs) : report_(report), runs_(runs) {}

  // Times run(mark) of a tree of `count` tasks; read(cells) reads the result. Returns the median per task.
  template <class Run, class Read>
  double add(const std::string& side, bool ours, std::uint32_t count, Run run, Read read) {
    std::vector<double> times;
    std::vector<unsigned char> cells(count);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i <= runs_; ++i) {
      const auto mark = static_cast<unsigned char>(i + 1);
      const Clock::time_point start = Clock::now();
      run(mark);
      if (i != 0) times.push_back(nanoseconds_since(start) / count);
      read(cells);
      wrong += static_cast<std::size_t>(std::count_if(cells.begin(), cells.end(), [&](unsigned char cell) { return cell != mark; }));
    }
    report_.check_none("tasks of " + text_of_count(count) + " left out, in " + text_of_count(runs_ + 1) + " runs: " + side, wrong);
    const Spread spread = spread_of(std::move(times));
    report_.add({kWhat, side, ours, "ns", spread});
    return spread.p50;
  }

 private:
  Report& report_;
  std::size_t runs_;
};

double add_ours(const Context& context, Trees& trees, std::uint32_t count, Tier tier, const std::string& side) {
  dwell::Options options = context.options();
  options.tier = tier;
  if (!context.cuda) options.workers = kThreadsOnCpu;
  Runtime runtime(std::move(options));
  const auto tree = runtime.define<void(Span<unsigned char>, unsigned, unsigned, unsigned)>("tree", kTree);
  Buffer<unsigned char> cells = runtime.allocate<unsigned char>(count);
  return trees.add(
      side, true, count,
      [&](unsigned char mark) {
        const Ticket ticket = runtime.submit(tree, cells, 0U, count, unsigned{mark});
        if (!ticket.wait_for(kMost)) throw std::runtime_error("a tree of " + text_of_count(count) + " tasks takes more than 10 s");
        ticket.wait();
      },
      [&](std::vector<unsigned char>& to) { cells.read(to); });
}

double add_peer(Trees& trees, const TreeModule& module, std::uint32_t count) {
  std::vector<unsigned char> cells(count);
  void* const threads = module.open(kThreadsOnCpu);
  const double reached = trees.add(
      module.name, false, count, [&](unsigned char mark) { module.run(threads, cells.data(), count, mark); },
      [&](std::vector<unsigned char>& to) { to = cells; });
  module.close(threads);
  return reached;
}

void add_cuda_peer(const Context& context, Report& report, Trees& trees) {
  std::string why;
  try {
    if (const auto peer = open_cuda_peer(context.ordinal, &why)) {
      peer->warm_up();
      const std::uint32_t count = context.pick(kCudaTasks, 1'000U);
      const auto tree = peer->tree(count);
      trees.add(
          "CUDA dynamic parallelism, " + text_of_count(count) + " kernels of one thread", false, count,
          [&](unsigned char mark) { tree->run(mark); }, [&](std::vector<unsigned char>& cells) { tree->read(cells); });
      return;
    }
  } catch (const std::runtime_error& problem) {
    why = problem.what();
  }
  report.note("no CUDA dynamic parallelism: " + why);
}

void run(const Context& context, Report& report) {
  Trees trees(report, context.pick<std::size_t>(5, 1));
  const auto count = context.pick<std::uint32_t>(10'000'000, 10'000);
  if (context.cuda) {
    const double relocatable = add_ours(context, trees, count, Tier::relocatable, "dwell, relocatable");
    const double inlined = add_ours(context, trees, count, Tier::lto, "dwell, lto");
    report.add(Goal{kWhat, "ns", std::min(relocatable, inlined), 5, 15});
    add_cuda_peer(context, report, trees);
    return;
  }
  const double ours = add_ours(context, trees, count, Tier::relocatable, "dwell");
  std::vector<double> peers;
  std::string why;
  if (auto* const tbb = find_in_module<decltype(dwell_bench_tbb)>("dwell_bench_tbb", &why); tbb != nullptr)
    peers.push_back(add_peer(trees, *tbb()->tree, count));
  else
    report.note("no oneTBB: " + why);
  if (auto* const openmp = find_in_module<decltype(dwell_bench_openmp)>("dwell_bench_openmp", &why); openmp != nullptr)
    peers.push_back(add_peer(trees, *openmp()->tree, count));
  else
    report.note("no OpenMP: " + why);
  if (!peers.empty())
    report.add(Goal{std::string(kWhat) + ", against the best peer", "x", ours / *std::min_element(peers.begin(), peers.end()), 1.0, 1.3});
}

const Registration kRegistration{{70, "spawn", "a fork-join tree of tasks that tasks make, a task", 120, run}};

}  // namespace

}  // namespace dwell::bench
