// Time from a source to its first completed task: compiled, from the cache on disk, and while other tasks run.
#include <stdlib.h>

#include <optional>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/cupy_peer.hpp"
#include "bench/host_peer.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"
#include "jit/base/temporary_directory.hpp"

namespace dwell::bench {

namespace {

// Gives the cache its own folder during the benchmark.
class OwnCache {
 public:
  OwnCache() {
    if (const char* const set = getenv(kVariable); set != nullptr) before_ = set;
    setenv(kVariable, folder_.path().c_str(), 1);
  }
  ~OwnCache() {
    if (before_)
      setenv(kVariable, before_->c_str(), 1);
    else
      unsetenv(kVariable);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  static constexpr const char* kVariable = "DWELL_CACHE_DIR";
  jit::TemporaryDirectory folder_;
  std::optional<std::string> before_;
};

std::string name_of(std::size_t number) { return "fresh" + std::to_string(number); }

// Returns a source; each number gives another text.
std::string source_of(std::size_t number) {
  return "#include <dwell/device.hpp>\nDWELL_OPERATOR(" + name_of(number) +
         ")(dwell::Group g, dwell::Span<unsigned> cells, unsigned at) {\n  if (g.rank() == 0) cells[at] = " +
         std::to_string(1000 + number) + ";\n}\n";
}

// Defines operators one by one, runs a task of each, and measures the time from the source to the completed task.
struct Firsts {
  std::vector<double> times;
  std::size_t wrong = 0;
  std::uint64_t compiled = 0;  // sources compiled and images linked
};

Firsts time_firsts(const Context& context, std::size_t count) {
  Runtime runtime(context.options());
  runtime.define("empty", kEmpty);  // opens the compilers and compiles the loop
  Buffer<unsigned> cells = runtime.allocate<unsigned>(count);
  cells.write(std::vector<unsigned>(count, 0));
  const auto made = [&] {
    const Metrics now = runtime.metrics();
    return now.compiled + now.linked;
  };
  const std::uint64_t before = made();
  Firsts firsts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = name_of(i);
    const std::string source = source_of(i);
    const Clock::time_point start = Clock::now();
    runtime.submit(runtime.define(name, source), cells, static_cast<unsigned>(i)).wait();
    firsts.times.push_back(nanoseconds_since(start));
  }
  firsts.compiled = made() - before;
  std::vector<unsigned> seen(count);
  cells.read(seen);
  for (std::size_t i = 0; i < count; ++i) firsts.wrong += seen[i] == 1000 + i ? 0U : 1U;
  return firsts;
}

constexpr const char* kFirst = "source to first task done";
constexpr const char* kCached = "the same, from the cache on disk";

// Times a peer with compile_and_run.
template <class Peer>
Spread time_peer(Peer& peer, std::size_t count) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    peer.compile_and_run(static_cast<unsigned>(1000 + i));
    times.push_back(nanoseconds_since(start));
  }
  return spread_of(times);
}

void add_cuda_peers(const Context& context, std::size_t count, Report& report) {
  std::string why;
  if (const auto peer = open_cuda_peer(context.ordinal, &why)) {
    report.add({kFirst, "NVRTC, cuModuleLoadData, launch, synchronise", false, "ns", time_peer(*peer, count)});
  } else {
    report.note("no CUDA peer: " + why);
  }
  if (const auto cupy = time_cupy(context.ordinal, count, &why)) {
    report.add({kFirst, "CuPy RawModule, launch, synchronise", false, "ns", spread_of(cupy->cold)});
    report.add({kCached, "CuPy RawModule, launch, synchronise", false, "ns", spread_of(cupy->warm)});
  } else {
    report.note("no CuPy: " + why);
  }
}

void add_host_peer(std::size_t count, Report& report) {
  HostPeer peer;
  report.add({kFirst, "c++ -O2 -shared, dlopen, call", false, "ns", time_peer(peer, count)});
}

