#include "run_command.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <utility>
#include <vector>

#include <dwell/dwell.hpp>
#include <nlohmann/json.hpp>

#include "bench/staged_files.hpp"
#include "critical_path.hpp"
#include "device.hpp"
#include "job.hpp"
#include "job_arrays.hpp"
#include "job_stream.hpp"
#include "json.hpp"
#include "latencies.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace dwell::tool {

namespace {

constexpr const char* kMeasured =
    "latency: from the call of submit until the task and all submitted before it are seen complete, with up to 8192 in flight";
static_assert(kMostInFlight == 8192, "kMeasured says so");

constexpr const char* kPathMeasured = "each task alone with its repetitions, in a second run of the job, by the device's clock";

// A trace file that counts missing events. Read the count after the end of the trace.
class CountedTrace : public TraceWriter {
 public:
  CountedTrace(std::unique_ptr<TraceWriter> writer, std::uint64_t& dropped) : writer_(std::move(writer)), dropped_(dropped) {}
  void write(const Trace& piece) override {
    dropped_ += piece.dropped;
    writer_->write(piece);
  }
  void finish() override { writer_->finish(); }

 private:
  std::unique_ptr<TraceWriter> writer_;
  std::uint64_t& dropped_;
};

// The times of the run, and its critical path if requested.
struct Figures {
  StreamFigures stream;
  std::optional<CriticalPath> path;
  std::vector<std::chrono::nanoseconds> times;  // with a path: of each of the job's tasks

  double path_share() const { return static_cast<double>(path->time.count()) / static_cast<double>(stream.took.count()); }
};

Source read_source(const std::filesystem::path& file, const Place& place) { return {read_text(file, place), file.string()}; }

std::vector<Operator<>> define_operators(Runtime& runtime, const Job& job, const std::vector<Source>& sources) {
  std::vector<Operator<>> operators;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    try {
      operators.push_back(runtime.define(job.operators[i].name, sources[i]));
    } catch (const Error& error) {
      throw failure_at(job.operators[i].place, error.message());
    }
  }
  return operators;
}

// Builds the swap's source in a separate runtime: reports a mistake before any task has run, and fills the cache for the swap.
void try_swap_source(const Runtime& runtime, const Operator<>& op, const Source& source, const Place& place) {
  try {
    Options options = options_for(runtime.info().device);
    options.workers = 1;
    options.ring_slots = 128;
    Runtime trial(options);
    const Operator<> other = trial.define(op.name(), source);
    if (other.signature() == op.signature()) return;
    throw failure_at(
        place, "operator " + op.name() + " takes " + op.signature().text() + ", and its new source takes " + other.signature().text());
  } catch (const Error& error) {
    throw failure_at(place, error.message());
  }
}

void stage_outputs(bench::StagedFiles& files, const Job& job, const std::vector<ArrayPlan>& plans, const std::vector<Array>& arrays) {
  for (const JobOutput& output : job.outputs) {
    const ArrayPlan& plan = plans[output.array_index];
    try {
      const std::vector<std::byte> data = arrays[output.array_index].read();
      files.add(output.file, [&](std::ostream& to) { write_npy(to, plan.type, plan.shape, data); });
    } catch (const std::runtime_error& problem) {
      throw failure_at(output.place, problem.what());
    }
  }
}

void commit_outputs(bench::StagedFiles& files, const Job& job) {
  try {
    files.commit();
  } catch (const std::runtime_error& problem) {
    throw failure_at({job.file}, problem.what());
  }
}

void print_path(std::ostream& out, const Job& job, const Figures& figures) {
  char share[32];
  std::snprintf(share, sizeof share, "%.3g", 100 * figures.path_share());
  out << "\ncritical path: " << text_of(figures.path->time) << ", " << share << " % of the " << text_of(figures.stream.took)
      << " that the job took\n"
      << "time: " << kPathMeasured << "\n\n";
  Table table({"task", "operator", "tasks", "time"}, {false, false, true, true});
  for (const std::size_t index : figures.path->tasks) {
    const JobTask& task = job.tasks[index];
    table.add({task.label(), job.operators[task.operator_index].name, text_of_count(task.repeat), text_of(figures.times[index])});
  }
  table.print(out);
}

nlohmann::ordered_json json_of_path(const Job& job, const Figures& figures) {
  nlohmann::ordered_json path = {{"measured", kPathMeasured},
                                 {"time_ns", figures.path->time.count()},
                                 {"job_took_ns", figures.stream.took.count()},
                                 {"share", figures.path_share()},
                                 {"tasks", nlohmann::ordered_json::array()}};
  for (const std::size_t index : figures.path->tasks) {
    const JobTask& task = job.tasks[index];
    path["tasks"].push_back({{"task", task.label()},
                             {"operator", job.operators[task.operator_index].name},
                             {"repeat", task.repeat},
                             {"time_ns", figures.times[index].count()}});
  }
  return path;
}

