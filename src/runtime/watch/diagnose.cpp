#include "runtime/watch/diagnose.hpp"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "runtime/device/sources.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {

namespace {

namespace flag = device::flag;
using Record = InFlightTasks::Record;

constexpr std::size_t kNone = ~std::size_t{0};

// The tasks in flight, in order, and their dependencies.
class Pending {
 public:
  struct Entry {
    RingView::Task task;
    std::vector<std::size_t> waits;  // indices in the list
    bool inner = false;              // internal: no ticket names it
  };

  explicit Pending(const RingView& ring) {
    const SubmissionQueue& queue = ring.queue();
    const std::uint64_t tail = queue.tail();
    std::size_t drain = kNone;     // the last
    std::size_t behind_drain = 0;  // the first task after it
    for (std::uint64_t position = queue.reaped(); position < tail; ++position) {
      if (queue.done(position)) continue;  // also for a task's slots after its first
      std::optional<RingView::Task> task = ring.at(position);
      // Complete before it was read, or not written yet.
      if (!task || queue.done(position)) continue;
      position += task->header.slots - 1;
      if (!source_of(task->header).is_task) continue;
      const std::size_t place = entries_.size();
      Entry entry{std::move(*task), {}, false};
      const device::Header& header = entry.task.header;
      entry.inner = header.groups == 0;
      if ((header.flags & flag::drain) != 0) {
        for (std::size_t before = behind_drain; before < place; ++before) entry.waits.push_back(before);
      }
      if (drain != kNone) entry.waits.push_back(drain);
      if ((header.flags & flag::drain) != 0) {
        drain = place;
        behind_drain = place + 1;
      }
      place_of_.emplace(entry.task.position, place);
      entries_.push_back(std::move(entry));
    }
    for (std::size_t place = 0; place < entries_.size(); ++place) {
      Entry& entry = entries_[place];
      std::vector<std::size_t> named;
      for (const std::uint64_t position : entry.task.waits)
        if (const std::size_t before = find(position); before != kNone) named.push_back(before);
      entry.waits.insert(entry.waits.end(), named.begin(), named.end());
      std::ranges::sort(entry.waits);
      entry.waits.erase(std::unique(entry.waits.begin(), entry.waits.end()), entry.waits.end());
    }
  }

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry& operator[](std::size_t place) const { return entries_[place]; }
  // Returns the index of the task at a position; kNone when it is not in flight.
  std::size_t find(std::uint64_t position) const {
    const auto at = place_of_.find(position);
    return at == place_of_.end() ? kNone : at->second;
  }
  // As above, by the low 32 bits of the position.
  std::size_t find_short(std::uint32_t position) const {
    if (entries_.empty()) return kNone;
    const std::uint64_t first = entries_.front().task.position;
    return find(first + static_cast<std::uint32_t>(position - static_cast<std::uint32_t>(first)));
  }
  void add(std::size_t from, std::size_t to) {
    if (std::ranges::find(entries_[from].waits, to) == entries_[from].waits.end()) entries_[from].waits.push_back(to);
  }

  // Returns the predecessors of this task that have tickets, and replaces internal ones by their predecessors. `gates` receives the
  // positions of internal ones without predecessors.
  std::vector<std::uint64_t> tickets_before(std::size_t place, std::vector<std::uint64_t>& gates) const {
    std::vector<std::uint64_t> positions;
    std::vector<std::size_t> open(entries_[place].waits);
    for (std::size_t i = 0; i < open.size(); ++i) {
      const Entry& before = entries_[open[i]];
      if (!before.inner) {
        positions.push_back(before.task.position);
        continue;
      }
      if (before.waits.empty()) gates.push_back(before.task.position);
      for (const std::size_t further : before.waits)
        if (std::ranges::find(open, further) == open.end()) open.push_back(further);
    }
    std::ranges::sort(positions);
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    return positions;
  }

