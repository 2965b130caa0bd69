// Jobs on a runtime: admission control for many launches of graphs, by type, priority, workers and memory.
//
//   Orchestrator jobs(runtime, {.memory = 1 << 30});
//   const JobType resize = jobs.define("resize", std::move(graph), {.need = {.workers = 4, .memory = 8 << 20}, .limits = {.at_once =
//   100}}); Job job = jobs.submit(resize, JobArguments().set(load, 0, input).set(store, 0, output)); job.wait();
//
// A job is one launch of the graph of its type. It waits on the host until it is *admitted*: until its declared resources fit the limits of
// its type and those of all types. docs/orchestration.md says which job is next. Not part of dwell.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/graph.hpp>
#include <dwell/runtime.hpp>

namespace dwell {

class Orchestrator;

// Declared resources of a job, from its admission to its end; used for admission, not measured.
struct JobNeed {
  // Workers that it keeps busy at once: for most graphs its width. 0: no workers count.
  std::uint32_t workers = 1;
  // Bytes of device memory that it uses. The graph's own memory is added.
  std::uint64_t memory = 0;
};

// Bounds of one type of jobs. 0: no bound.
struct JobLimits {
  std::uint32_t workers = 0;      // of its admitted jobs together
  std::uint64_t memory = 0;       // bytes, of its admitted jobs together
  std::uint32_t at_once = 1024;   // admitted jobs; also bounds the kept execs of the graph
  std::uint32_t waiting = 65536;  // jobs that wait for admission; beyond it submit throws, try_submit returns nothing
};

// How jobs of a type are treated.
struct JobOptions {
  // From 0, the least urgent, to 7. Jobs of a higher priority are admitted first. With Options::priorities, launches have it too.
  std::uint32_t priority = 3;
  // The share of workers and memory, relative to other types of the same priority, while these are scarce. At least 1.
  std::uint32_t weight = 1;
  // The default for jobs without JobArguments::need.
  JobNeed need = {};
  JobLimits limits = {};
};

// Bounds of all types together.
struct OrchestratorOptions {
  // Bound on the workers of all admitted jobs. More than the device has: jobs queue on the device, so that no worker is idle between two of
  // them. 0: as many as the device has.
  std::uint32_t workers = 0;
  // Bound on the bytes of device memory of all admitted jobs and kept execs. 0: the device's memory.
  std::uint64_t memory = 0;
};

// waiting → admitted → done, failed or cancelled; waiting → failed or cancelled.
enum class JobState : std::uint8_t { waiting, admitted, done, failed, cancelled };

// "waiting", "admitted", ...
std::string_view text_of(JobState state) noexcept;

namespace detail {

struct JobRecord;
struct JobTypeRecord;
struct OrchestratorState;

// The arguments of a job.
struct JobValues {
  struct Place {
    Node node;
    std::uint32_t index;
    bool operator==(const Place&) const noexcept = default;
  };
  std::vector<Place> places;
  std::vector<std::function<void(GraphExec&)>> set;  // by places
  std::vector<std::shared_ptr<void>> kept;
  std::optional<JobNeed> need;
};

}  // namespace detail

// The parameters of one job: arguments of its graph, and its resources.
class JobArguments {
 public:
  // Sets an argument for this job, as GraphExec::set. Others keep their value in the graph of the type. A buffer must live until the job
  // has ended (see `keep`). A value that does not fit fails the job when it is admitted.
  template <class T>
  JobArguments& set(const Node& node, std::uint32_t index, const T& value) & {
    values_.places.push_back({node, index});
    if constexpr (requires { value.slice(); })
      values_.set.emplace_back([node, index, slice = value.slice()](GraphExec& exec) { exec.set(node, index, slice); });
    else
      values_.set.emplace_back([node, index, value](GraphExec& exec) { exec.set(node, index, value); });
    return *this;
  }
  template <class T>
  JobArguments&& set(const Node& node, std::uint32_t index, const T& value) && {
    return std::move(set(node, index, value));
  }
  // Overrides JobOptions::need.
  JobArguments& need(const JobNeed& need) & {
    values_.need = need;
    return *this;
  }
  JobArguments&& need(const JobNeed& need) && { return std::move(this->need(need)); }
  // Keeps an object, such as the job's buffers, until the job has ended. The thread that detects the end drops it; its deleter must not use
  // the orchestrator.
  JobArguments& keep(std::shared_ptr<void> what) & {
    values_.kept.push_back(std::move(what));
    return *this;
  }
  JobArguments&& keep(std::shared_ptr<void> what) && { return std::move(keep(std::move(what))); }

 private:
  friend class Orchestrator;
  detail::JobValues values_;
};

// Names a type of jobs of one orchestrator. A small value; may be empty.
class JobType {
 public:
  JobType() = default;
  const std::string& name() const;
  // Returns the bytes of device memory of the graph itself, for each admitted job.
  std::size_t bytes() const;

 private:
  friend class Orchestrator;
  explicit JobType(std::shared_ptr<detail::JobTypeRecord> record) : record_(std::move(record)) {}
  std::shared_ptr<detail::JobTypeRecord> record_;
};

// Names one submitted job. A small value that may be copied, kept and dropped freely, also after the orchestrator is gone. All members may
// be called from any thread. Those of an empty one throw errc::invalid_argument.
class Job {
 public:
  Job() = default;

  JobState state() const;
  bool done() const { return state() >= JobState::done; }

