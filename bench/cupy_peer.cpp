#include "bench/cupy_peer.hpp"

#include <sstream>
#include <utility>

#include "bench/process.hpp"
#include "jit/base/temporary_directory.hpp"

namespace dwell::bench {

namespace {

// Prints "cold NANOSECONDS" and "warm NANOSECONDS" lines, or "no REASON". clear_memo drops CuPy's loaded modules, so the second round reads
// them from files.
constexpr const char* kProgram = R"(
import sys, time
try:
    import cupy
    ordinal, count = int(sys.argv[1]), int(sys.argv[2])
    cupy.cuda.Device(ordinal).use()
    cell = cupy.zeros(1, dtype=cupy.uint32)
    def first(value):
        source = 'extern "C" __global__ void dwell_bench_fresh(unsigned* to) { *to = %d; }' % value
        start = time.perf_counter_ns()
        cupy.RawModule(code=source).get_function("dwell_bench_fresh")((1,), (1,), (cell,))
        cupy.cuda.Device().synchronize()
        took = time.perf_counter_ns() - start
        if int(cell[0]) != value:
            raise RuntimeError("a kernel of CuPy's left a wrong value")
        return took
    first(1)
    for kind in ("cold", "warm"):
        for i in range(count):
            print(kind, first(1000 + i))
        cupy.clear_memo()
except Exception as problem:
    print("no", type(problem).__name__ + ":", str(problem).split("\n")[0])
)";

}  // namespace

std::optional<CupyTimes> time_cupy(int ordinal, std::size_t count, std::string* why, const std::string& python,
                                   const std::vector<std::string>& environment) {
  const jit::TemporaryDirectory cache;
  std::vector<std::string> variables = environment;
  variables.push_back("CUPY_CACHE_DIR=" + cache.path().string());
  const Finished finished = run_process({python, "-c", kProgram, std::to_string(ordinal), std::to_string(count)}, variables, true);
  if (finished.code != 0) {
    *why = finished.code < 0 ? python + " cannot be started" : python + " failed";
    return std::nullopt;
  }
  CupyTimes times;
  std::istringstream lines(finished.output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.find(' ');
    const std::string kind = line.substr(0, blank);
    if (kind == "no") {
      *why = line.substr(blank + 1);
      return std::nullopt;
    }
    (kind == "cold" ? times.cold : times.warm).push_back(std::stod(line.substr(blank + 1)));
  }
  if (times.cold.size() == count && times.warm.size() == count) return times;
  *why = "it said something else than expected: " + finished.output.substr(0, 100);
  return std::nullopt;
}

}  // namespace dwell::bench