  // Returns at most `most` cycles of tasks.
  std::vector<std::vector<std::uint64_t>> cycles(std::size_t most) const {
    enum class Seen : std::uint8_t { no, on_path, done };
    std::vector<std::vector<std::uint64_t>> all;
    std::vector<Seen> seen(entries_.size(), Seen::no);
    struct Step {
      std::size_t place;
      std::size_t next;  // of its waits
    };
    std::vector<Step> path;
    for (std::size_t start = 0; start < entries_.size() && all.size() < most; ++start) {
      if (seen[start] != Seen::no) continue;
      path.assign(1, {start, 0});
      seen[start] = Seen::on_path;
      while (!path.empty() && all.size() < most) {
        Step& step = path.back();
        if (step.next == entries_[step.place].waits.size()) {
          seen[step.place] = Seen::done;
          path.pop_back();
          continue;
        }
        const std::size_t next = entries_[step.place].waits[step.next++];
        if (seen[next] == Seen::on_path) {
          std::vector<std::uint64_t> cycle;
          const auto first = std::ranges::find(path, next, &Step::place);
          for (auto at = first; at != path.end(); ++at)
            if (!entries_[at->place].inner) cycle.push_back(entries_[at->place].task.position);
          all.push_back(std::move(cycle));
        } else if (seen[next] == Seen::no) {
          seen[next] = Seen::on_path;
          path.push_back({next, 0});
        }
      }
    }
    return all;
  }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::uint64_t, std::size_t> place_of_;
};

constexpr std::size_t kMostNamed = 6;

std::string listed(const std::vector<std::uint64_t>& positions, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(positions.size(), most); ++i) text += (i == 0 ? "" : ", ") + std::to_string(positions[i]);
  if (positions.size() > most) text += " and " + std::to_string(positions.size() - most) + " more";
  return (positions.size() == 1 ? "ticket " : "tickets ") + text;
}

class Describer {
 public:
  Describer(const RingView& ring, Pending& pending, const Circumstances& known) : ring_(ring), pending_(pending), known_(known) {
    for (const Record& record : known_.records) note(record);
    for (const Circumstances::Callback& callback : known_.callbacks) {
      const std::size_t place = pending_.find_short(callback.launch);
      if (place == kNone) continue;
      callbacks_[place].push_back(&callback);
      if (!callback.waits_for) continue;
      if (const std::size_t awaited = pending_.find(*callback.waits_for); awaited != kNone) pending_.add(place, awaited);
    }
  }

  std::uint32_t busy() const { return busy_; }

  TaskState describe(std::size_t place) const {
    const RingView::Task& task = pending_[place].task;
    const device::Header& header = task.header;
    TaskState state;
    state.position = task.position;
    state.graph = task.graph != 0;
    state.name = state.graph ? title_of(known_.graph_name_of(task.graph)) : known_.name_of(header.opcode);
    state.cancelled = (header.flags & flag::cancelled) != 0;
    state.groups = (header.flags & flag::wide) != 0 ? header.groups : 1;
    const auto noted = noted_.find(place);
    if (noted != noted_.end()) state.workers = noted->second;
    const bool gang = source_of(header).needs_all;
    // Waits after its begin: it holds no worker meanwhile, or its graph has running nodes.
    if (const auto calls = callbacks_.find(place); calls != callbacks_.end()) {
      for (const Circumstances::Callback* const call : calls->second) {
        state.named.push_back("node " + call->name +
                              (!call->begun      ? ", which has not begun"
                               : call->waits_for ? ", which waits for ticket " + std::to_string(*call->waits_for)
                                                 : ", which runs"));
        if (call->waits_for) state.waits_for.push_back(*call->waits_for);
      }
      state.doing = state.workers.empty() ? Doing::waits_for_host : Doing::runs;
      return state;
    }
    const auto turns = turns_.find(place);
    if (turns != turns_.end() && state.workers.empty()) {
      state.named = turns->second;
      return state;
    }
    if (!state.workers.empty()) {
      state.doing = gang && state.workers.size() < state.groups ? Doing::waits_for_gang : Doing::runs;
      return state;
    }
    std::vector<std::uint64_t> gates;
    state.waits_for = pending_.tickets_before(place, gates);
    for (const std::uint64_t gate : gates) {
      const auto launch = known_.gates.find(gate);
      state.named.push_back(launch != known_.gates.end() ? launch->second : "the launch of a kernel that has ended");
    }
    if (!state.waits_for.empty() || !state.named.empty())
      state.doing = state.waits_for.empty() ? Doing::waits_for_host : Doing::waits_to_start;
    else if (known_.parked)
      state.doing = Doing::parked;
    else
      state.doing = gang ? Doing::waits_for_gang : known_.proven ? Doing::lost : Doing::waits_to_run;
    return state;
  }

