// Jobs on a runtime: which of many launches of graphs may be in flight, by type, priority, workers and memory.
//
//   Orchestrator jobs(runtime, {.memory = 1 << 30});
//   const JobType resize = jobs.define("resize", std::move(graph), {.need = {.workers = 4, .memory = 8 << 20}, .limits = {.at_once =
//   100}}); Job job = jobs.submit(resize, JobArguments().set(load, 0, input).set(store, 0, output)); job.wait();
//
// A job is one launch of the graph of its type. It waits on the host until it is *admitted*: until the limits of its type and those of all
// types have room for what it needs. docs/orchestration.md says which job is next. Not part of dwell.hpp.
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
  // Workers that it keeps busy at once: for most graphs its width. 0: it counts for nothing.
  std::uint32_t workers = 1;
  // Bytes of device memory that it makes use of, without those of the graph itself, which are added.
  std::uint64_t memory = 0;
};

// Bounds of one type of jobs. 0: none of its own.
struct JobLimits {
  std::uint32_t workers = 0;      // of its admitted jobs together
  std::uint64_t memory = 0;       // bytes, of its admitted jobs together
  std::uint32_t at_once = 1024;   // admitted jobs; as many execs of the graph are kept at most
  std::uint32_t waiting = 65536;  // jobs that wait for admission; submit throws when there are so many, try_submit returns nothing
};

// How jobs of a type are treated.
struct JobOptions {
  // From 0, the least urgent, to 7. Jobs of a higher priority are admitted first. On a runtime with Options::priorities it is that of the
  // launches too.
  std::uint32_t priority = 3;
  // The share of workers and memory that this type gets, against others of the same priority, while these are short. From 1 on.
  std::uint32_t weight = 1;
  // Of a job that says nothing else.
  JobNeed need = {};
  JobLimits limits = {};
};

// Bounds of all types together.
struct OrchestratorOptions {
  // Workers that admitted jobs need together. More than the device has let jobs wait for each other on the device, so that no worker is
  // idle between two of them. 0: as many as the device has.
  std::uint32_t workers = 0;
  // Bytes of device memory that admitted jobs and the kept execs of all types need together. 0: what the device has.
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

// The arguments that a job gives to its graph.
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

// What one job has of its own: arguments of its graph, what it needs.
class JobArguments {
 public:
  // The job runs with this argument, as GraphExec::set; those that are not set are what they are in the graph of the type. A buffer must
  // live until the job has ended (see `keep`). A value that does not fit fails the job when it is admitted.
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
  // Instead of JobOptions::need.
  JobArguments& need(const JobNeed& need) & {
    values_.need = need;
    return *this;
  }
  JobArguments&& need(const JobNeed& need) && { return std::move(this->need(need)); }
  // Kept until the job has ended, and dropped by the thread that finds out: the job's buffers, say. What its deleter does must not use the
  // orchestrator.
  JobArguments& keep(std::shared_ptr<void> what) & {
    values_.kept.push_back(std::move(what));
    return *this;
  }
  JobArguments&& keep(std::shared_ptr<void> what) && { return std::move(keep(std::move(what))); }

 private:
  friend class Orchestrator;
  detail::JobValues values_;
};

// A kind of jobs of one orchestrator. A small value that names it; an empty one names none.
class JobType {
 public:
  JobType() = default;
  const std::string& name() const;
  // Bytes of device memory that the graph itself takes for each admitted job.
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

  // Returns once the job has ended and its effects are visible to this thread. Throws what Ticket::wait of its launch throws, and when it
  // never was launched: errc::cancelled (cancel, Orchestrator::close), the error of Runtime::instantiate, GraphExec::set or Runtime::launch
  // (errc::closed, errc::device_lost, errc::task_timeout and errc::stale_handle among them, when the runtime was closed, has failed, or was
  // rebuilt).
  void wait() const;
  // As wait, but gives up after `timeout`: returns whether the job has ended. The job goes on.
  bool wait_for(std::chrono::nanoseconds timeout) const;
  // What `wait` would throw; nothing for a job that has succeeded or goes on.
  std::optional<Error> error() const;

  // Cancels the job. One that waits ends at once. One that is admitted is cancelled as Runtime::cancel does with its launch: it ends when
  // its turn comes, and may still succeed when it has begun. Returns false when it has ended already. Throws as Runtime::cancel.
  bool cancel() const;

