// A runtime's parts, joined.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/error.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>
#include <dwell/options.hpp>
#include <dwell/runtime.hpp>
#include <dwell/trace.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "live/published.hpp"
#include "runtime/complete/host_calls.hpp"
#include "runtime/complete/launch_gates.hpp"
#include "runtime/complete/notifier.hpp"
#include "runtime/device/arena.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/generation/open_check.hpp"
#include "runtime/generation/shell.hpp"
#include "runtime/graphs.hpp"
#include "runtime/inspect/variables.hpp"
#include "runtime/inspect/watches.hpp"
#include "runtime/kernels/launches.hpp"
#include "runtime/kernels/modules.hpp"
#include "runtime/memory/blocks.hpp"
#include "runtime/memory/buffers.hpp"
#include "runtime/observe/device_clock.hpp"
#include "runtime/observe/flight_recorder.hpp"
#include "runtime/observe/host_counts.hpp"
#include "runtime/observe/host_events.hpp"
#include "runtime/observe/log_drain.hpp"
#include "runtime/observe/meters.hpp"
#include "runtime/observe/observers.hpp"
#include "runtime/observe/timeline.hpp"
#include "runtime/program/registry.hpp"
#include "runtime/tasks/begun.hpp"
#include "runtime/tasks/ends.hpp"
#include "runtime/tasks/intake.hpp"
#include "runtime/tasks/outcomes.hpp"
#include "runtime/watch/preemptor.hpp"
#include "runtime/watch/runtime_watch.hpp"