 private:
  void note(const Record& record) {
    if (record.over) return;
    std::size_t place = kNone;
    TaskState::OnWorker on{record.worker, "", record.since};
    if (record.kind == Record::Kind::task) {
      place = pending_.find(record.position);
    } else if (record.kind == Record::Kind::node) {
      const auto node = known_.node_at(record.offset);
      if (!node) return;
      const std::vector<std::size_t>& places = places_of(node->second);
      if (places.size() > 1) return note_turn(record, node->first, places);
      if (!places.empty()) place = places.front();
      on.node = node->first;
    }
    if (place == kNone) return;
    noted_[place].push_back(std::move(on));
    ++busy_;
  }

  // Returns the tasks that may own the running nodes of this exec.
  const std::vector<std::size_t>& places_of(std::uint64_t exec) {
    const auto [at, fresh] = owners_.try_emplace(exec);
    if (!fresh) return at->second;
    for (const RingView::Task& task : owners_of(exec, ring_, known_)) {
      const std::size_t place = pending_.find(task.position);
      if (place != kNone && pending_[place].waits.empty()) at->second.push_back(place);
    }
    return at->second;
  }
  // Records that a worker runs a node of one of these.
  void note_turn(const Record& record, const std::string& node, const std::vector<std::size_t>& places) {
    std::vector<std::uint64_t> positions;
    for (const std::size_t place : places) positions.push_back(pending_[place].task.position);
    const std::string text =
        "worker " + std::to_string(record.worker) + " is at or behind node " + node + ", for one of " + listed(positions, kMostNamed);
    for (const std::size_t place : places) turns_[place].push_back(text);
    ++busy_;
  }

  const RingView& ring_;
  Pending& pending_;
  const Circumstances& known_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> owners_;       // by the exec's offset
  std::unordered_map<std::size_t, std::vector<std::string>> turns_;          // running nodes that may be its own
  std::unordered_map<std::size_t, std::vector<TaskState::OnWorker>> noted_;  // workers that hold it
  std::unordered_map<std::size_t, std::vector<const Circumstances::Callback*>> callbacks_;
  std::uint32_t busy_ = 0;
};

std::string time_of(std::chrono::nanoseconds time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return ms < 10'000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s";
}

std::string sentence(const TaskState& task) {
  constexpr std::size_t kMost = kMostNamed;
  std::string text = "ticket " + std::to_string(task.position) + (task.graph ? " of " : " of operator ") + task.name;
  if (task.cancelled) text += " (cancelled)";
  std::string named;
  for (const std::string& one : task.named) named += (named.empty() ? "" : "; and for ") + one;
  switch (task.doing) {
    case Doing::runs: {
      text += " runs on";
      for (std::size_t i = 0; i < std::min(task.workers.size(), kMost); ++i) {
        const TaskState::OnWorker& on = task.workers[i];
        text += (i == 0 ? " worker " : ", worker ") + std::to_string(on.worker);
        if (!on.node.empty()) text += " (at or behind node " + on.node + ")";
        text += " for " + time_of(on.since);
      }
      if (task.workers.size() > kMost) text += ", and " + std::to_string(task.workers.size() - kMost) + " more";
      return named.empty() ? text : text + ", and waits for " + named;
    }
    case Doing::waits_to_start:
    case Doing::waits_for_host:
      text += " waits for ";
      // A callback's text already names the task it waits for.
      if (task.doing == Doing::waits_to_start) text += listed(task.waits_for, kMost) + (named.empty() ? "" : ", and for ");
      return text + named;
    case Doing::waits_for_gang:
      text += ", a gang, waits for " + std::to_string(task.groups) + " free workers at once";
      return task.workers.empty() ? text : text + "; " + std::to_string(task.workers.size()) + " have joined";
    case Doing::waits_to_run:
      text += " waits for a free worker, or for what it has made";
      return named.empty() ? text : text + ", or for its turn with a graph: " + named;
    case Doing::parked: return text + " waits for `resume`";
    case Doing::lost: return text + " could run, and no worker runs it, or anything that it has made: something of it is lost";
  }
  return text;
}

