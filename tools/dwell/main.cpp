// dwell: the command line.
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <dwell/error.hpp>
#include <dwell/options.hpp>

#include "base/utf8.hpp"
#include "bench_command.hpp"
#include "cache_command.hpp"
#include "demo_command.hpp"
#include "doctor_command.hpp"
#include "failure.hpp"
#include "heap_command.hpp"
#include "live_commands.hpp"
#include "post_mortem_command.hpp"
#include "run_command.hpp"
#include "screen_buffer.hpp"
#include "top_command.hpp"

namespace {

using dwell::tool::Exit;

// Control characters that messages may contain.
constexpr const char* kKept = "\n\t";

// The same as at the top of job.hpp.
constexpr const char* kJobHelp = R"(A job (paths are relative to it):

  [operators.axpy]               # the name that DWELL_OPERATOR(axpy) defines
  source = "axpy.hpp"

  [arrays]
  x = { file = "x.npy" }         # f16 bf16 f32 f64 i8 to i64 u8 to u64 bool complex64 complex128
  y = { like = "x" }             # zeros
  z = { shape = [100, 20], dtype = "f32" }

  [[tasks]]                      # in the order of submission
  name = "scale"                 # for after, and for messages
  after = ["load", "clear"]      # start when these have succeeded; cancelled if one fails
  operator = "axpy"
  args = [2.0, "x", "y"]         # numbers, true, false, and arrays by name
  groups = 4                     # share it among so many groups
  repeat = 1000                  # submit it so many times
  link = true                    # each starts after the one before, and is cancelled if that fails
  hard_link = true               # each starts after the one before, failed or not
  drain = true                   # each starts after all before, and holds back all after

  [swap]                         # redefine after so many tasks, while others go on being submitted
  operator = "axpy"
  source = "axpy2.hpp"
  after = 500

  [outputs]                      # written whole or not at all
  y = "y.npy"

Exit codes: 0 done, 1 a task failed, 2 a mistake in the job.)";

constexpr const char* kTopHelp = R"(Keys: q quit, h help, space pause, left/right or t p s f n sort, up/down scroll, tab next runtime.)";

constexpr const char* kDeviceHelp = "auto, cpu, cuda:0, cuda:1, ...";

// Adds the options that select a process and a runtime.
void add_look(CLI::App& command, dwell::tool::LookOptions& look, bool required = false) {
  command.add_option("PID", look.pid, required ? "The process" : "The process; else the only one of yours that runs dwell")
      ->required(required);
  command.add_option("--runtime", look.runtime, "Which of its runtimes, by number; else its only one");
}

// Throws Failure if the word at this place is no subcommand; the parser would only report that one is required.
void check_subcommand(const CLI::App& app, int count, char** words, int place) {
  if (count <= place || words[place][0] == '-') return;
  const std::string given = words[place];
  std::string known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == given) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw dwell::tool::Failure(Exit::mistake, "dwell: error: there is no command '" + given + "'; known are " + known);
}

