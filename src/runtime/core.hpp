// A runtime's parts, joined.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/error.hpp>
#include <dwell/options.hpp>
#include <dwell/runtime.hpp>

#include "backend/backend.hpp"
#include "runtime/api/shell.hpp"
#include "runtime/code/registry.hpp"
#include "runtime/complete/host_calls.hpp"
#include "runtime/complete/launch_gates.hpp"
#include "runtime/complete/notifier.hpp"
#include "runtime/graphs.hpp"
#include "runtime/kernels/launches.hpp"
#include "runtime/kernels/modules.hpp"
#include "runtime/lease/keeper.hpp"
#include "runtime/memory/blocks.hpp"
#include "runtime/memory/buffers.hpp"
#include "runtime/submit/submission_queue.hpp"
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

  // Submit tasks, waiting while the ring is full. Return the last one's position.
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot& slot) {
    check_open();
    const std::uint64_t position = queue_->try_submit_plain(op.alias, slot);
    keeper_->submitted();
    return position != SubmissionQueue::kNoRoom ? position : wait_for_room(op, slot);
  }
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot* slots, std::size_t count);
  // With `switches`, only while no version has changed since there were so many changes; else they return SubmissionQueue::kSwitched.
  std::uint64_t enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches = SubmissionQueue::kAnySwitches);
  std::optional<std::uint64_t> try_enqueue(detail::OperatorState& op, const detail::Task& task,
                                           std::uint64_t switches = SubmissionQueue::kAnySwitches);

  // Submit the launch of a graph, whose nodes have the opcodes that were current after so many switches. Return its position, or nothing
  // when a version has changed since. The second gives `changes` of words (device/graph_layout.hpp) in memory beside the ring, as many
  // as that holds; `words` are the first three of the launch and have room for two more. With no group it only changes the exec.
  std::optional<std::uint64_t> launch_graph(const detail::Task& task, std::uint64_t switches);
  std::optional<std::uint64_t> launch_graph(std::uint32_t* words, const std::vector<std::uint32_t>& changes, std::uint32_t flags,
                                            std::uint32_t groups, const detail::Waits* waits, std::uint64_t switches);

  // As Runtime::cancel, of a position or the number of a launch.
  bool cancel(std::uint64_t position);

  std::shared_ptr<detail::ModuleState> compile(const Source& source, const std::optional<CompileOptions>& options,
                                               const std::vector<std::string>& expressions);
  // Launches a kernel; returns the launch's number.
  std::uint64_t launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                       const detail::LaunchArgument* arguments, std::size_t count);

  // The following take positions of tasks, and numbers of launches with detail::kLaunch.
  bool done(std::uint64_t position);
  // Waits for the task at `position`, until `deadline` if there is one; false when that comes first. Throws the runtime's failure.
  bool wait(std::uint64_t position, std::optional<std::chrono::steady_clock::time_point> deadline);
  // The error of a complete task, or nothing if it succeeded.
  std::optional<Error> error_of(std::uint64_t position);
  // Ticket::status of a complete task.
  int status_of(std::uint64_t position);

  // Waits until all tasks before `position` are complete.
  void wait_before(std::uint64_t position);
  // Waits for all tasks and launches so far.
  void wait_all();

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

  // Calls `callback` on a thread of the runtime once the task (or launch) at `position` is complete, or lost with the device. False when
  // the runtime is closed: then it does not.
  // `or_stalled`: or once the watchdog says that it will not be.
  bool when_done(std::uint64_t position, bool or_stalled, Notifier::Callback callback);
  Notifier& notifier() { return notifier_; }
  HostCalls& host_calls() { return *host_calls_; }

  Diagnosis diagnose() const { return watch_->diagnose(); }
  // As Runtime::preempt.
  Preemption preempt(unsigned priority, std::chrono::nanoseconds timeout);

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
  Graphs& graphs() { return graphs_; }
  backend::Backend& backend() { return *backend_; }
  RuntimeInfo info() const;

  // Throws the failure of the device, and errc::closed.
  void check_open() const {
    if (keeper_->failed() || shell_->stage() != detail::Stage::open) [[unlikely]]
      refuse();
  }

 private:
  [[noreturn, gnu::noinline]] void refuse() const;
  // The calling thread is about to wait: nobody waits for places that it has and does not use.
  void rest() {
    if (queue_->rest()) keeper_->submitted();
  }
  // Throws errc::invalid_argument when the calling thread runs a callback of a launch before `position`, and would wait for it.
  void check_own_launch(std::uint64_t position) const;
  // Calls try_submit, which places tasks, until it returns true.
  template <class TrySubmit>
  void retry(TrySubmit try_submit);
  // By value, so that a task on its short way stays in registers.
  [[gnu::noinline, gnu::cold]] std::uint64_t wait_for_room(detail::OperatorState& op, detail::FirstSlot slot);
  // Gives a task of one slot to the thread's recorder.
  static std::uint64_t record(Recorder& recorder, detail::OperatorState& op, const detail::FirstSlot& slot);
  // Throw errc::invalid_argument for tickets of captured tasks.
  static void check_waits(const detail::Waits& waits);
  static void check_position(std::uint64_t position);
  std::uint64_t enqueue_block(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches);
  // Waits for launches, which cannot be called back, and whose memory goes with the runtime. Gives the device up when one hangs, and
  // throws.
  void close_launches();
  // The common part of close and give_up: handles lead nowhere any more, tickets tell how their tasks ended.
  void leave(std::optional<Error> failure, detail::Stage to) noexcept;
  // Notes which tasks are about to be cancelled. No lease runs.
  void note_cancelled();
  // Adds what became of the tasks and launches that the shell must know.
  void note_fates(detail::Shell::Fates& ended, detail::Shell::Ranges& lost);
  // The words of an error for a task with this status, behind the task's name.
  std::string how_it_failed(int status, const std::string& why) const;
  // Throws errc::unsupported for a task with a priority where there are none.
  void check_level(std::uint32_t flags) const;
  // Throws errc::invalid_argument for a gang that has more groups than there are workers.
  void check_gang(std::uint32_t groups) const;
  std::string describe(const std::vector<Keeper::Holder>& holders, bool running) const;

  Options options_;
  const std::uint64_t first_position_;
  detail::Shell* shell_;
  std::unique_ptr<backend::Backend> backend_;
  backend::DeviceInfo device_;
  std::uint32_t most_spawned_ = 0;  // tasks of operators that there may be at once
  Notifier notifier_;

  std::unique_ptr<backend::Allocation> arena_;
  std::unique_ptr<backend::Allocation> ring_;
  std::unique_ptr<backend::Allocation> completions_;
  std::unique_ptr<backend::Allocation> report_;
  std::unique_ptr<backend::Allocation> in_flight_;
  std::unique_ptr<backend::Allocation> failed_nodes_;
  Graphs graphs_;

  std::unique_ptr<SubmissionQueue> queue_;
  std::unique_ptr<Keeper> keeper_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Launches> launches_;
  std::unique_ptr<LaunchGates> gates_;
  std::unique_ptr<HostCalls> host_calls_;
  std::unique_ptr<Modules> modules_;
  std::unique_ptr<Blocks> blocks_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<RuntimeWatch> watch_;
  std::unique_ptr<Preemptor> preemptor_;  // null without priorities
};

}  // namespace dwell::runtime
