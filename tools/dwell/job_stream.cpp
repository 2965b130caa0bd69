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

// Redefines the operator of the job's swap in its own thread.
class Swap {
 public:
  Swap(Runtime& runtime, Operator<>& op, const Source& source) : runtime_(runtime), op_(op), source_(source) {}

  void start(std::uint64_t submitted) {
    submitted_ = submitted;
    redefined_ = std::async(std::launch::async, [this] {
      const Clock::time_point start = Clock::now();
      op_.redefine(source_);
      figures_.took = Clock::now() - start;
      figures_.pause = std::chrono::nanoseconds(runtime_.metrics().last_hand_over_ns);
    });
  }
  bool started() const { return redefined_.valid() || made_; }
  bool ready() const { return made_ || (redefined_.valid() && redefined_.wait_for(std::chrono::seconds(0)) == std::future_status::ready); }
  // Waits for the end; call once, after start(). `submitted`: the number of tasks so far. Throws what redefine throws.
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

// "a, b and 12 more"
std::string enumerate_few(std::vector<std::string> names) {
  constexpr std::size_t kFew = 8;
  if (names.size() > kFew) {
    const std::string more = std::to_string(names.size() - kFew) + " more";
    names.resize(kFew);
    names.push_back(more);
  }
  return enumerate(names);
}

class Stream {
 public:
  // With `clock`, runs tasks one by one, each between two readings, after the swap.
  Stream(Runtime& runtime, const Job& job, PreparedJob& prepared, const std::function<void(std::uint64_t)>& progress,
         DeviceClock* clock = nullptr)
      : runtime_(runtime),
        job_(job),
        prepared_(prepared),
        progress_(progress),
        clock_(clock),
        ran_(job.tasks.size()),
        flight_(kMostInFlight, [this](const auto& entry, auto seen) { report(entry, seen); }) {
    if (job.swap && clock == nullptr) swap_.emplace(runtime, prepared.operators[job.swap->operator_index], *prepared.swap_source);
  }

  StreamFigures run() {
    const Clock::time_point start = Clock::now();
    submit_all();
    while (flight_.size() != 0) wait();
    if (!failures_.empty()) throw failure();
    if (swap_ && swap_->started()) finish_swap();
    return figures(start);
  }

 private:
  // Checking for progress, or for the end of the swap, costs more than a task.
  static constexpr std::uint64_t kLookEvery = 64;
  static constexpr std::size_t kMostTickets = 16;  // tickets that one task may wait for

  // The submitted repetitions of a task, by their numbers in the flight.
  struct Ran {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::optional<Ticket> failed;  // or cancelled
  };

  struct Seen {
    Latencies latencies;
    Clock::time_point first;
    Clock::time_point last;
  };

  struct FailedTask {
    std::size_t task;
    std::string message;
    bool cancelled;
  };

  void submit_all() {
    for (std::size_t task = 0; task < job_.tasks.size() && !stopped_; ++task) {
      if (clock_ != nullptr) clock_->submit(task);
      submit_repetitions(task);
    }
    if (clock_ != nullptr && !stopped_) clock_->submit(job_.tasks.size());
  }

  void submit_repetitions(std::size_t index) {
    const JobTask& task = job_.tasks[index];
    const bool waits = task.after && clock_ == nullptr;
    std::vector<Ticket> before;
    if (waits) before = tickets_before(task);

    Arguments first = prepared_.arguments[index];
    if (task.drain) first.add(drain);
    Arguments next = first;
    if (task.link) next.add(link);
    if (task.hard_link) next.add(hard_link);

    Ran& ran = ran_[index];
    ran.first = ran.end = in_flight_;
    for (std::uint64_t repetition = 0; repetition < task.repeat && !ran.failed && !stopped_; ++repetition) {
      if (swap_ && failures_.empty()) mind_swap();
      // A link to the previous repetition is enough: it is cancelled with that.
      const bool names_tickets = waits && !before.empty() && (repetition == 0 || !task.link);
      const Arguments& ordered = repetition == 0 && task.after ? first : next;
      if (names_tickets) {
        before.erase(std::remove_if(before.begin(), before.end(), has_succeeded), before.end());
        Arguments late = ordered;
        submit(index, repetition, late.add(after(before)));
      } else {
        submit(index, repetition, ordered);
      }
      ran.end = in_flight_;
      if (++submitted_ % kLookEvery == 0) progress_(reported_);
    }
  }

  static bool has_succeeded(const Ticket& ticket) { return ticket.done() && ticket.status() == 0; }

  // Returns the predecessors in `after` that have failed or may still fail. Waits for some while there are too many for one task.
  std::vector<Ticket> tickets_before(const JobTask& task) {
    for (;;) {
      std::vector<Ticket> tickets;
      for (const std::size_t before : *task.after) {
        const Ran& ran = ran_[before];
        if (ran.failed) return {*ran.failed};
        // The last of linked repetitions represents all.
        std::uint64_t at = std::max(job_.tasks[before].link && ran.end != 0 ? ran.end - 1 : ran.first, reported_);
        for (; at < ran.end; ++at) {
          const Ticket& ticket = flight_[at - reported_].ticket;
          if (!has_succeeded(ticket)) tickets.push_back(ticket);
        }
      }
      if (tickets.size() <= kMostTickets) return tickets;
      wait();
    }
  }

