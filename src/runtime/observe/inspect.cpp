#include "runtime/observe/inspect.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::runtime {

namespace {

std::string line(std::string_view what, std::uint64_t value) { return std::string(what) + ": " + std::to_string(value) + "\n"; }

std::string microseconds(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", ns / 1000);
  return text;
}

std::string of_operator(const OperatorMetrics& op) {
  std::string text = op.version == 0 ? op.name + ", earlier versions\n" : op.name + " (version " + std::to_string(op.version) + ")\n";
  text += line("  tasks", op.tasks) + line("  failures", op.failures);
  if (op.timed == 0) return text;
  text += "  time of " + std::to_string(op.timed) + " tasks: mean " + microseconds(op.mean_ns()) + ", p50 " +
          microseconds(op.times.quantile(0.5)) + ", p99 " + microseconds(op.times.quantile(0.99)) + ", least " +
          microseconds(static_cast<double>(op.min_ns)) + ", longest " + microseconds(static_cast<double>(op.max_ns)) + "\n";
  return text;
}

std::string of_workers(const Metrics& metrics) {
  std::string text;
  for (std::size_t i = 0; i < metrics.workers.size(); ++i) {
    const WorkerMetrics& worker = metrics.workers[i];
    text += "worker " + std::to_string(i) + ": " + std::to_string(worker.tasks) + " tasks, " + std::to_string(worker.fetched) +
            " fetched, " + std::to_string(worker.queued) + " from the ready queue, " + std::to_string(worker.spawned) + " made, " +
            std::to_string(worker.leases) + " leases";
    if (worker.busy_ns != 0) text += ", busy for " + microseconds(static_cast<double>(worker.busy_ns));
    text += "\n";
  }
  return text;
}

using Structure = std::pair<std::string_view, std::string (*)(const Metrics&, const RuntimeInfo&)>;
constexpr std::array<Structure, 6> kStructures = {{
    {"ring",
     [](const Metrics& m, const RuntimeInfo&) {
       return line("slots", m.ring_slots) + line("in flight", m.in_flight) + line("submitted", m.submitted) +
              line("submitters that have found it full", m.credit_waits);
     }},
    {"queue", [](const Metrics& m, const RuntimeInfo&) { return line("tasks that no worker has claimed", m.queued); }},
    {"workers", [](const Metrics& m, const RuntimeInfo&) { return of_workers(m); }},
    {"leases",
     [](const Metrics& m, const RuntimeInfo& info) {
       return line("leases", m.leases) + line("parks", m.parks) + line("workers", info.workers) + line("crew", info.crew);
     }},
    {"image",
     [](const Metrics& m, const RuntimeInfo& info) {
       return std::string("tier: ") + (info.tier == Tier::lto ? "lto" : "relocatable") + "\n" + line("images", m.images) +
              line("registers", info.registers) + line("stack bytes", info.stack_bytes) + line("shared bytes", info.shared_bytes);
     }},
    {"memory",
     [](const Metrics& m, const RuntimeInfo&) {
       return line("arena bytes", m.arena_bytes) + line("buffers", m.buffers) + line("buffer bytes", m.buffer_bytes);
     }},
}};

}  // namespace

std::string inspect(std::string_view name, const Metrics& metrics, const RuntimeInfo& info) {
  for (const auto& [structure, text_of] : kStructures)
    if (structure == name) return text_of(metrics, info);
  std::string text;
  for (const OperatorMetrics& op : metrics.operators)
    if (op.name == name) text += of_operator(op);
  if (!text.empty()) return text;
  std::string known;
  for (const auto& [structure, text_of] : kStructures) known += (known.empty() ? "" : ", ") + std::string(structure);
  for (const OperatorMetrics& op : metrics.operators)
    if (known.find(", " + op.name) == std::string::npos) known += ", " + op.name;
  throw Error(errc::operator_not_found, "nothing is called '" + std::string(name) + "': there are " + known, {"name", std::string(name)});
}

}  // namespace dwell::runtime