void print_table(std::ostream& out, const Job& job, const RuntimeInfo& info, const Figures& all) {
  const StreamFigures& figures = all.stream;
  out << "device: " << text_of(info) << '\n' << kMeasured << "\n\n";
  Table table({"operator", "version", "tasks", "p50", "p99", "max", "tasks/s", "swap pause"},
              {false, true, true, true, true, true, true, true});
  for (const VersionFigures& version : figures.versions) {
    const Latencies& latencies = version.latencies;
    const bool swapped = figures.swap && version.operator_index == job.swap->operator_index && version.version == 2;
    table.add({job.operators[version.operator_index].name, std::to_string(version.version), text_of_count(latencies.count()),
               text_of(latencies.quantile(0.5)), text_of(latencies.quantile(0.99)), text_of(latencies.max()),
               text_of_rate(version.tasks_a_second()), swapped ? text_of(figures.swap->pause) : ""});
  }
  table.print(out);
  if (figures.swap) {
    out << "\nswap: " << job.operators[job.swap->operator_index].name << " redefined after " << text_of_count(job.swap->after)
        << " tasks, in " << text_of(figures.swap->took) << ", during which " << text_of_count(figures.swap->submitted_meanwhile)
        << " more were submitted\n";
  }
  if (all.path) print_path(out, job, all);
  for (const JobOutput& output : job.outputs) out << "wrote " << output.file.string() << '\n';
}

void print_json(std::ostream& out, const Job& job, const RuntimeInfo& info, const Figures& all) {
  const StreamFigures& figures = all.stream;
  nlohmann::ordered_json root = {
      {"job", job.file.string()}, {"device", json_of(info)}, {"measured", kMeasured}, {"tasks", job.total_tasks()}};
  root["operators"] = nlohmann::ordered_json::array();
  for (const VersionFigures& version : figures.versions) {
    const Latencies& latencies = version.latencies;
    root["operators"].push_back(
        {{"operator", job.operators[version.operator_index].name},
         {"version", version.version},
         {"tasks", latencies.count()},
         {"latency_ns",
          {{"p50", latencies.quantile(0.5).count()}, {"p99", latencies.quantile(0.99).count()}, {"max", latencies.max().count()}}},
         {"tasks_per_second", version.tasks_a_second()}});
  }
  if (figures.swap) {
    root["swap"] = {{"operator", job.operators[job.swap->operator_index].name},
                    {"after", job.swap->after},
                    {"pause_ns", figures.swap->pause.count()},
                    {"took_ns", figures.swap->took.count()},
                    {"submitted_meanwhile", figures.swap->submitted_meanwhile}};
  }
  if (all.path) root["critical_path"] = json_of_path(job, all);
  root["outputs"] = nlohmann::ordered_json::array();
  for (const JobOutput& output : job.outputs) {
    root["outputs"].push_back({{"array", job.arrays[output.array_index].name}, {"file", output.file.string()}});
  }
  out << json_text(root) << '\n';
}

}  // namespace

void run_command(const RunOptions& options, std::ostream& out) {
  // Make cheap checks first: report mistakes before waiting for a compiler or a device.
  const Job job = parse_job(read_text(options.job, {options.job}, FileKinds::any), options.job);
  std::vector<Source> sources;
  for (const JobOperator& op : job.operators) sources.push_back(read_source(op.source, op.place));
  PreparedJob prepared;
  if (job.swap) prepared.swap_source = read_source(job.swap->source, job.swap->place);
  const std::vector<ArrayPlan> plans = plan_arrays(job);
  for (const JobOutput& output : job.outputs) {
    try {
      bench::StagedFiles::check(output.file);
    } catch (const std::runtime_error& problem) {
      throw failure_at(output.place, problem.what());
    }
  }

  Runtime runtime = open_runtime(options.device, options.workers);
  prepared.operators = define_operators(runtime, job, sources);
  for (const JobTask& task : job.tasks) check_arguments(job, task, prepared.operators[task.operator_index].signature(), plans);
  if (job.swap) try_swap_source(runtime, prepared.operators[job.swap->operator_index], *prepared.swap_source, job.swap->place);

  std::vector<Array> arrays = make_arrays(runtime, job, plans);
  for (const JobTask& task : job.tasks) {
    prepared.arguments.push_back(make_arguments(task, prepared.operators[task.operator_index].signature(), arrays));
  }
  std::optional<DeviceClock> clock;
  if (job.has_after()) clock.emplace(runtime, job.tasks.size() + 1);

  Figures figures;
  std::uint64_t dropped = 0;  // events missing in the trace
  {
    Progress progress(job.file.filename().string(), "tasks", job.total_tasks());
    if (!options.trace.empty()) runtime.start_trace(std::make_unique<CountedTrace>(trace_file(options.trace), dropped));
    figures.stream = run_stream(runtime, job, prepared, [&](std::uint64_t complete) { progress.show(complete); });
    runtime.stop_trace();
  }
  if (dropped != 0)
    std::fprintf(stderr, "dwell: %s events are missing in %s: they came faster than they were read\n", text_of_count(dropped).c_str(),
                 options.trace.c_str());
  bench::StagedFiles outputs;
  stage_outputs(outputs, job, plans, arrays);
  if (clock && options.critical_path) {
    // Run the tasks alone before committing the outputs, which may replace files that the arrays are refilled from.
    try {
      Progress progress(job.file.filename().string() + ", each task alone", "tasks", job.total_tasks());
      refill_arrays(job, plans, arrays);
      figures.times = time_tasks(runtime, job, prepared, *clock, [&](std::uint64_t complete) { progress.show(complete); });
    } catch (...) {
      commit_outputs(outputs, job);
      throw;
    }
    figures.path = critical_path(job, figures.times);
  }
  commit_outputs(outputs, job);
  if (options.json) {
    print_json(out, job, runtime.info(), figures);
  } else {
    print_table(out, job, runtime.info(), figures);
  }
}

}  // namespace dwell::tool