// `binary`: standard output, for binary data.
Exit run(int count, char** words, std::ostream& binary) {
  CLI::App app("dwell: a runtime that lives on the GPU", "dwell");
  app.set_version_flag("--version", "dwell " DWELL_VERSION);
  app.require_subcommand(1);

  CLI::App* const doctor = app.add_subcommand("doctor", "Say what this machine offers, what is missing, and how to get it");
  bool doctor_json = false;
  doctor->add_flag("--json", doctor_json, "Print JSON");
  std::string doctor_image;
  unsigned doctor_scratch = dwell::Options().scratch_bytes;
  CLI::Option* const image =
      doctor->add_option("--image", doctor_image, "Say instead what this image (a linked cubin, or a bundle for the CPU) takes");
  bool doctor_measures = false;
  bool doctor_forgets = false;
  CLI::Option* const measures = doctor->add_flag(
      "--measure", doctor_measures, "Measure first what programs cost on each CUDA device, and plan by these figures from now on");
  doctor->add_flag("--defaults", doctor_forgets, "Forget measured costs first, and plan by the defaults")
      ->excludes(measures)
      ->excludes(image);
  measures->excludes(image);
  doctor->add_option("--scratch", doctor_scratch, "With --image: bytes for Group::shared, a worker")->needs(image)->capture_default_str();

  CLI::App* const job = app.add_subcommand("run", "Run operators over arrays, as a job says");
  dwell::tool::RunOptions run_options;
  job->add_option("JOB.toml", run_options.job, "The job")->required();
  job->add_option("--device", run_options.device, kDeviceHelp)->capture_default_str();
  job->add_option("--workers", run_options.workers, "So many workers; 0: as many as the device likes best")->capture_default_str();
  job->add_flag("--json", run_options.json, "Print JSON");
  job->add_flag("!--no-critical-path", run_options.critical_path, "Do not run a job with `after` again to time each task alone");
  job->add_option(
      "--trace", run_options.trace,
      "Write a timeline of the tasks to this file: for chrome://tracing when it ends in .json, else for https://ui.perfetto.dev");
  job->footer(kJobHelp);

  const std::vector<std::string> bench_names = dwell::tool::bench_names();
  CLI::App* const bench = app.add_subcommand("bench", bench_names.empty() ? "Run benchmarks (this build has none)" : "Run benchmarks");
  dwell::tool::BenchOptions bench_options;
  std::string bench_help = "Which; all when none is named:";
  for (const std::string& name : bench_names) bench_help += ' ' + name;
  bench->add_option("NAME", bench_options.names, bench_help);
  bench->add_flag("--list", bench_options.list, "Print the names, and the seconds that each may take on a GPU");
  bench->add_option("--device", bench_options.device, kDeviceHelp)->capture_default_str();
  bench->add_option("--json", bench_options.json, "Write the results to this file too");

  CLI::App* const demo =
      app.add_subcommand("demo", "Send a photograph through chains of tiny tasks and redefine one of their operators meanwhile");
  dwell::tool::DemoOptions demo_options;
  demo->add_option("--image", demo_options.image, "A JPEG or PNG file; script/demo brings one");
  demo->add_option("--device", demo_options.device, kDeviceHelp)->capture_default_str();
  demo->add_option("--output", demo_options.output, "Before and after, side by side")->capture_default_str();
  demo->add_flag("--json", demo_options.json, "Print JSON");

  CLI::App* const cache = app.add_subcommand("cache", "Look after the cache of compiled operators");
  dwell::tool::CacheOptions cache_options;
  cache->require_subcommand(1);
  for (const auto& [action, help] : {std::pair{"stats", "Say where it lies and how large it is"},
                                     {"list", "List what it holds, the least recently used first"},
                                     {"clear", "Remove everything it holds"},
                                     {"verify", "Check every entry, and remove what is broken"},
                                     {"path", "Print where it lies"}}) {
    CLI::App* const command = cache->add_subcommand(action, help);
    command->add_flag("--json", cache_options.json, "Print JSON");
    command->callback([&cache_options, name = action] { cache_options.action = name; });
  }

  CLI::App* const top = app.add_subcommand("top", "Watch a process that runs: workers, operators, queues, logs");
  dwell::tool::TopOptions top_options;
  add_look(*top, top_options.look);
  top->add_option("-d,--delay", top_options.delay, "Seconds between two pictures")->capture_default_str();
  CLI::Option* const once = top->add_flag("--once", top_options.once, "Print one picture, of one delay");
  top->add_flag("--json", top_options.json, "With --once: print JSON")->needs(once);
  top->footer(kTopHelp);

  CLI::App* const trace = app.add_subcommand("trace", "Trace a process that runs, for Perfetto");
  dwell::tool::TraceOptions trace_options;
  add_look(*trace, trace_options.look);
  trace->add_option("-t,--time", trace_options.seconds, "For so many seconds")->capture_default_str();
  trace->add_option("--format", trace_options.format, "perfetto, or chrome: JSON")->capture_default_str();
  trace->add_option("-o,--output", trace_options.output, "A file, or - for standard output; else dwell-PID.perfetto-trace");

  CLI::App* const logs = app.add_subcommand("logs", "Print what operators of a process that runs have logged");
  dwell::tool::LogsOptions logs_options;
  add_look(*logs, logs_options.look);
  logs->add_flag("-f,--follow", logs_options.follow, "Go on with lines as they come, until the process ends");
  logs->add_option("-n,--lines", logs_options.lines, "Of those that are there, only the last so many; 0: all")->capture_default_str();
  logs->add_option("--level", logs_options.level, "The least: trace, debug, info, warning, error")->capture_default_str();

  CLI::App* const metrics = app.add_subcommand("metrics", "Print one snapshot of the metrics of a process that runs");
  dwell::tool::MetricsOptions metrics_options;
  add_look(*metrics, metrics_options.look);
  metrics->add_option("--format", metrics_options.format, "openmetrics: text for Prometheus; or json")->capture_default_str();

  CLI::App* const inspect =
      app.add_subcommand("inspect", "Say what a variable holds in a process that runs, or what is known of an operator or a structure");
  dwell::tool::LookOptions inspect_look;
  add_look(*inspect, inspect_look, true);
  std::string inspect_name;
  inspect
      ->add_option("NAME", inspect_name,
                   "A variable that an operator shows, an operator, or ring, queue, held, workers, leases, image, graphs, memory")
      ->required();

  CLI::App* const heap = app.add_subcommand("heap", "Say what the heap of a process that runs holds, and how full it is");
  dwell::tool::HeapLookOptions heap_options;
  add_look(*heap, heap_options.look);
  heap->add_flag("--json", heap_options.json, "Print JSON");
  heap->add_flag("--types", heap_options.types, "Count its objects by type, and other allocations by size");
  heap->add_flag("--verify", heap_options.verify, "Check its tables against each other");
  heap->add_option("--watch", heap_options.watch, "Say which types and sizes have grown after so many seconds");
  heap->footer(
      "--types, --verify and --watch wait for running tasks, and take the loop off the device for as long as they count.\n"
      "Exit codes: 1 when --verify finds mistakes.");

  CLI::App* const stuck = app.add_subcommand("stuck", "Say who waits for whom in a process that runs");
  dwell::tool::LookOptions stuck_look;
  add_look(*stuck, stuck_look);
  stuck->footer("Exit codes: 1 when something waits that never ends by itself.");

  CLI::App* const post_mortem = app.add_subcommand("post-mortem", "Say what each worker of a process that is dead did last");
  dwell::tool::PostMortemOptions post_mortem_options;
  post_mortem->add_option("FILE", post_mortem_options.file,
                          "The file of its flight recorder (default: the last process of yours that died)");
  post_mortem->add_option("-n,--last", post_mortem_options.last, "So many tasks of each worker, 1 to 64")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();

  check_subcommand(app, count, words, 1);
  if (count > 1 && std::string_view(words[1]) == cache->get_name()) check_subcommand(*cache, count, words, 2);
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& problem) {
    std::ostringstream why;
    const bool asked = app.exit(problem, std::cout, why) == 0;
    std::cerr << dwell::printable(why.str(), kKept);
    return asked ? Exit::success : Exit::mistake;
  }

  if (image->count() != 0) {
    dwell::tool::doctor_image_command(doctor_image, doctor_scratch, doctor_json, std::cout);
    return Exit::success;
  }
  if (doctor->parsed()) {
    using dwell::tool::CostsRequest;
    const CostsRequest request = doctor_measures ? CostsRequest::measure : doctor_forgets ? CostsRequest::forget : CostsRequest::show;
    return dwell::tool::doctor_command(doctor_json, request, std::cout);
  }
  if (bench->parsed()) return dwell::tool::bench_command(bench_options);
  if (cache->parsed()) return dwell::tool::cache_command(cache_options, std::cout, std::cerr);
  if (top->parsed()) return dwell::tool::top_command(top_options, std::cout);
  if (trace->parsed()) return dwell::tool::trace_command(trace_options, trace_options.output == "-" ? binary : std::cout);
  if (logs->parsed()) return dwell::tool::logs_command(logs_options, std::cout);
  if (metrics->parsed()) return dwell::tool::metrics_command(metrics_options, std::cout);
  if (inspect->parsed()) return dwell::tool::inspect_command(inspect_look, inspect_name, std::cout);
  if (post_mortem->parsed()) return dwell::tool::post_mortem_command(post_mortem_options, std::cout);
  if (heap->parsed()) return dwell::tool::heap_command(heap_options, std::cout);
  if (stuck->parsed()) return dwell::tool::stuck_command(stuck_look, std::cout);
  if (demo->parsed()) return dwell::tool::demo_command(demo_options, std::cout);
  dwell::tool::run_command(run_options, std::cout);
  return Exit::success;
}

}  // namespace

int main(int count, char** words) {
  std::ostream binary(std::cout.rdbuf());
  dwell::tool::ScreenBuffer screen(*binary.rdbuf());
  std::cout.rdbuf(&screen);
  const auto tell = [](const std::string& what) { std::cerr << dwell::printable(what, kKept) << '\n'; };
  Exit exit = Exit::failed;
  try {
    exit = run(count, words, binary);
    std::cout.flush();
    binary.flush();
    if (!std::cout || !binary) throw dwell::tool::Failure(Exit::failed, "dwell: error: cannot write to standard output");
  } catch (const dwell::tool::Failure& failure) {
    tell(failure.what());
    exit = failure.exit();
  } catch (const dwell::Error& error) {
    tell("dwell: error: " + error.message());
    exit = Exit::failed;
  } catch (const std::exception& problem) {
    tell(std::string("dwell: error: ") + problem.what());
    exit = Exit::failed;
  }
  std::cout.rdbuf(binary.rdbuf());
  return static_cast<int>(exit);
}