  void submit(std::size_t task, std::uint64_t repetition, const Arguments& arguments) {
    const Operator<>& op = prepared_.operators[job_.tasks[task].operator_index];
    const std::uint32_t version = swap_ ? op.version() : 1;
    const Clock::time_point start = Clock::now();
    try {
      const Ticket ticket = runtime_.submit(op, arguments);
      ++in_flight_;
      flight_.add(ticket, start, Note{task, repetition, version});
    } catch (const Error& error) {
      fail(task, repetition, Ticket(), error);
      stopped_ = true;  // nothing can be submitted after this
    }
  }

  void wait() {
    flight_.wait();
    progress_(reported_);
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
    while (!swap_->ready()) wait();
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
    ++reported_;
    last_seen_ = seen;
    const Note& note = entry.note;
    if (entry.ticket.status() != 0) {
      try {
        entry.ticket.wait();
      } catch (const Error& error) {
        fail(note.task, note.repetition, entry.ticket, error);
      }
      return;
    }
    Seen& seen_of = versions_[{job_.tasks[note.task].operator_index, note.version}];
    if (seen_of.latencies.count() == 0) seen_of.first = entry.submitted;
    seen_of.last = seen;
    seen_of.latencies.add(seen - entry.submitted);
  }

  void fail(std::size_t task, std::uint64_t repetition, const Ticket& ticket, const Error& error) {
    if (ran_[task].failed) return;
    ran_[task].failed = ticket;
    const JobTask& failed = job_.tasks[task];
    std::string which = failed.title() + " (" + job_.operators[failed.operator_index].name;
    if (failed.repeat > 1) which += ", repetition " + std::to_string(repetition + 1) + " of " + std::to_string(failed.repeat);
    if (clock_ != nullptr) which += ", in the second run for the critical path";
    failures_.push_back({task, which + "): " + error.message(), error.kind() == errc::cancelled});
  }

  // Returns the failure at the first failed task; its message lists the others. No task is reported before one that it waits for.
  Failure failure() const {
    std::vector<std::string> failed;
    std::vector<std::string> cancelled;
    for (std::size_t i = 1; i < failures_.size(); ++i)
      (failures_[i].cancelled ? cancelled : failed).push_back(job_.tasks[failures_[i].task].title());
    std::string text = failures_.front().message;
    if (!failed.empty()) text += "; failed too: " + enumerate_few(std::move(failed));
    if (!cancelled.empty()) text += "; cancelled: " + enumerate_few(std::move(cancelled));
    return failure_at(job_.tasks[failures_.front().task].place, text, Exit::failed);
  }

  StreamFigures figures(Clock::time_point start) {
    StreamFigures result;
    result.took = last_seen_ - start;
    if (swap_) {
      result.swap = swap_->figures();
      versions_[{job_.swap->operator_index, 2}];  // adds a row, even if no task ran this version
    }
    for (auto& [key, seen] : versions_)
      result.versions.push_back({key.first, key.second, std::move(seen.latencies), seen.last - seen.first});
    return result;
  }

  Runtime& runtime_;
  const Job& job_;
  PreparedJob& prepared_;
  const std::function<void(std::uint64_t)>& progress_;
  DeviceClock* clock_;
  std::map<std::pair<std::size_t, std::uint32_t>, Seen> versions_;
  std::vector<Ran> ran_;  // by task
  std::vector<FailedTask> failures_;
  std::uint64_t submitted_ = 0;
  std::uint64_t in_flight_ = 0;  // number of tasks put into the flight
  std::uint64_t reported_ = 0;   // number of tasks that have left it
  Clock::time_point last_seen_;
  bool stopped_ = false;
  std::optional<Swap> swap_;
  JobFlight flight_;
};

}  // namespace

StreamFigures run_stream(Runtime& runtime, const Job& job, PreparedJob& prepared, const std::function<void(std::uint64_t)>& progress) {
  return Stream(runtime, job, prepared, progress).run();
}

DeviceClock::DeviceClock(Runtime& runtime, std::size_t readings)
    : runtime_(runtime),
      read_(runtime.define<void(Span<std::uint64_t>, std::uint32_t)>("dwell_run_read_clock", R"(
DWELL_OPERATOR(dwell_run_read_clock)(dwell::Group g, dwell::Span<dwell::u64> times, dwell::u32 index) {
  if (g.rank() == 0) times[index] = dwell::device::now_ns();
})")),
      times_(runtime.allocate<std::uint64_t>(readings)) {
  runtime.submit(read_, times_, 0U);
  runtime.submit(read_, times_, 0U, link).wait();
}

Ticket DeviceClock::submit(std::size_t index) { return runtime_.submit(read_, times_, static_cast<std::uint32_t>(index), drain); }

std::vector<std::chrono::nanoseconds> DeviceClock::intervals() const {
  std::vector<std::uint64_t> times(times_.size());
  times_.read(times);
  std::vector<std::chrono::nanoseconds> intervals;
  for (std::size_t i = 1; i < times.size(); ++i) intervals.emplace_back(times[i] - times[i - 1]);
  return intervals;
}

std::vector<std::chrono::nanoseconds> time_tasks(Runtime& runtime, const Job& job, PreparedJob& prepared, DeviceClock& clock,
                                                 const std::function<void(std::uint64_t)>& progress) {
  Stream(runtime, job, prepared, progress, &clock).run();
  runtime.wait_all();  // also for the last reading
  return clock.intervals();
}

}  // namespace dwell::tool
