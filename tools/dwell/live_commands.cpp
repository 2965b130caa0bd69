#include "live_commands.hpp"

#include <chrono>
#include <deque>
#include <filesystem>
#include <iostream>
#include <ostream>
#include <thread>
#include <utility>

#include <dwell/diagnosis.hpp>
#include <dwell/error.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

#include "base/output_file.hpp"
#include "screen_text.hpp"
#include "table.hpp"

namespace dwell::tool {

namespace {

constexpr std::size_t kLinesAtOnce = 1000;
constexpr int kMostPages = 1000;

Failure mistake(const std::string& message) { return {Exit::mistake, "dwell: error: " + message}; }

level level_of(const std::string& name) {
  for (auto one = level::trace; one < level::off; one = static_cast<level>(static_cast<int>(one) + 1))
    if (text_of(one) == name) return one;
  throw mistake("'" + name + "' is no level: trace, debug, info, warning, error");
}

OutputFile open_output(const std::string& path) {
  try {
    return {path, OutputFile::Links::follow};
  } catch (const Error& error) {
    throw mistake(error.message());
  }
}

void print(const std::deque<LogRecord>& lines, std::ostream& out) {
  for (const LogRecord& line : lines) out << printable(to_string(line)) << '\n';
  out.flush();
}

void print_dropped(std::uint64_t events, std::ostream& out) {
  if (events != 0) out << "dwell: " << text_of_count(events) << " events are missing in the trace: they came faster than they were read\n";
}

}  // namespace

Exit trace_command(const TraceOptions& options, std::ostream& out) {
  if (options.format != "perfetto" && options.format != "chrome") throw mistake("'" + options.format + "' is no format: perfetto, chrome");
  if (!(options.seconds > 0 && options.seconds <= 3600)) throw mistake("a trace takes more than no time, and up to an hour");
  const live::Client client = open_process(options.look);
  const std::uint64_t runtime = choose_runtime(client, options.look);
  const auto time = std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(options.seconds));
  if (options.output == "-") {
    print_dropped(client.trace(runtime, time, options.format, out), std::cerr);
    return Exit::success;
  }
  const bool perfetto = options.format == "perfetto";
  const std::string path =
      !options.output.empty() ? options.output : "dwell-" + std::to_string(client.process().pid) + (perfetto ? ".perfetto-trace" : ".json");
  OutputFile file = open_output(path);
  const std::uint64_t dropped = client.trace(runtime, time, options.format, file.stream());
  try {
    file.finish();
    file.commit();
  } catch (const Error& error) {
    throw Failure(Exit::failed, "dwell: error: " + error.message());
  }
  if (std::filesystem::is_regular_file(path))
    out << path << ": " << text_of_count(std::filesystem::file_size(path)) << " bytes, for "
        << (perfetto ? "https://ui.perfetto.dev" : "chrome://tracing or https://ui.perfetto.dev") << '\n';
  print_dropped(dropped, out);
  return Exit::success;
}

Exit logs_command(const LogsOptions& options, std::ostream& out) {
  const level least = level_of(options.level);
  const live::Client client = open_process(options.look);
  const std::uint64_t runtime = choose_runtime(client, options.look);
  std::uint64_t place = 0;
  std::uint64_t missed = 0;  // lines that the runtime had dropped before they were read
  // Reads all current lines, and keeps the last ones that are wanted.
  const auto read = [&](std::size_t most) {
    std::deque<LogRecord> lines;
    // Bounded, so that a process that logs without pause does not keep this from printing.
    for (int pages = 0;; ++pages) {
      live::LogPage page = client.logs(runtime, place, kLinesAtOnce);
      missed += page.next - page.records.size() - place;
      place = page.next;
      for (LogRecord& line : page.records)
        if (line.severity >= least) lines.push_back(std::move(line));
      while (most != 0 && lines.size() > most) lines.pop_front();
      if (page.records.size() < kLinesAtOnce || pages == kMostPages) return lines;
    }
  };
  print(read(options.lines), out);
  missed = 0;  // dropped before this command
  while (options.follow && out) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    try {
      const std::deque<LogRecord> lines = read(0);
      if (const std::uint64_t lost = std::exchange(missed, 0); lost != 0)
        out << "dwell: " << text_of_count(lost) << " lines are missing here: they came faster than they were read\n";
      print(lines, out);
    } catch (const Error& error) {
      if (error.kind() == errc::closed) break;
      throw;
    }
  }
  return Exit::success;
}

Exit metrics_command(const MetricsOptions& options, std::ostream& out) {
  if (options.format != "openmetrics" && options.format != "json")
    throw mistake("'" + options.format + "' is no format: openmetrics, json");
  const live::Client client = open_process(options.look);
  const Metrics metrics = client.metrics(choose_runtime(client, options.look));
  if (options.format == "json") {
    out << to_json(metrics) << '\n';
  } else {
    out << to_openmetrics(metrics);  // its last line, "# EOF", must be the last of the output
  }
  return Exit::success;
}

Exit inspect_command(const LookOptions& look, const std::string& name, std::ostream& out) {
  const live::Client client = open_process(look);
  const std::string text = client.inspect(choose_runtime(client, look), name);
  out << text << (text.ends_with('\n') ? "" : "\n");
  return Exit::success;
}

Exit stuck_command(const LookOptions& look, std::ostream& out) {
  const live::Client client = open_process(look);
  const live::RuntimeIds runtimes = look.runtime == 0 ? client.runtimes() : live::RuntimeIds{choose_runtime(client, look)};
  Exit exit = Exit::success;
  for (const std::uint64_t runtime : runtimes) {
    const Diagnosis diagnosis = client.diagnosis(runtime);
    out << (runtimes.size() > 1 ? "runtime " + std::to_string(runtime) + ": " : "") << to_string(diagnosis);
    if (diagnosis.stalled || !diagnosis.cycles.empty()) exit = Exit::failed;
  }
  return exit;
}

}  // namespace dwell::tool
