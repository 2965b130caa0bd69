// Task graphs: dependent, independent and random nodes, replayed or used once.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/cpu_graphs.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/dag.hpp"
#include "bench/dwell_graphs.hpp"
#include "bench/graph_side.hpp"
#include "bench/metg.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kEmptyChain = "chain, empty";
constexpr const char* kVisitChain = "chain, counters";
constexpr const char* kSumChain = "chain, adds of 1024 floats";
constexpr const char* kVisits = "independent, counters";
constexpr const char* kSlices = "independent, adds of 1024 floats";
constexpr const char* kRandom = "random DAG, counters";
constexpr const char* kOnce = "once: built, launched, done, dropped";
constexpr const char* kOnceOnHost = "once: built and launched, host time of a node";
constexpr const char* kChainLaunch = "launch of the chain, host time";
constexpr const char* kIndependentLaunch = "launch of the independent nodes, host time";
std::string metg_of(Pattern pattern) { return "METG(50 %), " + name_of(pattern); }

// Threads of each side on the CPU; on CUDA see kCudaPlaces.
constexpr std::size_t kThreadsOnCpu = 2;

// Medians by kind of work, for goals.
class Medians {
 public:
  void add(const std::string& what, bool ours, double p50) { all_.push_back({what, ours, p50}); }
  // Returns dwell's best median, or the peers'.
  std::optional<double> best(const std::string& what, bool ours) const {
    std::optional<double> best;
    for (const One& one : all_) {
      if (one.what == what && one.ours == ours) best = std::min(best.value_or(one.p50), one.p50);
    }
    return best;
  }

 private:
  struct One {
    std::string what;
    bool ours;
    double p50;
  };
  std::vector<One> all_;
};

