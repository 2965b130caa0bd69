#include "bench/bench.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include "bench/benchmarks.hpp"
#include "bench/machine.hpp"
#include "bench/operators.hpp"
#include "bench/staged_files.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

using Json = nlohmann::ordered_json;

// Sorted by the order in which they run.
std::vector<Benchmark>& registered() {
  static std::vector<Benchmark> all;
  return all;
}

void write(const std::string& file, const Json& content) {
  try {
    StagedFiles files;
    files.add(file, [&](std::ostream& out) { out << content.dump(2, ' ', false, Json::error_handler_t::replace) << '\n'; });
    files.commit();
  } catch (const std::runtime_error& problem) {
    throw Error(errc::io_failed, problem.what());
  }
}

// As above; prints the error and returns false when that fails.
bool written(const std::string& file, const Json& content) {
  try {
    write(file, content);
    return true;
  } catch (const Error& error) {
    std::cerr << "dwell: error: " << error.message() << '\n';
    return false;
  }
}

// Returns whether `file` may be written again after each benchmark: not a pipe or a device.
bool may_be_replaced(const std::string& file) {
  std::error_code none;
  return !std::filesystem::is_other(file, none);
}

bool is_brief() {
  const char* const set = std::getenv("DWELL_BENCH");
  return set != nullptr && std::string_view(set) == "short";
}

Context open_context(const std::string& device) {
  Context context;
  context.info.device = device;
  Runtime runtime(context.options());
  runtime.submit(runtime.define<void()>("empty", kEmpty)).wait();  // creates the image, which determines info()
  context.info = runtime.info();
  context.cuda = context.info.device.starts_with("cuda:");
  if (context.cuda) context.ordinal = std::stoi(context.info.device.substr(5));
  context.brief = is_brief();
  return context;
}

}  // namespace

Registration::Registration(const Benchmark& benchmark) {
  std::vector<Benchmark>& all = registered();
  all.insert(std::ranges::upper_bound(all, benchmark.place, {}, &Benchmark::place), benchmark);
}

const std::vector<Benchmark>& benchmarks() { return registered(); }

dwell::Options Context::options() const {
  dwell::Options options;
  options.device = info.device;
  options.warn = [](std::string_view line) { std::cerr << "dwell: warning: " + std::string(line) + "\n"; };
  return options;
}

int run(const Options& options) {
  if (is_startup_child()) return run_startup_child(options.device);
  const bool step_by_step = !options.json.empty() && may_be_replaced(options.json);
  Json results;
  Context context;
  try {
    context = open_context(options.device);
    results = describe_run(context);
    results["benchmarks"] = Json::array();
    if (step_by_step) write(options.json, results);
  } catch (const Error& error) {
    std::cerr << "dwell: error: " << error.message() << '\n';
    return 2;
  }
  std::cout << context.info.device << " (" << context.info.device_name << "), " << context.info.workers << " workers, commit "
            << results["commit"].get<std::string>() << (context.brief ? "\nDWELL_BENCH=short: these figures say nothing" : "") << '\n'
            << std::flush;
  bool right = true;
  for (const Benchmark& benchmark : benchmarks()) {
    if (!options.names.empty() && std::find(options.names.begin(), options.names.end(), benchmark.name) == options.names.end()) continue;
    Report report(benchmark.name, benchmark.title);
    const Clock::time_point start = Clock::now();
    try {
      benchmark.run(context, report);
    } catch (const Error& error) {
      report.fail(error.message());
    } catch (const std::exception& problem) {
      report.fail(problem.what());
    }
    report.took(nanoseconds_since(start) / 1e9);
    report.print(std::cout);
    right = right && report.right();
    results["benchmarks"].push_back(report.json());
    if (step_by_step && !written(options.json, results)) return 2;
  }
  if (!options.json.empty() && !step_by_step && !written(options.json, results)) return 2;
  return right ? 0 : 1;
}

}  // namespace dwell::bench