std::string circle(const std::vector<std::uint64_t>& cycle) {
  if (cycle.empty()) return {};  // from another process
  std::string text;
  for (const std::uint64_t position : cycle) text += "ticket " + std::to_string(position) + " waits for ";
  return text + "ticket " + std::to_string(cycle.front());
}

}  // namespace

std::vector<RingView::Task> owners_of(std::uint64_t exec, const RingView& ring, const Circumstances& known) {
  std::vector<std::uint64_t> positions = known.users(exec);
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  std::vector<RingView::Task> owners;
  const SubmissionQueue& queue = ring.queue();
  for (const std::uint64_t position : positions) {
    if (queue.done(position)) continue;
    std::optional<RingView::Task> task = ring.at(position);
    // A launch with no group runs no node.
    if (!task || queue.done(position) || task->header.groups == 0) continue;
    if (std::ranges::all_of(task->waits, [&](std::uint64_t before) { return queue.done(before); })) owners.push_back(std::move(*task));
  }
  return owners;
}

Diagnosis diagnose(const RingView& ring, const Circumstances& known) {
  Pending pending(ring);
  const Describer describer(ring, pending, known);
  Diagnosis diagnosis;
  for (std::size_t place = 0; place < pending.entries().size(); ++place) {
    if (pending[place].inner) continue;
    if (++diagnosis.total <= Diagnosis::kMost) diagnosis.tasks.push_back(describer.describe(place));
  }
  constexpr std::size_t kMostCycles = 4;
  diagnosis.cycles = pending.cycles(kMostCycles);
  std::erase_if(diagnosis.cycles, [](const auto& cycle) { return cycle.empty(); });
  diagnosis.workers = known.workers;
  diagnosis.busy = describer.busy();
  diagnosis.parked = known.parked;
  diagnosis.stalled = known.proven;
  return diagnosis;
}

std::string in_short(const Diagnosis& diagnosis) {
  constexpr std::size_t kMost = 3;
  std::string text;
  if (!diagnosis.cycles.empty()) text = "a circle: " + circle(diagnosis.cycles.front());
  for (std::size_t i = 0; i < std::min(diagnosis.tasks.size(), kMost); ++i)
    text += (text.empty() ? "" : "; ") + sentence(diagnosis.tasks[i]);
  if (diagnosis.total > kMost) text += "; and " + std::to_string(diagnosis.total - kMost) + " more";
  return text;
}

}  // namespace dwell::runtime

namespace dwell {

std::string to_string(const Diagnosis& diagnosis) {
  std::string text = std::to_string(diagnosis.total) + (diagnosis.total == 1 ? " task is" : " tasks are") + " not complete; " +
                     std::to_string(diagnosis.busy) + " of " + std::to_string(diagnosis.workers) + " workers run tasks of theirs";
  if (diagnosis.parked) text += "; the runtime is parked";
  if (diagnosis.stalled) text += "; nothing moves";
  text += '\n';
  for (const auto& cycle : diagnosis.cycles) text += "circle: " + runtime::circle(cycle) + "\n";
  for (const TaskState& task : diagnosis.tasks) text += runtime::sentence(task) + "\n";
  if (diagnosis.total > diagnosis.tasks.size()) text += "and " + std::to_string(diagnosis.total - diagnosis.tasks.size()) + " more\n";
  return text;
}

}  // namespace dwell
