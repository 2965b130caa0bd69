// The time that a process takes to its first result. This program starts itself with DWELL_BENCH_CHILD set, and the child prints the times
// of its steps. All processes of a machine share the steady clock.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <sstream>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/cuda_start.hpp"
#include "bench/operators.hpp"
#include "bench/process.hpp"
#include "bench/timing.hpp"
#include "jit/base/temporary_directory.hpp"

namespace dwell::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kChild = "DWELL_BENCH_CHILD";  // kind of child: "nothing", "dwell", "cuda then dwell", "cuda"
constexpr const char* kCubin = "DWELL_BENCH_CUBIN";  // for "cuda": the file of the kernels

// Nanoseconds from the start of the child to each of its steps.
std::vector<double> start_child(const std::string& role, const std::string& device, const std::vector<std::string>& environment) {
  std::vector<std::string> variables = environment;
  variables.push_back(std::string(kChild) + "=" + role);
  const Clock::time_point start = Clock::now();
  const Finished child = run_process({own_file(), "bench", "startup", "--device", device}, variables);
  if (child.code != 0) throw Error(errc::io_failed, "the child process '" + role + "' failed, exit status " + std::to_string(child.code));
  std::vector<double> steps;
  std::istringstream text(child.output);
  for (std::int64_t time = 0; text >> time;) steps.push_back(nanoseconds(Clock::duration(time) - start.time_since_epoch()));
  return steps;
}

// Steps of several starts, step by step.
struct Starts {
  std::vector<std::vector<double>> times;

  void add(const std::vector<double>& steps) {
    times.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) times[i].push_back(steps[i]);
  }
  Spread to(std::size_t step) const { return spread_of(times.at(step)); }
  // Returns the times from one step to another.
  Spread between(std::size_t from, std::size_t to) const {
    std::vector<double> differences;
    for (std::size_t i = 0; i < times.at(to).size(); ++i) differences.push_back(times[to][i] - times.at(from)[i]);
    return spread_of(std::move(differences));
  }
};

int ordinal_of(const std::string& device) { return std::stoi(device.substr(device.find(':') + 1)); }

void print_times(std::initializer_list<Clock::time_point> times) {
  for (const Clock::time_point time : times) std::cout << time.time_since_epoch().count() << '\n';
  std::cout.flush();
}

int run_dwell_child(const std::string& device, Clock::time_point entered) {
  dwell::Options options;
  options.device = device;
  Runtime runtime(options);
  const Clock::time_point opened = Clock::now();
  const auto count = runtime.define<void(Span<unsigned>, unsigned)>("count", kCount);
  const Clock::time_point defined = Clock::now();
  Buffer<unsigned> cells = runtime.allocate<unsigned>(1);
  runtime.submit(count, cells, 0U).wait();
  std::vector<unsigned> counted(1);
  cells.read(counted);
  print_times({entered, opened, defined, Clock::now()});
  return counted[0] == 1 ? 0 : 1;  // device memory is cleared when it is allocated
}

// As above, after CUDA has a context: dwell's own part.
int run_dwell_child_behind_cuda(const std::string& device) {
  std::string why;
  const auto context = open_cuda_context(ordinal_of(device), &why);
  if (!context) throw Error(errc::device_unavailable, why);
  return run_dwell_child(device, Clock::now());
}

int run_cuda_child(const std::string& device, Clock::time_point entered) {
  const char* const file = std::getenv(kCubin);
  std::ifstream in(file == nullptr ? "" : file, std::ios::binary);
  const std::string cubin{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const CudaStart start = start_cuda(ordinal_of(device), std::as_bytes(std::span(cubin)));
  print_times({entered, start.context, start.loaded, start.done});
  return 0;
}

}  // namespace

bool is_startup_child() { return std::getenv(kChild) != nullptr; }

int run_startup_child(const std::string& device) {
  const Clock::time_point entered = Clock::now();
  const std::string role = std::getenv(kChild);
  try {
    if (role == "dwell") return run_dwell_child(device, entered);
    if (role == "cuda then dwell") return run_dwell_child_behind_cuda(device);
    if (role == "cuda") return run_cuda_child(device, entered);
    print_times({entered});
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << "dwell: error: " << problem.what() << '\n';
    return 1;
  }
}

namespace {

void run(const Context& context, Report& report) {
  const std::string& device = context.info.device;
  const int times = context.pick(10, 2);
  // Kept open, so that no start has to wake up an unused device.
  std::unique_ptr<CudaPeer> peer;
  if (context.cuda) {
    std::string why;
    peer = open_cuda_peer(context.ordinal, &why);
    if (!peer) report.note("no CUDA peer: " + why);
  }

  Starts nothing;
  Starts cold;
  Starts warm;
  const jit::TemporaryDirectory kept;
  const auto cache = [](const fs::path& folder) { return "DWELL_CACHE_DIR=" + folder.string(); };
  start_child("dwell", device, {cache(kept.path())});  // fills the cache
  for (int i = 0; i < times; ++i) {
    nothing.add(start_child("nothing", device, {}));
    warm.add(start_child("dwell", device, {cache(kept.path())}));
    if (i >= times / 2) continue;  // compiling is slow
    const jit::TemporaryDirectory fresh;
    cold.add(start_child("dwell", device, {cache(fresh.path())}));
  }
  constexpr const char* kWhole = "process started to first result";
  report.add({kWhole, "dwell, operator and loop from cache", true, "ns", warm.to(3)});
  report.add({kWhole, "dwell, nothing in the cache", true, "ns", cold.to(3)});
  report.add({kWhole, "the same program, started to its first line", false, "ns", nothing.to(0)});
  report.add({"of it, from cache: opening the runtime", "dwell", true, "ns", warm.between(0, 1)});
  report.add({"of it, from cache: defining an operator", "dwell", true, "ns", warm.between(1, 2)});
  report.add({"of it, from cache: first task", "dwell", true, "ns", warm.between(2, 3)});
  report.check(std::to_string(warm.to(3).count + cold.to(3).count) + " processes had the right first result", true);
  if (!peer) return;

  Starts behind;
  for (int i = 0; i < times; ++i) behind.add(start_child("cuda then dwell", device, {cache(kept.path())}));
  const Spread own = behind.between(0, 3);
  report.add({"behind CUDA's own start, from cache", "dwell", true, "ns", own});
  report.add(Goal{"behind CUDA's own start, from cache, p50", "ns", own.p50, 20e6, 50e6});

  const fs::path cubin = kept.path() / "kernels.cubin";
  {
    std::ofstream out(cubin, std::ios::binary);
    out.write(reinterpret_cast<const char*>(peer->cubin().data()), static_cast<std::streamsize>(peer->cubin().size()));
  }
  Starts cuda;
  for (int i = 0; i < times; ++i) cuda.add(start_child("cuda", device, {std::string(kCubin) + "=" + cubin.string()}));
  report.add({kWhole, "CUDA driver: context, module, launch, copy", false, "ns", cuda.to(3)});
  report.add({"of it, from cache: opening the runtime", "CUDA driver: context", false, "ns", cuda.between(0, 1)});
  report.add({"of it, from cache: defining an operator", "CUDA driver: loading the kernels", false, "ns", cuda.between(1, 2)});
  report.add({"of it, from cache: first task", "CUDA driver: launch, copy", false, "ns", cuda.between(2, 3)});
}

const Registration kRegistration{{180, "startup", "process started to first result", 120, run}};

}  // namespace

}  // namespace dwell::bench