void add_firsts(const Context& context, Report& report) {
  const auto count = context.pick<std::size_t>(24, 4);
  const Firsts cold = time_firsts(context, count);
  const Firsts warm = time_firsts(context, count);
  const Spread made = spread_of(cold.times);
  report.add({kFirst, "dwell", true, "ns", made});
  const Spread cached = spread_of(warm.times);
  report.add({kCached, "dwell", true, "ns", cached});
  if (context.cuda)
    add_cuda_peers(context, count, report);
  else
    add_host_peer(count, report);
  report.check(text_of_count(2 * count) + " first tasks, " + text_of_count(cold.wrong + warm.wrong) + " of them wrong",
               cold.wrong + warm.wrong == 0);
  report.check(text_of_count(warm.compiled) + " sources or images made where all was in the cache", warm.compiled == 0);
  if (!context.cuda) return;
  report.add(Goal{"source to first task done, p50", "ns", made.p50, 60e6, 90e6});
  report.add(Goal{"the same, from the cache on disk, p50", "ns", cached.p50, 3e6, 6e6});
}

void add_hits(const Context& context, Report& report) {
  Runtime runtime(context.options());
  std::vector<double> times;
  for (std::size_t i = 0; i < context.pick<std::size_t>(24, 4); ++i) {
    runtime.define(name_of(i), source_of(i));
    times.push_back(static_cast<double>(runtime.metrics().last_cache_hit_ns));
  }
  const Spread hit = spread_of(times);
  report.add({"an image out of the cache: looked up, read, verified", "dwell", true, "ns", hit});
  report.add(Goal{"cache hit on the host, p50", "ns", hit.p50, 200e3, 1e6});
}

// Measures lone tasks, alone and while operators are compiled.
void add_latency(const Context& context, Report& report) {
  constexpr const char* kLone = "lone empty task";
  const auto operators = context.pick<std::size_t>(64, 4);
  const auto count = context.pick<std::size_t>(100'000, 2'000);
  Runtime runtime(context.options());
  const auto empty = runtime.define<void()>("empty", kEmpty);
  const auto once = [&](std::size_t) { runtime.submit(empty).wait(); };
  const Spread quiet = spread_of(time_at_random(count, once));

  std::vector<std::shared_future<Operator<>>> futures;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < operators; ++i) futures.push_back(runtime.define_async(name_of(1000 + i), source_of(1000 + i)));
  const auto under_way = [&] { return futures.back().wait_for(std::chrono::seconds(0)) != std::future_status::ready; };
  std::vector<double> times;
  Random random;
  while (under_way()) {
    spin_for(std::chrono::nanoseconds(random.below(10'001)));
    const Clock::time_point begin = Clock::now();
    once(0);
    times.push_back(nanoseconds_since(begin));
  }
  for (const auto& future : futures) future.get();
  const double took = nanoseconds_since(start);
  const std::uint64_t images = runtime.metrics().images - 1;

  const Spread busy = spread_of(times);
  report.add({kLone, "dwell, quiet", true, "ns", quiet});
  report.add({kLone, "dwell, " + std::to_string(operators) + " operators being compiled", true, "ns", busy});
  report.note(std::to_string(operators) + " operators were compiled in " + text_of(took, "ns") + " and came with " +
              std::to_string(images) + " images");
  report.check(text_of_count(times.size()) + " tasks meanwhile", !times.empty());
  if (context.cuda) report.add(Goal{"lone empty task, p99, beside compilations against quiet", "x", busy.p99 / quiet.p99, 1.5});
}

void run(const Context& context, Report& report) {
  const OwnCache cache;
  add_firsts(context, report);
  add_hits(context, report);
  add_latency(context, report);
}

const Registration kRegistration{
    {120, "compile", "from a source to the first task that has run it, and tasks beside compilations", 60, run}};

}  // namespace

}  // namespace dwell::bench
