#include "runtime/watch/runtime_watch.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/caught.hpp"
#include "runtime/device/sources.hpp"

namespace dwell::runtime {

namespace {

namespace flag = device::flag;
using Record = InFlightTasks::Record;

void mix(std::uint64_t& digest, std::uint64_t value) { digest = (digest ^ value) * 0x100000001B3ULL; }

}  // namespace

RuntimeWatch::RuntimeWatch(Parts parts, std::chrono::nanoseconds timeout)
    : parts_(std::move(parts)),
      timeout_(timeout),
      patience_(std::min<std::chrono::nanoseconds>(std::chrono::seconds(2), std::chrono::milliseconds(200) + 10 * parts_.lease_time)) {
  Watched& mine = *this;
  if (timeout_.count() != 0) watchdog_ = std::make_unique<Watchdog>(mine, timeout_);
}

// ---- The diagnosis ---------------------------------------------------------------------------------------------------------------

Circumstances RuntimeWatch::circumstances(bool proven) const {
  Circumstances known;
  parts_.keeper.in_flight().look();
  known.records = parts_.keeper.in_flight().records(parts_.keeper.workers());
  for (HostCalls::Open& call : parts_.host_calls.open())
    known.callbacks.push_back({call.launch, std::move(call.name), call.begun, call.waits_for, call.since});
  for (const auto& [position, launch] : parts_.gates.closed()) {
    const std::string kernel = parts_.launches.kernel_of(launch);
    known.gates.emplace(position,
                        "launch " + std::to_string(launch) + (kernel.empty() ? " of a kernel, which has ended" : " of kernel " + kernel));
  }
  known.workers = parts_.keeper.workers();
  known.parked = parts_.keeper.parked();
  known.proven = proven;
  known.name_of = [this](std::uint32_t opcode) { return parts_.registry.table().name_of(opcode); };
  known.node_at = [this](std::uint64_t offset) -> std::optional<std::pair<std::string, std::uint64_t>> {
    std::uint64_t base = 0;
    const auto [exec, cell] = parts_.graphs.find(offset, &base);
    if (exec == nullptr) return std::nullopt;
    return std::pair(exec->node_at(cell), base);
  };
  known.graph_name_of = [this](std::uint64_t exec) { return parts_.graphs.name_of(exec); };
  known.users = [this](std::uint64_t exec) { return parts_.graphs.users(exec); };
  return known;
}

Diagnosis RuntimeWatch::diagnose(bool proven) const { return runtime::diagnose(parts_.ring, circumstances(proven)); }

// ---- The watchdog's view ------------------------------------------------------------------------------------------------------

std::uint64_t RuntimeWatch::digest_of_records() const {
  const std::vector<Record> records = parts_.keeper.in_flight().records(parts_.keeper.workers());
  // Workers that join a gang repeatedly dequeue its shares until all have joined: that is no progress.
  std::map<std::uint64_t, std::uint32_t> joined;
  for (const Record& record : records)
    if (record.kind == Record::Kind::task && !record.over) ++joined[record.position];
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  for (const Record& record : records) {
    if ((record.word & device::InFlight::kOver) != 0) continue;
    if (record.kind == Record::Kind::task && !record.over) {
      const auto header = parts_.ring.header_at(record.position);
      if (header && source_of(*header).needs_all && joined[record.position] < header->groups) continue;
    }
    mix(digest, record.worker);
    mix(digest, record.word);
  }
  return digest;
}

bool RuntimeWatch::waits_for_others() const {
  if (parts_.keeper.failed() || parts_.keeper.parked()) return true;
  for (const auto& [position, launch] : parts_.gates.closed())
    if (!parts_.launches.done(launch)) return true;
  // A callback that waits for this runtime makes no progress itself.
  return std::ranges::any_of(parts_.host_calls.open(), [](const HostCalls::Open& call) { return call.begun && !call.waits_for; });
}

Watched::Look RuntimeWatch::look() {
  Look look{!parts_.queue.reap(), false, 0, parts_.queue.tail()};
  if (!look.pending) return look;
  look.excused = waits_for_others();
  std::uint64_t first = 0;  // the first incomplete task, plus 1
  std::uint64_t ended = 0;  // ended tasks after that one
  for (std::uint64_t position = parts_.queue.reaped(); position < look.tail;) {
    const bool done = parts_.queue.done(position);
    const auto header = parts_.ring.header_at(position);
    // A submitter is writing it, or has unused places.
    if (!header && !done) look.excused = true;
    // Skipped entries are no tasks: among them are the watchdog's own requests.
    if (header && source_of(*header).is_task) {
      if (!done && first == 0) first = position + 1;
      if (done && first != 0) ++ended;
    }
    position += header ? header->slots : 1;
  }
  look.pending = first != 0;
  look.progress = digest_of_records();
  mix(look.progress, first);
  mix(look.progress, ended);
  return look;
}

std::optional<std::uint64_t> RuntimeWatch::settle() {
  std::uint64_t progress = 0;
  const bool empty = parts_.keeper.pause(patience_, [&] {
    parts_.keeper.in_flight().mark_over();
    settled_at_ = parts_.keeper.begun();
    progress = look().progress;  // before a worker starts a task
  });
  return empty ? std::optional(progress) : std::nullopt;
}

bool RuntimeWatch::has_resumed() { return device::is_after(parts_.keeper.begun(), settled_at_); }

bool RuntimeWatch::has_passed() { return has_resumed() && parts_.keeper.outlast_tasks(patience_); }

Error RuntimeWatch::verdict() {
  const Diagnosis found = diagnose(true);
  const std::string what =
      std::to_string(found.total) + (found.total == 1 ? " task is" : " tasks are") + " not complete: " + in_short(found);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
  const std::string text = "nothing has moved for " + std::to_string(ms) + " ms (the option stall_timeout), and " + what;
  if (parts_.warn) static_cast<void>(failure_of(errc::invalid_argument, [&] { parts_.warn("dwell: the runtime has stalled: " + text); }));
  ErrorFields fields;
  fields.what = "task";
  if (!found.tasks.empty()) {
    fields.which = found.tasks.front().name;
    fields.value = found.tasks.front().position;
  }
  return Error(
      errc::stalled,
      text + ". `diagnose` tells more; `cancel` ends tasks that wait for others, and closing the runtime now (`close`) all that are left",
      fields);
}

void RuntimeWatch::check_slowly(std::uint64_t position) const {
  if (const std::optional<Error> error = watchdog_->verdict_on(position)) throw Error(*error);
}

}  // namespace dwell::runtime