  // Calls `f` once, with this job, when it has ended: on the runtime's thread that calls back (see Ticket::then, which says what it may
  // do), but on the thread that cancels a job that waits, and at once on the calling thread when it has ended already. Those of one job are
  // called in the order of these calls. Throws std::bad_alloc; then `f` is not called.
  void then(std::function<void(const Job&)> f) const;

 private:
  friend class Orchestrator;
  friend struct detail::OrchestratorState;
  explicit Job(std::shared_ptr<detail::JobRecord> record) : record_(std::move(record)) {}
  std::shared_ptr<detail::JobRecord> record_;
};

// Times of the jobs of one type. Quantiles are too high by 6 % at most.
struct JobTimes {
  std::uint64_t count = 0;
  std::chrono::nanoseconds mean{0};
  std::chrono::nanoseconds p50{0};
  std::chrono::nanoseconds p99{0};
  std::chrono::nanoseconds most{0};
};

// What has become of the jobs of one type. A snapshot.
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
  std::uint64_t memory = 0;   // that its admitted jobs need, with their graphs
  std::uint64_t most_admitted = 0;
  std::uint64_t most_workers = 0;
  std::uint64_t most_memory = 0;
  std::uint64_t out_of_memory = 0;  // times that a job was put back because the device had no memory for its graph
  std::size_t execs = 0;            // of its graph, those in use included
  std::uint64_t idle_memory = 0;    // of the execs that no job uses
  JobTimes waited;                  // from submit to admission, of those that were launched
  JobTimes ran;                     // from there to the end
};

struct OrchestratorStatistics {
  std::vector<JobStatistics> types;  // in the order of their definition
  std::uint64_t workers = 0;         // that admitted jobs need
  std::uint64_t memory = 0;
  std::uint64_t worker_limit = 0;
  std::uint64_t memory_limit = 0;  // 0: none

  // A line a type, for people.
  std::string table() const;
};

// Admits jobs to a runtime. It has no thread: a job is launched by the thread that submits it or, when it had to wait, by the runtime's
// thread that calls back, when another job ends. All members may be called from any thread, except that close (and the destructor) must not
// overlap other calls on the same object; jobs may still be used meanwhile. As with the runtime itself, Runtime::close and rebuild must not
// overlap calls of submit, define, cancel and trim.
class Orchestrator {
 public:
  // `runtime` must outlive the orchestrator, at the same address. Throws errc::closed.
  explicit Orchestrator(Runtime& runtime, const OrchestratorOptions& options = {});
  // close(Close::when_done). In a callback of a job or of the runtime it waits for nothing: jobs that wait are cancelled, those that are
  // admitted end by themselves.
  ~Orchestrator();
  Orchestrator(const Orchestrator&) = delete;
  Orchestrator& operator=(const Orchestrator&) = delete;

  // A type of jobs, each of which launches `graph`. Instantiates it once, which checks it and says how much memory it takes; jobs that are
  // admitted at the same time have an exec each, and execs are kept for later jobs. Nodes of the graph stay valid as long as the
  // orchestrator. Buffers that are named in it must live as long as jobs of the type do. Throws errc::invalid_argument (the name is taken
  // or empty, a priority above 7, no weight, a limit with which no job could be admitted), and as Runtime::instantiate.
  JobType define(std::string_view name, Graph graph, const JobOptions& options = {});

  // Submits a job. Does not wait for its admission; of those of one type, who was first submitted is first admitted. Throws
  // errc::resource_limit for a job that could never be admitted, and when JobLimits::waiting jobs of the type wait: the message and the
  // fields name the limit and the figure; errc::invalid_argument for a type of another orchestrator; errc::closed.
  Job submit(const JobType& type, JobArguments arguments = {});
  // The same, but empty when JobLimits::waiting jobs of the type wait.
  std::optional<Job> try_submit(const JobType& type, JobArguments arguments = {});

  // Gives back the memory of execs that no job uses.
  void trim();

  // Ends the orchestrator. Close::when_done waits for all jobs. Close::now cancels those that wait, and the launches that have not begun,
  // and waits for the rest. Returns when all callbacks of jobs have returned: throws errc::invalid_argument in one of them, and in any
  // other callback of the runtime. Afterwards submit, define and trim throw errc::closed. Nothing to do the second time. When the runtime
  // was closed before, its jobs have ended with errc::closed or errc::cancelled already.
  void close(Close how = Close::when_done);

  OrchestratorStatistics statistics() const;

 private:
  std::shared_ptr<detail::OrchestratorState> state_;
};

}  // namespace dwell
