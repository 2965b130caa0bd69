#include "job_stream.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <utility>

#include "flight.hpp"

namespace dwell::tool {

namespace {

using Clock = std::chrono::steady_clock;

struct Note {
  std::size_t task;
  std::uint64_t repetition;
  std::uint32_t version;
};
using JobFlight = Flight<Note>;

// Redefines the operator of the job's swap in a thread of its own.
class Swap {
 public:
  Swap(Runtime& runtime, Operator<>& op, const Source& source) : runtime_(runtime), op_(op), source_(source) {}

  void start(std::uint64_t submitted) {
    submitted_ = submitted;
    redefined_ = std::async(std::launch::async, [this] {
      const Clock::time_point start = Clock::now();
      op_.redefine(source_);
      figures_.took = Clock::now() - start;
      figures_.pause = runtime_.info().last_hand_over;
    });
  }
  bool started() const { return redefined_.valid() || made_; }
  bool ready() const { return made_ || (redefined_.valid() && redefined_.wait_for(std::chrono::seconds(0)) == std::future_status::ready); }
  // Once, after start(): waits for the end. `submitted` is the number of tasks so far. Throws what redefine throws.
  void finish(std::uint64_t submitted) {
    if (made_) return;
    redefined_.get();
    made_ = true;
    figures_.submitted_meanwhile = submitted - submitted_;
  }
  bool made() const { return made_; }
  const SwapFigures& figures() const { return figures_; }

 private:
  Runtime& runtime_;
  Operator<>& op_;
  const Source& source_;
  std::future<void> redefined_;  // its destructor waits for the thread
  bool made_ = false;
  std::uint64_t submitted_ = 0;
  SwapFigures figures_;
};

class Stream {
 public:
  Stream(Runtime& runtime, const Job& job, PreparedJob& prepared, const std::function<void(std::uint64_t)>& progress)
      : runtime_(runtime),
        job_(job),
        prepared_(prepared),
        progress_(progress),
        flight_(kMostInFlight, [this](const auto& entry, auto seen) { report(entry, seen); }) {
    if (job.swap) swap_.emplace(runtime, prepared.operators[job.swap->operator_index], *prepared.swap_source);
  }

  StreamFigures run() {
    submit_all();
    while (flight_.size() != 0) {
      flight_.wait();
      progress_(complete_);
    }
    if (failure_) throw Failure(*failure_);
    if (swap_ && swap_->started()) finish_swap();
    return figures();
  }

 private:
  // Looking whether it is time for progress, or whether the swap is made, costs more than a task.
  static constexpr std::uint64_t kLookEvery = 64;

  void submit_all() {
    for (std::size_t task = 0; task < job_.tasks.size(); ++task) {
      for (std::uint64_t repetition = 0; repetition < job_.tasks[task].repeat; ++repetition) {
        if (failure_) return;
        if (swap_) mind_swap();
        submit(task, repetition);
        if (++submitted_ % kLookEvery == 0) progress_(complete_);
      }
    }
  }

  void submit(std::size_t task, std::uint64_t repetition) {
    const Operator<>& op = prepared_.operators[job_.tasks[task].operator_index];
    const std::uint32_t version = swap_ ? op.version() : 1;
    const Clock::time_point start = Clock::now();
    try {
      const Ticket ticket = runtime_.submit(op, prepared_.arguments[task]);
      flight_.add(ticket, start, Note{task, repetition, version});
    } catch (const Error& error) {
      fail(task, repetition, error);
    }
  }

  void mind_swap() {
    if (swap_->made()) return;
    if (!swap_->started()) {
      if (submitted_ < job_.swap->after) return;
      swap_->start(submitted_);
    }
    const std::uint64_t kept = (job_.total_tasks() - job_.swap->after + 1) / 2;
    const bool must_wait = job_.total_tasks() - submitted_ <= kept;
    if (!must_wait && (submitted_ % kLookEvery != 0 || !swap_->ready())) return;
    while (!swap_->ready()) {
      flight_.wait();
      progress_(complete_);
    }
    finish_swap();
  }

  void finish_swap() {
    try {
      swap_->finish(submitted_);
    } catch (const Error& error) {
      throw failure_at(job_.swap->place, error.message());
    }
  }

  void report(const JobFlight::Entry& entry, Clock::time_point seen) {
    ++complete_;
    const Note& note = entry.note;
    if (entry.ticket.status() != 0) {
      try {
        entry.ticket.wait();
      } catch (const Error& error) {
        fail(note.task, note.repetition, error);
      }
      return;
    }
    Seen& seen_of = versions_[{job_.tasks[note.task].operator_index, note.version}];
    if (seen_of.latencies.count() == 0) seen_of.first = entry.submitted;
    seen_of.last = seen;
    seen_of.latencies.add(seen - entry.submitted);
  }

  void fail(std::size_t task, std::uint64_t repetition, const Error& error) {
    if (failure_) return;
    const JobTask& failed = job_.tasks[task];
    std::string which = "task " + std::to_string(task + 1) + " (" + job_.operators[failed.operator_index].name;
    if (failed.repeat > 1) which += ", repetition " + std::to_string(repetition + 1) + " of " + std::to_string(failed.repeat);
    failure_ = failure_at(failed.place, which + "): " + error.message(), Exit::failed);
  }

  StreamFigures figures() {
    StreamFigures result;
    if (swap_) {
      result.swap = swap_->figures();
      versions_[{job_.swap->operator_index, 2}];  // a row, also when no task was left for it
    }
    for (auto& [key, seen] : versions_)
      result.versions.push_back({key.first, key.second, std::move(seen.latencies), seen.last - seen.first});
    return result;
  }

  struct Seen {
    Latencies latencies;
    Clock::time_point first;
    Clock::time_point last;
  };

  Runtime& runtime_;
  const Job& job_;
  PreparedJob& prepared_;
  const std::function<void(std::uint64_t)>& progress_;
  std::map<std::pair<std::size_t, std::uint32_t>, Seen> versions_;
  std::uint64_t submitted_ = 0;
  std::uint64_t complete_ = 0;
  std::optional<Failure> failure_;
  std::optional<Swap> swap_;
  JobFlight flight_;
};

}  // namespace

StreamFigures run_stream(Runtime& runtime, const Job& job, PreparedJob& prepared, const std::function<void(std::uint64_t)>& progress) {
  return Stream(runtime, job, prepared, progress).run();
}

}  // namespace dwell::tool
