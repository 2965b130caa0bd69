#include "bench_command.hpp"

#include <algorithm>
#include <iostream>

#if DWELL_WITH_BENCHMARKS
#include "bench/bench.hpp"
#include "bench/benchmarks.hpp"
#endif

namespace dwell::tool {

#if DWELL_WITH_BENCHMARKS

std::vector<std::string> bench_names() {
  std::vector<std::string> names;
  for (const bench::Benchmark& benchmark : bench::benchmarks()) names.emplace_back(benchmark.name);
  return names;
}

Exit bench_command(const BenchOptions& options) {
  if (options.list) {
    for (const bench::Benchmark& benchmark : bench::benchmarks()) std::cout << benchmark.name << ' ' << benchmark.seconds << '\n';
    return Exit::success;
  }
  const std::vector<std::string> known = bench_names();
  for (const std::string& name : options.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    throw Failure(Exit::mistake, "dwell: error: there is no benchmark '" + name + "'; known are " + list);
  }
  bench::Options bench_options;
  bench_options.names = options.names;
  bench_options.device = options.device;
  bench_options.json = options.json;
  return static_cast<Exit>(bench::run(bench_options));
}

#else

std::vector<std::string> bench_names() { return {}; }

Exit bench_command(const BenchOptions&) {
  throw Failure(Exit::mistake,
                "dwell: error: this dwell was built without its benchmarks, as `pip install` does: script/bench builds and runs them");
}

#endif

}  // namespace dwell::tool