namespace dwell::runtime {

// Everything an open runtime is made of. Held by its Shell and, for the time of a call, by tickets and buffers in other threads.
class Core {
 public:
  // `first_position`: of the first ticket, a multiple of 64 below 2^63.
  Core(Options options, std::uint64_t first_position, detail::Shell* shell);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Tasks and launches of graphs, as of Intake.
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot& slot) { return intake_->enqueue_plain(op, slot); }
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot* slots, std::size_t count, bool follows) {
    return intake_->enqueue_plain(op, slots, count, follows);
  }
  std::uint64_t enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches = SubmissionQueue::kAnySwitches) {
    return intake_->enqueue(op, task, switches);
  }
  std::optional<std::uint64_t> try_enqueue(detail::OperatorState& op, const detail::Task& task,
                                           std::uint64_t switches = SubmissionQueue::kAnySwitches) {
    return intake_->try_enqueue(op, task, switches);
  }
  std::optional<std::uint64_t> launch_graph(const detail::Task& task, std::uint64_t switches, std::string_view name) {
    return intake_->launch_graph(task, switches, name);
  }
  std::optional<std::uint64_t> launch_graph(std::uint32_t* words, const std::vector<std::uint32_t>& changes, std::uint32_t flags,
                                            std::uint32_t groups, const detail::Waits* waits, std::uint64_t switches,
                                            std::string_view name) {
    return intake_->launch_graph(words, changes, flags, groups, waits, switches, name);
  }
  bool cancel(std::uint64_t position) { return intake_->cancel(position); }

  // How they end, as of Ends and Outcomes.
  bool done(std::uint64_t position) { return ends_->done(position); }
  bool wait(std::uint64_t position, std::optional<std::chrono::steady_clock::time_point> deadline) {
    HostSpan span(&host_events_, TraceEvent::Kind::wait);
    span.id = position;
    return ends_->wait(position, deadline);
  }
  void wait_all() { ends_->wait_all(); }
  bool when_done(std::uint64_t position, bool or_stalled, Notifier::Callback& callback) {
    return ends_->when_done(position, or_stalled, callback);
  }
  Ends::Prepared prepare_when_done(Notifier::Callback callback) { return ends_->prepare_when_done(std::move(callback)); }
  bool when_done(std::uint64_t position, Ends::Prepared& prepared) { return ends_->when_done(position, prepared); }
  std::optional<Error> error_of(std::uint64_t position) { return outcomes_->error_of(position); }
  int status_of(std::uint64_t position) { return outcomes_->status_of(position); }

  std::shared_ptr<detail::ModuleState> compile(const Source& source, const std::optional<CompileOptions>& options,
                                               const std::vector<std::string>& expressions);
  // Launches a kernel; returns the launch's number.
  std::uint64_t launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                       const detail::LaunchArgument* arguments, std::size_t count);

  std::shared_ptr<detail::BufferState> allocate(std::size_t count, std::size_t element, Memory memory);
  // What `take` returns, which allocates. When it finds no memory, it is called once more, behind the release of all that has been dropped
  // and is not in use any more.
  template <class Take>
  auto with_memory(Take take) {
    try {
      return take();
    } catch (const Error& error) {
      if (error.kind() != errc::out_of_memory) throw;
    }
    queue_->reap();
    graphs_.collect(queue_->reaped());
    return take();
  }
  std::shared_ptr<detail::BufferState> wrap(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                            std::shared_ptr<void> keep_alive);

  Notifier& notifier() { return notifier_; }
  HostCalls& host_calls() { return *host_calls_; }

  Diagnosis diagnose() const { return watch_->diagnose(); }
  // As Runtime::preempt.
  Preemption preempt(unsigned priority, std::chrono::nanoseconds timeout);

  // As Runtime::metrics and set_metrics.
  Metrics metrics();
  void set_metrics(Metering metering);
  HostCounts& counts() { return counts_; }
  TaskSamples& samples() { return *samples_; }

  // As Runtime::start_trace and stop_trace.
  void start_trace(std::shared_ptr<TraceWriter> writer);
  void stop_trace();
  // As Runtime::trace.
  void trace(std::chrono::nanoseconds duration, std::shared_ptr<TraceWriter> writer);
  HostEvents& host_events() { return host_events_; }
  // As Runtime::inspect, watch and assign.
  Inspection inspect(std::string_view name);
  Watch watch(std::string name, std::chrono::nanoseconds every, std::function<void(const Inspection&)> callback);
  void assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes);
  // As Runtime::logs and set_log_level.
  Logs logs(std::chrono::nanoseconds wait);
  void set_log_level(level from);

  // As Runtime::burst.
  void burst(void* stream);

  // Takes the loop off the device for a moment, in which the arena moves to another place there. Throws the failure of the device, and
  // errc::out_of_memory when there is no room for two; then it stays where it is.
  void move_arena();

  // A park of the user's, which Keeper::resume ends. Throws errc::closed beside close.
  void park();

  // Ends the generation: open → closing → closed, as shell.hpp says. Throws the failure of the device that came in between; the generation
  // has ended then too.
  void close(Close how);
  // The device has failed: open → closing → lost. Lets go of all that the handles hold of the device, and leaves in the shell what the next
  // generation needs. Throws errc::invalid_argument when the device works, errc::device_lost when the device cannot be opened again
  // (Backend::stuck), and std::bad_alloc; then the generation is as open as it was.
  void give_up();

  SubmissionQueue& queue() { return *queue_; }
  Keeper& keeper() { return *keeper_; }
  Registry& registry() { return *registry_; }
  Modules& modules() { return *modules_; }
  Buffers& buffers() { return *buffers_; }
  Arena& arena() { return *arena_; }
  Graphs& graphs() { return graphs_; }
  FlightRecorder* flight() { return flight_.get(); }  // null without Options::live
  backend::Backend& backend() { return *backend_; }
  RuntimeInfo info() const;
  const Options& options() const { return options_; }

  // Throws the failure of the device, and errc::closed.
  void check_open() const { OpenCheck(*keeper_, *shell_)(); }

 private:
  // Waits for launches, which cannot be called back, and whose memory goes with the runtime. Gives the device up when one hangs, and
  // throws.
  void close_launches();
  // Shows the runtime to other processes, and ends that, and a trace, when it goes.
  void publish();
  void end_observation() noexcept;
  // Sees to it that the clocks are aligned while it is noted how long tasks wait.
  void align_for_waits();
  // Throws when the caller is a callback of this runtime, for which close and give_up would wait; `call` is what it has called.
  void check_outside(const char* call) const;
  // The last position up to the tail that ends in these 32 bits.
  std::uint64_t position_of(std::uint32_t low) const;
  // The common part of close and give_up: handles lead nowhere any more, tickets tell how their tasks ended.
  void leave(std::optional<Error> failure, detail::Stage to) noexcept;

  const std::function<void(std::string_view)> warn_;  // Options::warn as it was given
  Options options_;
  const std::uint64_t first_position_;
  detail::Shell* shell_;
  std::unique_ptr<backend::Backend> backend_;
  backend::DeviceInfo device_;
  Notifier notifier_;
  HostCounts counts_;
  HostEvents host_events_;

  std::unique_ptr<Arena> arena_;
  std::unique_ptr<backend::Allocation> ring_;  // null when it lies in the flight recorder
  std::unique_ptr<backend::Allocation> completions_;
  std::unique_ptr<backend::Allocation> report_;
  std::unique_ptr<backend::Allocation> in_flight_;
  std::unique_ptr<FlightRecorder> flight_;  // null without Options::live
  std::unique_ptr<backend::Allocation> failed_nodes_;
  std::unique_ptr<backend::Allocation> failed_inside_;
  Graphs graphs_;

  std::unique_ptr<SubmissionQueue> queue_;
  std::unique_ptr<Keeper> keeper_;
  std::unique_ptr<TaskSamples> samples_;
  std::unique_ptr<Meters> meters_;
  std::unique_ptr<LogDrain> log_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Launches> launches_;
  std::unique_ptr<LaunchGates> gates_;
  std::unique_ptr<HostCalls> host_calls_;
  std::unique_ptr<Modules> modules_;
  std::unique_ptr<Blocks> blocks_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<RuntimeWatch> watch_;
  // In place, for the sake of submitters.
  std::optional<Intake> intake_;
  std::optional<Ends> ends_;
  std::optional<Outcomes> outcomes_;
  std::optional<BegunTasks> begun_;
  std::unique_ptr<Preemptor> preemptor_;  // null without priorities
  std::unique_ptr<DeviceClock> clock_;
  std::unique_ptr<Timeline> timeline_;
  Mutex trace_mutex_;  // of start_trace and stop_trace
  std::shared_ptr<TraceWriter> trace_ DWELL_GUARDED_BY(trace_mutex_);
  std::unique_ptr<Variables> variables_;
  std::unique_ptr<Watches> watches_;
  std::unique_ptr<live::Published> published_;  // null when the runtime is not shown
};

}  // namespace dwell::runtime
