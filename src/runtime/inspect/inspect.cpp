#include "runtime/inspect/inspect.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace dwell::runtime {

namespace {

template <class T>
void add(Inspection& to, std::string name, T value) {
  InspectedValue& added = to.values.emplace_back();
  added.name = std::move(name);
  added.type = device::Describe<T>::value;
  added.bytes.resize(sizeof(value));
  std::memcpy(added.bytes.data(), &value, sizeof(value));
}

void add_text(Inspection& to, std::string name, std::string text) {
  if (text.empty()) return;
  InspectedValue& added = to.values.emplace_back();
  added.name = std::move(name);
  added.text = std::move(text);
}

template <class T>
void add_list(Inspection& to, std::string name, const std::vector<T>& list) {
  if (list.empty()) return;
  InspectedValue& added = to.values.emplace_back();
  added.name = std::move(name);
  added.type = device::Describe<T>::value;
  added.count = list.size();
  added.array = true;
  added.bytes.resize(list.size() * sizeof(T));
  std::memcpy(added.bytes.data(), list.data(), added.bytes.size());
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

constexpr std::array<std::string_view, 7> kDoings = {
    "running", "waiting_to_start", "waiting_for_host", "waiting_for_gang", "waiting_to_run", "parked", "lost"};
static_assert(kDoings.size() == static_cast<std::size_t>(Doing::lost) + 1);
std::string_view text_of(Doing doing) { return kDoings.at(static_cast<std::size_t>(doing)); }

// Lists the matching tasks among the oldest incomplete ones, and the number of younger ones, which are not examined.
template <class Meant>
void add_tasks(Inspection& to, const Diagnosis& diagnosis, const Meant& is_meant) {
  add(to, "more", diagnosis.total - std::min<std::uint64_t>(diagnosis.total, diagnosis.tasks.size()));
  for (const TaskState& task : diagnosis.tasks) {
    if (!is_meant(task)) continue;
    const std::string before = "ticket " + std::to_string(task.position) + ".";
    add_text(to, before + "operator", task.name);
    add_text(to, before + "doing", std::string(text_of(task.doing)));
    if (task.groups > 1) add(to, before + "groups", task.groups);
    if (task.cancelled) add(to, before + "cancelled", task.cancelled);
    add_list(to, before + "waits_for", task.waits_for);
    add_text(to, before + "waits_for_what", joined(task.named));
    std::vector<std::uint32_t> workers;
    std::vector<std::string> nodes;
    for (const TaskState::OnWorker& on : task.workers) {
      workers.push_back(on.worker);
      if (!on.node.empty()) nodes.push_back(on.node);
    }
    add_list(to, before + "workers", workers);
    add_text(to, before + "nodes", joined(nodes));
  }
}

void add_operator(Inspection& to, const OperatorMetrics& op, const std::string& before) {
  add(to, before + "tasks", op.tasks);
  add(to, before + "failures", op.failures);
  if (op.timed == 0) return;
  add(to, before + "timed", op.timed);
  add(to, before + "mean_ns", op.mean_ns());
  add(to, before + "p50_ns", op.times.quantile(0.5));
  add(to, before + "p99_ns", op.times.quantile(0.99));
  add(to, before + "min_ns", op.min_ns);
  add(to, before + "max_ns", op.max_ns);
  if (op.waits != 0) add(to, before + "mean_wait_ns", op.mean_wait_ns());
  if (op.sampled != 0) add(to, before + "mean_bytes", op.mean_bytes());
}

void add_workers(Inspection& to, const Known& known) {
  for (std::size_t i = 0; i < known.metrics.workers.size(); ++i) {
    const WorkerMetrics& worker = known.metrics.workers[i];
    const std::string before = std::to_string(i) + ".";
    add(to, before + "tasks", worker.tasks);
    add(to, before + "fetched", worker.fetched);
    add(to, before + "queued", worker.queued);
    add(to, before + "stolen", worker.stolen);
    add(to, before + "spawned", worker.spawned);
    add(to, before + "leases", worker.leases);
    add(to, before + "parks", worker.parks);
    if (worker.busy_ns == 0) continue;
    add(to, before + "busy_ns", worker.busy_ns);
    add(to, before + "idle_ns", worker.idle_ns);
  }
}

// Adds the oldest incomplete tasks, by their tickets' positions.
void add_held(Inspection& to, const Known& known) {
  const Diagnosis& diagnosis = known.diagnosis;
  add(to, "not_complete", diagnosis.total);
  add(to, "busy_workers", diagnosis.busy);
  for (const Doing doing : {Doing::runs, Doing::waits_to_start, Doing::waits_for_host, Doing::waits_for_gang, Doing::waits_to_run}) {
    const auto count = std::ranges::count(diagnosis.tasks, doing, &TaskState::doing);
    add(to, "oldest." + std::string(text_of(doing)), static_cast<std::uint64_t>(count));
  }
  add_tasks(to, diagnosis, [](const TaskState&) { return true; });
}

using Structure = std::pair<std::string_view, void (*)(Inspection&, const Known&)>;
constexpr std::array<Structure, 8> kStructures = {{
    {"ring",
     [](Inspection& to, const Known& known) {
       const Metrics& m = known.metrics;
       add(to, "slots", m.ring_slots);
       add(to, "in_flight_slots", m.in_flight_slots);
       add(to, "submitted", m.submitted);
       add(to, "credit_waits", m.credit_waits);
     }},
    {"queue",
     [](Inspection& to, const Known& known) {
       add(to, "queued", known.metrics.queued);
       add_tasks(to, known.diagnosis, [](const TaskState& task) { return task.doing == Doing::waits_to_run; });
     }},
    {"held", add_held},
    {"workers", add_workers},
    {"leases",
     [](Inspection& to, const Known& known) {
       add(to, "leases", known.metrics.leases);
       add(to, "parks", known.metrics.parks);
       add(to, "pauses", known.metrics.pauses);
       add(to, "workers", known.info.workers);
       add(to, "crew", known.info.crew);
     }},
    {"image",
     [](Inspection& to, const Known& known) {
       add(to, "inlined", known.info.tier == Tier::lto);
       add(to, "images", known.metrics.images);
       add(to, "registers", known.info.registers);
       add(to, "stack_bytes", known.info.stack_bytes);
       add(to, "shared_bytes", known.info.shared_bytes);
     }},
    {"graphs",
     [](Inspection& to, const Known& known) {
       add(to, "launches", known.metrics.graph_launches);
       add(to, "oldest_not_complete", static_cast<std::uint64_t>(std::ranges::count(known.diagnosis.tasks, true, &TaskState::graph)));
       add_tasks(to, known.diagnosis, [](const TaskState& task) { return task.graph; });
     }},
    {"memory",
     [](Inspection& to, const Known& known) {
       add(to, "arena_bytes", known.metrics.arena_bytes);
       add(to, "buffers", known.metrics.buffers);
       add(to, "buffer_bytes", known.metrics.buffer_bytes);
       if (known.metrics.heap_mapped_bytes == 0) return;
       add(to, "heap_bytes", known.metrics.heap_bytes);
       add(to, "heap_mapped_bytes", known.metrics.heap_mapped_bytes);
       add(to, "heap_live_bytes", known.metrics.heap_live_bytes);
       add(to, "heap_collections", known.metrics.heap_collections);
       add(to, "heap_failures", known.metrics.heap_failures);
     }},
}};

}  // namespace

std::optional<Inspection> inspect(std::string_view name, const Known& known) {
  Inspection found;
  found.name = name;
  for (const auto& [structure, add_all] : kStructures) {
    if (structure != name) continue;
    add_all(found, known);
    return found;
  }
  const auto& operators = known.metrics.operators;
  const auto versions = std::ranges::count(operators, name, &OperatorMetrics::name);
  for (const OperatorMetrics& op : operators) {
    if (op.name != name) continue;
    const std::string version = op.version == 0 ? "earlier versions" : "version " + std::to_string(op.version);
    add_operator(found, op, versions == 1 && op.version == 1 ? "" : version + ".");
  }
  if (found.values.empty()) return std::nullopt;
  return found;
}

bool is_structure(std::string_view name) { return std::ranges::count(kStructures, name, &Structure::first) != 0; }

std::string structure_names() {
  std::string names;
  for (const auto& [structure, add_all] : kStructures) names += (names.empty() ? "" : ", ") + std::string(structure);
  return names;
}

}  // namespace dwell::runtime