// Runs the same graphs on one side after the other.
class Graphs {
 public:
  Graphs(const Context& context, Report& report)
      : context_(context),
        report_(report),
        chain_(chain_of(context.pick<std::size_t>(10'000, 500))),
        independent_(independent(chain_.size())),
        random_(random_dag(context.pick<std::size_t>(100'000, 2'000))),
        once_(random_dag(context.pick<std::size_t>(1'000, 200))),
        repeats_(context.pick<std::size_t>(100, 3)),
        places_(context.cuda ? kCudaPlaces : kThreadsOnCpu) {
    for (const Pattern pattern : kPatterns)
      patterns_.push_back(
          dag_of(pattern, kTasksAPlace * places_, context.cuda ? context.pick<std::size_t>(50, 10) : context.pick<std::size_t>(1'000, 20)));
  }

  GraphMemory memory() const { return {std::max(random_.size(), patterns_[0].size()) + 1, independent_.size() * Adds::kFloats}; }
  std::size_t places() const { return places_; }
  const Medians& medians() const { return medians_; }

  void chains(GraphSide& side, bool ours, bool visits = true) {
    const Spread launch = replay(side, ours, kEmptyChain, chain_, Work::empty, repeats_);
    if (visits) replay(side, ours, kVisitChain, chain_, Work::visit, repeats_);
    replay(side, ours, kSumChain, chain_, Work::sum, repeats_);
    if (launches_apart(ours)) add(side, ours, kChainLaunch, launch);
    report_checks(side, "chains");
  }

  void others(GraphSide& side, bool ours) {
    replay(side, ours, kVisits, independent_, Work::visit, repeats_);
    const Spread launch = replay(side, ours, kSlices, independent_, Work::slice, repeats_);
    if (launches_apart(ours)) add(side, ours, kIndependentLaunch, launch);
    replay(side, ours, kRandom, random_, Work::visit, repeats_ / 5 + 1);
    use_once(side, ours);
    report_checks(side, "independent and random nodes");
  }

  // `side` has places() workers.
  void metg(GraphSide& side, bool ours) {
    const double round = time_of_round(side);
    std::string idle;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      const Dag& dag = patterns_[i];
      prepare(side, dag, Work::visit);
      const auto graph = side.make(dag, Work::visit);
      std::size_t launches = 0;
      const auto run = [&](std::uint32_t rounds) {
        launches += kRuns;
        return time_rounds(side, *graph, rounds, kRuns).least;
      };
      if (const std::optional<double> found = find_metg(run, round, dag.size(), places_))
        add(side, ours, metg_of(kPatterns[i]), one(*found));
      else
        idle += (idle.empty() ? "" : ", ") + name_of(kPatterns[i]);
      check(side, dag, Work::visit, launches);
    }
    if (!idle.empty())
      report_.note("workers of " + side.name() + " are idle for more than half of the time, however long the tasks: " + idle);
    report_checks(side, "patterns");
  }

 private:
  static constexpr std::size_t kTasksAPlace = 4;  // tasks per place in each row of a pattern, so that one can wait while another runs
  static constexpr std::size_t kRuns = 4;         // of time_rounds

  // Returns whether a launch returns before the graph has run.
  bool launches_apart(bool ours) const { return context_.cuda || ours; }

  void add(const GraphSide& side, bool ours, const std::string& what, const Spread& spread) {
    report_.add({what, side.name(), ours, "ns", spread});
    medians_.add(what, ours, spread.p50);
  }

  // Initialises the memory for the first launch of a graph.
  void prepare(GraphSide& side, const Dag& dag, Work work) const {
    switch (work) {
      case Work::empty: break;
      case Work::visit: side.write_cells(std::vector<unsigned>(dag.size() + 1, 0)); break;
      case Work::sum:
        side.write_first(std::vector<float>(Adds::kFloats, 1.0F));
        side.write_sums(std::vector<float>(Adds::kFloats, 0.0F));
        break;
      case Work::slice: {
        std::vector<float> floats(dag.size() * Adds::kFloats);
        fill_first(floats, 0);
        side.write_first(floats);
        fill_second(floats, 0);
        side.write_second(floats);
        break;
      }
    }
  }
  static void poison(GraphSide& side, const Dag& dag) {
    std::vector<float> floats(dag.size() * Adds::kFloats);
    fill_poison(floats);
    side.write_sums(floats);
  }

  // Checks the results of the launches.
  void check(GraphSide& side, const Dag& dag, Work work, std::size_t launches) {
    launches_ += launches;
    if (work == Work::visit) {
      std::vector<unsigned> cells(dag.size() + 1);
      side.read_cells(cells);
      for (std::size_t i = 1; i < cells.size(); ++i) wrong_ += cells[i] == launches ? 0U : 1U;
    } else if (work == Work::sum) {
      std::vector<float> sums(Adds::kFloats);
      side.read_sums(sums);
      const auto expected = static_cast<float>(launches * dag.size());  // exact: below 2^24
      for (const float sum : sums) wrong_ += sum == expected ? 0U : 1U;
    } else if (work == Work::slice) {
      std::vector<float> sums(dag.size() * Adds::kFloats);
      side.read_sums(sums);
      wrong_ += count_wrong(sums, 0);
    }
  }
  // Reports the checks since the last call.
  void report_checks(const GraphSide& side, const std::string& graphs) {
    report_.check_none("nodes too early, left out or run twice, or wrong sums, in " + text_of_count(launches_) + " launches: " + graphs +
                           ", " + side.name(),
                       wrong_);
    launches_ = wrong_ = 0;
  }

  // Adds the time per node over many launches of a graph. Returns the time of the call to launch.
  Spread replay(GraphSide& side, bool ours, const std::string& what, const Dag& dag, Work work, std::size_t repeats) {
    prepare(side, dag, work);
    const auto graph = side.make(dag, work);
    std::vector<double> host;
    std::vector<double> whole;
    for (std::size_t i = 0; i <= repeats; ++i) {
      if (work == Work::slice && (i == 0 || i == repeats)) poison(side, dag);
      const Clock::time_point start = Clock::now();
      graph->launch();
      const double launched = nanoseconds_since(start);
      graph->wait();
      if (i == 0) continue;
      whole.push_back(nanoseconds_since(start) / static_cast<double>(dag.size()));
      host.push_back(launched);
    }
    check(side, dag, work, repeats + 1);
    add(side, ours, what, spread_of(std::move(whole)));
    return spread_of(std::move(host));
  }

  void use_once(GraphSide& side, bool ours) {
    prepare(side, once_, Work::visit);
    std::vector<double> host;
    std::vector<double> whole;
    for (std::size_t i = 0; i <= repeats_; ++i) {
      const Clock::time_point start = Clock::now();
      double launched = 0;
      {
        const auto graph = side.make(once_, Work::visit);
        graph->launch();
        launched = nanoseconds_since(start);
        graph->wait();
      }
      if (i == 0) continue;
      whole.push_back(nanoseconds_since(start));
      host.push_back(launched / static_cast<double>(once_.size()));
    }
    check(side, once_, Work::visit, repeats_ + 1);
    add(side, ours, kOnce, spread_of(std::move(whole)));
    if (launches_apart(ours)) add(side, ours, kOnceOnHost, spread_of(std::move(host)));
  }

  // Times `runs` launches in which every node is busy for `rounds`, after an untimed one.
  static Spread time_rounds(GraphSide& side, LaunchableGraph& graph, std::uint32_t rounds, std::size_t runs) {
    side.write_cells(std::array<unsigned, 1>{rounds});
    std::vector<double> times;
    for (std::size_t i = 0; i < runs; ++i) {
      const Clock::time_point start = Clock::now();
      graph.launch();
      graph.wait();
      if (i != 0) times.push_back(nanoseconds_since(start));
    }
    return spread_of(std::move(times));
  }

  // Returns the nanoseconds of one round of Work::visit: compares a long task with an empty one.
  static double time_of_round(GraphSide& side) {
    constexpr std::uint32_t kRounds = 1U << 16U;
    constexpr std::size_t kTimes = 20;
    const Dag lone = independent(1);
    side.write_cells(std::array<unsigned, 2>{});
    const auto graph = side.make(lone, Work::visit);
    return (time_rounds(side, *graph, kRounds, kTimes).least - time_rounds(side, *graph, 0, kTimes).least) / kRounds;
  }

  const Context& context_;
  Report& report_;
  Dag chain_;
  Dag independent_;
  Dag random_;
  Dag once_;
  std::vector<Dag> patterns_;  // by kPatterns
  std::size_t repeats_;
  std::size_t places_;
  Medians medians_;
  std::size_t launches_ = 0;  // launches checked
  std::size_t wrong_ = 0;     // wrong results found
};

void add_ours(const Context& context, Graphs& graphs) {
  {
    const auto side = open_dwell_graphs(context, context.cuda ? 0 : kThreadsOnCpu, graphs.memory());
    graphs.chains(*side, true);
    graphs.others(*side, true);
  }
  graphs.metg(*open_dwell_graphs(context, graphs.places(), graphs.memory()), true);
}

void add_cuda_peers(const Context& context, Report& report, Graphs& graphs) {
  std::string why;
  const auto peer = open_cuda_peer(context.ordinal, &why);
  if (!peer) {
    report.note("no CUDA peers: " + why);
    return;
  }
  peer->warm_up();
  {
    const auto side = peer->graphs(CudaGraphs::graph, graphs.memory());
    graphs.chains(*side, false);
    graphs.others(*side, false);
    graphs.metg(*side, false);
  }
  graphs.metg(*peer->graphs(CudaGraphs::streams, graphs.memory()), false);
  graphs.chains(*peer->graphs(CudaGraphs::programmatic, graphs.memory()), false, false);
}

void add_cpu_peers(Report& report, Graphs& graphs) {
  std::vector<std::string> missing;
  for (const auto& side : open_cpu_graphs(static_cast<int>(graphs.places()), graphs.memory(), missing)) {
    graphs.chains(*side, false);
    graphs.others(*side, false);
    graphs.metg(*side, false);
  }
  for (const std::string& why : missing) report.note(why);
}

// The goals of issue 10.
class Goals {
 public:
  Goals(Report& report, const Medians& medians) : report_(report), medians_(medians) {}

  void on_cuda() {
    absolute(kSumChain, 350, 450);
    absolute(kEmptyChain, 120, 200);
    absolute(kSlices, 6, 10);
    against_peers(kRandom, 1.0 / 20, 1.0 / 8);
    against_peers(kOnce, 1.0 / 50, 1.0 / 20);
    absolute(kOnceOnHost, 60, std::nullopt);
    absolute(kChainLaunch, 500, 2000);
    absolute(kIndependentLaunch, 500, 2000);
    for (const Pattern pattern : kPatterns) absolute(metg_of(pattern), 500, medians_.best(metg_of(pattern), false));
  }

  void on_cpu() {
    for (const char* const what : {kEmptyChain, kVisitChain, kSumChain, kVisits, kSlices, kRandom}) against_peers(what, 1.0, 1.3);
    for (const Pattern pattern : kPatterns) against_peers(metg_of(pattern), 1.0, 1.3);
  }

 private:
  void absolute(const std::string& what, double goal, std::optional<double> at_least) {
    if (const auto ours = medians_.best(what, true)) report_.add(Goal{what, "ns", *ours, goal, at_least});
  }
  void against_peers(const std::string& what, double goal, double at_least) {
    const auto ours = medians_.best(what, true);
    const auto peers = medians_.best(what, false);
    if (ours && peers) report_.add(Goal{what + ", against the best peer", "x", *ours / *peers, goal, at_least});
  }

  Report& report_;
  const Medians& medians_;
};

void run(const Context& context, Report& report) {
  Graphs graphs(context, report);
  add_ours(context, graphs);
  Goals goals(report, graphs.medians());
  if (context.cuda) {
    add_cuda_peers(context, report, graphs);
    goals.on_cuda();
  } else {
    add_cpu_peers(report, graphs);
    goals.on_cpu();
  }
  report.note("METG(50 %) is the time of a run x " + text_of_count(graphs.places()) +
              " workers / tasks, where a worker is a CUDA kernel of one block, or a thread, that runs one task at a time");
}

const Registration kRegistration{{40, "graphs", "task graphs, replayed and used once: a node, unless it says otherwise", 240, run}};

}  // namespace

}  // namespace dwell::bench
