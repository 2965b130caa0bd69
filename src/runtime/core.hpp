// An open runtime.
#pragma once

#include <array>
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
#include "live/published.hpp"
#include "runtime/collect/collector.hpp"
#include "runtime/collect/heap_operators.hpp"
#include "runtime/complete/completions.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/generation/open_check.hpp"
#include "runtime/generation/shell.hpp"
#include "runtime/graphs.hpp"
#include "runtime/inspect/inspector.hpp"
#include "runtime/kernels/kernels.hpp"
#include "runtime/memory/buffers.hpp"
#include "runtime/memory/heap_memory.hpp"
#include "runtime/memory/rings.hpp"
#include "runtime/observe/flight_recorder.hpp"
#include "runtime/observe/observation.hpp"
#include "runtime/program/registry.hpp"
#include "runtime/tasks/tasks.hpp"

namespace dwell::runtime {

// All parts of an open runtime. Owned by its Shell and, during a call, by tickets and buffers in other threads.
class Core {
 public:
  // `first_position`: of the first ticket, a multiple of 64 below 2^56.
  Core(Options options, std::uint64_t first_position, detail::Shell* shell);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Tasks and launches of graphs, as in Intake.
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot& slot) { return tasks_->intake().enqueue_plain(op, slot); }
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot* slots, std::size_t count, bool follows) {
    return tasks_->intake().enqueue_plain(op, slots, count, follows);
  }
  std::uint64_t enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches = SubmissionQueue::kAnySwitches) {
    return tasks_->intake().enqueue(op, task, switches);
  }
  std::optional<std::uint64_t> try_enqueue(detail::OperatorState& op, const detail::Task& task,
                                           std::uint64_t switches = SubmissionQueue::kAnySwitches) {
    return tasks_->intake().try_enqueue(op, task, switches);
  }
  std::optional<std::uint64_t> launch_graph(const detail::Task& task, std::uint64_t switches, std::string_view name) {
    return tasks_->intake().launch_graph(task, switches, name);
  }
  std::optional<std::uint64_t> launch_graph(std::uint32_t* words, const std::vector<std::uint32_t>& changes, std::uint32_t flags,
                                            std::uint32_t groups, const detail::Waits* waits, std::uint64_t switches,
                                            std::string_view name) {
    return tasks_->intake().launch_graph(words, changes, flags, groups, waits, switches, name);
  }
  // The following take the words of tickets (dwell/ticket.hpp), and throw as Devices::of.
  void check_gang(std::uint32_t groups) { tasks_->intake().check_gang(groups); }
  bool cancel(std::uint64_t word) { return tasks_of(word).intake().cancel(on_device(word)); }

  // Their ends, as in Ends and Outcomes.
  bool done(std::uint64_t word) { return tasks_of(word).ends().done(on_device(word)); }
  bool wait(std::uint64_t word, std::optional<std::chrono::steady_clock::time_point> deadline) {
    return tasks_of(word).wait(on_device(word), deadline);
  }
  void wait_all() { tasks_->ends().wait_all(); }
  bool when_done(std::uint64_t word, bool or_stalled, Notifier::Callback& callback) {
    return tasks_of(word).ends().when_done(on_device(word), or_stalled, callback);
  }
  Ends::Prepared prepare_when_done(Notifier::Callback callback) { return tasks_->ends().prepare_when_done(std::move(callback)); }
  bool when_done(std::uint64_t word, Ends::Prepared& prepared) { return tasks_of(word).ends().when_done(on_device(word), prepared); }
  std::optional<Error> error_of(std::uint64_t word) { return tasks_of(word).outcomes().error_of(on_device(word)); }
  int status_of(std::uint64_t word) { return tasks_of(word).outcomes().status_of(on_device(word)); }

  std::shared_ptr<detail::ModuleState> compile(const Source& source, const std::optional<CompileOptions>& options,
                                               const std::vector<std::string>& expressions);
  void* make_stream() { return backend_->make_stream(); }
  void drop_stream(void* stream) { backend_->drop_stream(stream); }
  // Launches a kernel; returns the launch's number.
  std::uint64_t launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                       const detail::LaunchArgument* arguments, std::size_t count);
  std::unique_ptr<backend::PreparedLaunch> prepare(const std::shared_ptr<detail::ModuleState>& module, std::size_t index,
                                                   const LaunchConfig& config, const detail::LaunchArgument* arguments, std::size_t count) {
    return modules().prepare(module, index, config, arguments, count);
  }

  std::shared_ptr<detail::BufferState> allocate(std::size_t count, std::size_t element, Memory memory);
  // Calls `take`, which allocates. If memory is short, frees everything that was dropped and is no longer in use, and calls it once more.
  template <class Take>
  auto with_memory(Take take) {
    try {
      return take();
    } catch (const Error& error) {
      if (error.kind() != errc::out_of_memory) throw;
    }
    queue().reap();
    graphs_.collect(queue().reaped());
    return take();
  }
  std::shared_ptr<detail::RingState> ring(const RingShape& shape, const RingOptions& options);
  std::shared_ptr<detail::BufferState> wrap(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                            std::shared_ptr<void> keep_alive);

  Notifier& notifier() { return completions_->notifier; }
  HostCalls& host_calls() { return completions_->host_calls; }

  Diagnosis diagnose() { return tasks_->watch().diagnose(); }
  // As Runtime::preempt.
  Preemption preempt(unsigned priority, std::chrono::nanoseconds timeout);

  // As Runtime::metrics and set_metrics.
  Metrics metrics();
  void set_metrics(Metering metering);
  HostCounts& counts() { return observation_->counts(); }
  TaskSamples& samples() { return device().samples(); }

  // As Runtime::start_trace and stop_trace.
  void start_trace(std::shared_ptr<TraceWriter> writer);
  void stop_trace() { observation_->stop_trace(); }
  // As Runtime::trace.
  void trace(std::chrono::nanoseconds duration, std::shared_ptr<TraceWriter> writer);
  HostEvents& host_events() { return observation_->events(); }
  // As Runtime::inspect, watch and assign.
  Inspection inspect(std::string_view name);
  Watch watch(std::string name, std::chrono::nanoseconds every, std::function<void(const Inspection&)> callback);
  void assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes);
  // As Runtime::logs and set_log_level.
  Logs logs(std::chrono::nanoseconds wait);
  void set_log_level(level from);

  // As Runtime::burst.
  void burst(void* stream);

  // As Device::move_arena. Also throws errc::closed.
  void move_arena();

  // Parks for the user, until Keeper::resume. Throws errc::closed during close.
  void park();

  HeapMemory& heap() { return *heap_; }
  // The operators that work on the heap for the host, each defined at the first call. Throws as Registry::define.
  std::shared_ptr<detail::DefinitionState> heap_operator(HeapOperator which);
  Collector& collector() { return *collector_; }
  // As Heap::collect, compact, statistics, verify, census.
  HeapCollection collect_heap();
  HeapCompaction compact_heap();
  HeapStatistics heap_statistics();
  HeapVerification verify_heap();
  HeapCensus heap_census();
  // Copies bytes of the heap, as Heap::read and write.
  void read_heap(std::uint32_t unit, std::size_t offset, std::span<std::byte> bytes);
  void write_heap(std::uint32_t unit, std::size_t offset, std::span<const std::byte> bytes);

  // Ends the generation: open → closing → closed (shell.hpp). Throws a failure of the device that occurs meanwhile; the generation has
  // ended then too.
  void close(Close how);
  // Ends the generation of a failed device: open → closing → lost. Releases all device resources of the handles, and leaves the next
  // generation's options in the shell. Throws errc::invalid_argument when the device works, errc::device_lost when the device cannot be
  // reopened (Backend::stuck), and std::bad_alloc; then the generation stays open.
  void give_up();

  SubmissionQueue& queue() { return device().queue(); }
  Keeper& keeper() { return device().keeper(); }
  Registry& registry() { return *registry_; }
  Modules& modules() { return kernels_->modules; }
  Buffers& buffers() { return *buffers_; }
  Arena& arena() { return device().arena(); }
  Graphs& graphs() { return graphs_; }
  FlightRecorder* flight() { return flight_.get(); }  // null without Options::live
  backend::Backend& backend() { return *backend_; }
  RuntimeInfo info();
  const Options& options() const { return options_; }

  // Throws the failure of the device, and errc::closed.
  void check_open() const { OpenCheck(device().keeper(), *shell_)(); }

 private:
  Device& device() const { return devices_.first(); }
  // Returns the tasks of a ticket's device. There are those of one.
  Tasks& tasks_of(std::uint64_t word) {
    static_cast<void>(devices_.of(word));
    return *tasks_;
  }
  // Returns a ticket's word without its device.
  static std::uint64_t on_device(std::uint64_t word) { return word & ~detail::kDevice; }
  // Waits for launches: they cannot be cancelled, and their memory is freed with the runtime. Gives the device up when one hangs, and
  // throws.
  void close_launches();
  // Publishes the runtime to other processes. end_observation withdraws it and ends a trace.
  void publish();
  void end_observation() noexcept;
  // Adds the figures of the heap, if it is made.
  void add_heap(Metrics& to);
  // Describes why the runtime has failed: the suspects, and the flight recorder's file.
  std::string describe(const std::string& why, const std::vector<InFlightTasks::Holder>& holders, bool running);
  // Returns the function that reads the device's clock.
  DeviceClock::Read clock_reader();
  CollectKernel::Kernels collect_kernels();
  // Throws in a callback of this runtime, for which close and give_up would wait. `call`: the callback's call, for the message.
  void check_outside(const char* call) const;
  // The common part of close and give_up: detaches all handles, and records how tasks ended for their tickets.
  void leave(std::optional<Error> failure, detail::Stage to) noexcept;

  const std::function<void(std::string_view)> warn_;  // the user's Options::warn
  const Options options_;                             // whose `warn` is one of the runtime's callbacks
  const std::uint64_t first_position_;
  detail::Shell* const shell_;
  std::unique_ptr<backend::Backend> backend_;
  backend::DeviceInfo info_;
  std::unique_ptr<FlightRecorder> flight_;  // null without Options::live; may hold the ring
  // Before the device, whose keeper asks for names. Holds no device resources after `leave`.
  Graphs graphs_;
  Devices devices_;
  std::unique_ptr<Observation> observation_;
  std::unique_ptr<HeapMemory> heap_;
  Mutex heap_mutex_;  // held while its operators are defined
  std::array<std::shared_ptr<detail::DefinitionState>, kHeapOperators> heap_operators_ DWELL_GUARDED_BY(heap_mutex_);
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Completions> completions_;
  std::unique_ptr<Buffers> buffers_;
  std::optional<Tasks> tasks_;  // in place, one indirection less for submitters
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<Inspector> inspector_;
  std::unique_ptr<live::Published> published_;  // null when the runtime is not published
};

}  // namespace dwell::runtime