  // Returns once the job has ended and its effects are visible to this thread. Throws as Ticket::wait of its launch. Throws for a job that
  // was never launched: errc::cancelled (cancel, Orchestrator::close), or the error of Runtime::instantiate, GraphExec::set or
  // Runtime::launch (among them errc::closed, errc::device_lost, errc::task_timeout and errc::stale_handle, when the runtime was closed,
  // has failed, or was rebuilt).
  void wait() const;
  // As wait, but gives up after `timeout`: returns whether the job has ended. The job goes on.
  bool wait_for(std::chrono::nanoseconds timeout) const;
  // Returns the error that `wait` would throw; nothing for a job that has succeeded or has not ended.
  std::optional<Error> error() const;

  // Cancels the job. A waiting job ends at once. An admitted job is cancelled by Runtime::cancel of its launch: it ends when its turn
  // comes, and may still succeed if it has begun. Returns false if it has ended already. Throws as Runtime::cancel.
  bool cancel() const;

  // Calls `f` once, with this job, when it has ended: on the runtime's callback thread (Ticket::then says what `f` may do), or on the
  // thread that cancels a waiting job. If the job has ended already, calls `f` at once on the calling thread. Callbacks of one job are
  // called in the order of these calls. Throws std::bad_alloc; then `f` is not called.
  void then(std::function<void(const Job&)> f) const;

 private:
  friend class Orchestrator;
  friend struct detail::OrchestratorState;
  explicit Job(std::shared_ptr<detail::JobRecord> record) : record_(std::move(record)) {}
  std::shared_ptr<detail::JobRecord> record_;
};

// Times of the jobs of one type. Quantiles are at most 6 % too high.
struct JobTimes {
  std::uint64_t count = 0;
  std::chrono::nanoseconds mean{0};
  std::chrono::nanoseconds p50{0};
  std::chrono::nanoseconds p99{0};
  std::chrono::nanoseconds most{0};
};

// Counts of the jobs of one type. A snapshot.
struct JobStatistics {
  std::string type;
  std::uint64_t submitted = 0;  // = waiting + admitted + done + failed + cancelled
  std::uint64_t refused = 0;    // by submit: not counted above
  std::uint64_t waiting = 0;
  std::uint64_t admitted = 0;  // in flight
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t workers = 0;  // that its admitted jobs need
  std::uint64_t memory = 0;   // needed by its admitted jobs, with their graphs
  std::uint64_t most_admitted = 0;
  std::uint64_t most_workers = 0;
  std::uint64_t most_memory = 0;
  std::uint64_t out_of_memory = 0;  // times that a job was requeued for lack of device memory for its graph
  std::size_t execs = 0;            // execs of its graph, those in use included
  std::uint64_t idle_memory = 0;    // memory of execs that no job uses
  JobTimes waited;                  // from submit to admission, for launched jobs
  JobTimes ran;                     // from admission to the end
};

struct OrchestratorStatistics {
  std::vector<JobStatistics> types;  // in the order of their definition
  std::uint64_t workers = 0;         // that admitted jobs need
  std::uint64_t memory = 0;
  std::uint64_t worker_limit = 0;
  std::uint64_t memory_limit = 0;  // 0: none

  // Formats a line per type, for people.
  std::string table() const;
};

// Admits jobs to a runtime. Has no thread: the submitting thread launches a job or, if it had to wait, the runtime's callback thread when
// another job ends. All members may be called from any thread, except that close (and the destructor) must not overlap other calls on the
// same object; jobs may still be used meanwhile. Runtime::close and rebuild must not overlap calls of submit, define, cancel and trim.
class Orchestrator {
 public:
  // `runtime` must outlive the orchestrator, at the same address. Throws errc::closed.
  explicit Orchestrator(Runtime& runtime, const OrchestratorOptions& options = {});
  // Calls close(Close::when_done). In a callback of a job or of the runtime it does not wait: waiting jobs are cancelled, admitted ones end
  // by themselves.
  ~Orchestrator();
  Orchestrator(const Orchestrator&) = delete;
  Orchestrator& operator=(const Orchestrator&) = delete;

  // Defines a type of jobs that launch `graph`. Instantiates it once, to check it and to learn its memory. Jobs admitted at the same time
  // have an exec each; execs are reused for later jobs. Nodes of the graph stay valid as long as the orchestrator. Its buffers must live as
  // long as jobs of the type. Throws errc::invalid_argument (the name exists or is empty, a priority above 7, weight 0, a limit that admits
  // no job), and as Runtime::instantiate.
  JobType define(std::string_view name, Graph graph, const JobOptions& options = {});

  // Submits a job. Does not wait for its admission. Jobs of one type are admitted in the order of submission. Throws errc::resource_limit
  // for a job that could never be admitted, and when JobLimits::waiting jobs of the type wait: the message and the fields name the limit
  // and the figure; errc::invalid_argument for a type of another orchestrator; errc::closed.
  Job submit(const JobType& type, JobArguments arguments = {});
  // As submit, but returns nothing when JobLimits::waiting jobs of the type wait.
  std::optional<Job> try_submit(const JobType& type, JobArguments arguments = {});

  // Frees the execs that no job uses.
  void trim();

  // Ends the orchestrator. Close::when_done waits for all jobs. Close::now cancels waiting jobs and launches that have not begun, and waits
  // for the rest. Returns when all callbacks of jobs have returned. Throws errc::invalid_argument in a callback of a job or of the runtime.
  // Afterwards submit, define and trim throw errc::closed. A second call does nothing. If the runtime was closed before, its jobs have
  // ended already, with errc::closed or errc::cancelled.
  void close(Close how = Close::when_done);

  OrchestratorStatistics statistics() const;

 private:
  std::shared_ptr<detail::OrchestratorState> state_;
};

}  // namespace dwell
