// Jobs of the orchestrator, a thousand in flight at once, compared with launches of the same graphs without it.
#include <atomic>
#include <cstdint>
#include <dwell/orchestrator.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr std::uint32_t kNodes = 16;
constexpr const char* kHit = R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(hit)(dwell::Group g, dwell::Span<unsigned> cells, unsigned index) {
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[index], 1u);
}
)";

// The graph of all jobs and its counters: a tree whose root has a cell per job, and whose other nodes have one cell each.
class Jobs {
 public:
  using Hit = Operator<void(Span<unsigned>, unsigned)>;
  Jobs(Runtime& runtime, Hit hit, std::size_t count) : hit_(std::move(hit)), cells_(runtime.allocate<unsigned>(kNodes + count)) {
    cells_.write(std::vector<unsigned>(cells_.size(), 0));
  }

  Graph graph() {
    Graph graph;
    std::vector<Node> nodes;
    for (std::uint32_t i = 0; i < kNodes; ++i) {
      nodes.push_back(graph.add(hit_, cells_, i));
      if (i > 0) nodes[i].after(nodes[i / 2]);
    }
    root_ = nodes[0];
    return graph;
  }
  // Returns the root of the last graph.
  const Node& root() const { return root_; }
  static std::uint32_t cell(std::size_t job) { return kNodes + static_cast<std::uint32_t>(job); }
  unsigned times = 0;  // number of runs of all jobs
  // Returns the number of cells that differ from `times`.
  std::size_t wrong() const {
    std::vector<unsigned> found(cells_.size());
    cells_.read(found);
    std::size_t wrong = found[0] == 0 ? 0 : 1;
    const auto jobs = static_cast<unsigned>(found.size() - kNodes);
    for (std::size_t i = 1; i < found.size(); ++i) wrong += found[i] == (i < kNodes ? times * jobs : times) ? 0U : 1U;
    return wrong;
  }

 private:
  Hit hit_;
  Buffer<unsigned> cells_;
  Node root_;
};

// For each job, the time of its submission, and of its completion callback.
struct Times {
  std::vector<Clock::time_point> submitted;
  std::vector<Clock::time_point> heard;
};
// A way to run all jobs once; with callbacks if `times` is not null.
using Run = std::function<void(Times* times)>;

void run(const Context& context, Report& report) {
  const std::size_t at_once = context.pick<std::size_t>(1000, 100);
  const std::size_t repeats = context.pick<std::size_t>(50, 3);
  const std::size_t rounds = context.pick<std::size_t>(20, 4);  // of a stream of jobs

  Runtime runtime(context.options());
  const auto hit = runtime.define<void(Span<unsigned>, unsigned)>("hit", kHit);
  const auto measure = [&](const std::string& by, bool ours, bool hears, Jobs& work, std::size_t count, const Run& run) {
    const bool is_stream = count != at_once;
    const std::string jobs_of = text_of_count(count) + " jobs of 16 nodes, " + text_of_count(at_once) + " in flight at once";
    unsigned& times = work.times;
    std::vector<double> each;
    for (std::size_t i = 0; i <= (is_stream ? (repeats + 4) / 5 : repeats); ++i, ++times) {
      const Clock::time_point start = Clock::now();
      run(nullptr);
      if (i != 0) each.push_back(nanoseconds_since(start) / static_cast<double>(count));
    }
    const Spread spread = spread_of(std::move(each));
    report.add({jobs_of + ": a job", by, ours, "ns", spread});
    if (ours) report.note(jobs_of + ": " + text_of_count(static_cast<std::size_t>(1e9 / spread.p50)) + " jobs a second");
    if (hears && !is_stream) {
      std::vector<double> latencies;
      for (std::size_t i = 0; i <= repeats; ++i, ++times) {
        Times noted{std::vector<Clock::time_point>(count), std::vector<Clock::time_point>(count)};
        run(&noted);
        if (i == 0) continue;
        for (std::size_t job = 0; job < count; ++job) latencies.push_back(nanoseconds(noted.heard[job] - noted.submitted[job]));
      }
      report.add({jobs_of + ": submitted to heard of", by, ours, "ns", spread_of(std::move(latencies))});
    }
    report.check_none("jobs or nodes of " + by + " that have not run " + text_of_count(times) + " times", work.wrong());
  };

  for (const std::size_t count : {at_once, rounds * at_once}) {
    Jobs work(runtime, hit, count);
    {
      Orchestrator orchestrator(runtime, {.workers = static_cast<std::uint32_t>(at_once)});
      const JobType type = orchestrator.define("tree", work.graph(), {.limits = {.waiting = 0}});
      std::vector<Job> all(count);
      measure("dwell, Orchestrator", true, true, work, count, [&](Times* noted) {
        std::atomic<std::size_t> heard{0};
        for (std::size_t i = 0; i < count; ++i) {
          if (noted) noted->submitted[i] = Clock::now();
          all[i] = orchestrator.submit(type, JobArguments().set(work.root(), 1, Jobs::cell(i)));
          if (noted)
            all[i].then([&, i](const Job&) {
              noted->heard[i] = Clock::now();
              heard.fetch_add(1, std::memory_order_release);
            });
        }
        for (const Job& job : all) job.wait();
        if (noted) spin_until([&] { return heard.load(std::memory_order_acquire) == count; });
      });
      if (context.brief) report.note(orchestrator.statistics().table());
    }
    Jobs direct(runtime, hit, count);
    const Graph graph = direct.graph();
    std::vector<GraphExec> execs;
    for (std::size_t i = 0; i < at_once; ++i) execs.push_back(runtime.instantiate(graph));
    std::vector<Ticket> tickets(count);
    const auto launch_all = [&](bool hears, Times* noted) {
      std::atomic<std::size_t> heard{0};
      for (std::size_t i = 0; i < count; ++i) {
        if (noted) noted->submitted[i] = Clock::now();
        GraphExec& exec = execs[i % at_once];
        exec.set(direct.root(), 1, Jobs::cell(i));
        tickets[i] = runtime.launch(exec);
        if (hears)
          tickets[i].then([&, i](const Ticket&) {
            if (noted) noted->heard[i] = Clock::now();
            heard.fetch_add(1, std::memory_order_release);
          });
      }
      for (const Ticket& ticket : tickets) ticket.wait();
      if (hears) spin_until([&] { return heard.load(std::memory_order_acquire) == count; });
    };
    measure("Runtime::launch", false, false, direct, count, [&](Times* noted) { launch_all(false, noted); });
    measure("Runtime::launch, Ticket::then", false, true, direct, count, [&](Times* noted) { launch_all(true, noted); });
  }
  report.note("Runtime::launch has " + text_of_count(at_once) + " execs, and knows of no limits, types or statistics");
}

const Registration kRegistration{{50, "jobs", "jobs of the orchestrator, a thousand graphs in flight at once", 60, run}};

}  // namespace

}  // namespace dwell::bench
