// The host's side of the ring: positions, credit, ownership of places.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <dwell/detail/task.hpp>

#include "device/ring.hpp"
#include "runtime/device/cancel_requests.hpp"
#include "runtime/device/membarrier.hpp"
#include "runtime/device/reaper.hpp"
#include "runtime/device/recorder.hpp"
#include "runtime/device/ring_slots.hpp"
#include "runtime/device/spin_lock.hpp"
#include "runtime/device/submitter.hpp"
#include "runtime/device/task_order.hpp"
#include "runtime/device/task_samples.hpp"

namespace dwell::runtime {

// Writes tasks into the ring and reads their completion. Does not own the ring. Members may be called from any thread.
//
// Places are assigned in order, at the tail. A single submitting thread owns the tail: each task advances it by one place. Several threads
// are assigned up to kMostPlaces places each at a time. Places that a thread leaves unused are filled with skip entries: by the thread
// itself when it waits or submits a task that is not plain, else by others once the thread is idle (pass_over_idle).
//
// Invariants: positions [reaped, tail) are in flight and at most the capacity; completion entries are reaped in order, and the entry
// at a position is overwritten only after it has been reaped. The host stores the completion entries of continuation slots, and of all but
// the first slot of padding and close requests; each follows an entry that the device stores. A drain is placed only when no thread has
// places before it, so a task whose submission begins after the drain's has returned comes after it.
class SubmissionQueue {
 public:
  SubmissionQueue(device::Slot* ring, device::Completion* completions, device::LeaseReport& report, std::uint32_t shift,
                  std::uint64_t first, Reaper::NameOf name_of);
  ~SubmissionQueue();
  SubmissionQueue(const SubmissionQueue&) = delete;
  SubmissionQueue& operator=(const SubmissionQueue&) = delete;

  // Places a task with the opcode that `alias` has when it gets its place. False when there is no room.
  // With `switches`, only if switches() still has this value; else it returns false too, and `position` is kSwitched.
  static constexpr std::uint64_t kAnySwitches = ~std::uint64_t{0};
  static constexpr std::uint64_t kSwitched = ~std::uint64_t{0} - 1;
  bool try_submit(const std::atomic<std::uint32_t>& alias, const detail::Task& task, std::uint64_t* position,
                  std::uint64_t switches = kAnySwitches);

  // As try_submit, for the launch of a graph, whose nodes have the opcodes of `switches`. A launch with no group runs no node, and changes
  // the exec. False when there is no room (`position` is kNoRoom), or a version has changed since (kSwitched).
  bool try_launch(const detail::Task& task, std::uint64_t switches, std::uint64_t* position);
  // Changes of aliases so far.
  std::uint64_t switches() const { return switches_.load(std::memory_order_acquire); }

  // As try_submit, for a task of one slot without order. Returns its position, or kNoRoom.
  static constexpr std::uint64_t kNoRoom = ~std::uint64_t{0};
  std::uint64_t try_submit_plain(const std::atomic<std::uint32_t>& alias, const detail::FirstSlot& slot) {
    Submitter* const submitter = CurrentSubmitter::mine.submitter;
    if (CurrentSubmitter::mine.queue != number_) [[unlikely]]
      return submit_slowly(alias, slot);
    const std::uint64_t place = submitter->enter();
    if (submitter->end.load(std::memory_order_relaxed) <= place * 2) [[unlikely]] {
      submitter->leave(place);
      return submit_slowly(alias, slot);
    }
    const std::uint32_t opcode = alias.load(std::memory_order_relaxed);
    if (is_sampled(place)) [[unlikely]]
      take_sample(place, opcode, slot);
    slots_.write_first(place, slot, opcode, submitter->word1, place);
    submitter->leave(place + 1);
    return place;
  }
  // As above, for as many of several tasks as there is room for. Returns their number, and the position of the last.
  std::size_t try_submit_plain(const std::atomic<std::uint32_t>& alias, const detail::FirstSlot* slots, std::size_t count,
                               std::uint64_t* last);

  // Returns whether there is ample room. A thread that has found the ring full waits for this, so that it submits runs of tasks. False once
  // the queue is closed: the thread has to look whether the runtime is open.
  bool roomy();

  // Asks the lease of this number and earlier ones to end once the fetch crew reaches the request: when the next lease has come, or at
  // once. False when the ring is full.
  bool try_close_lease(std::uint32_t lease, bool at_once);

  // Ends the burst that is the lease of this number: it runs all earlier tasks, and none later. Returns the end's position; nothing when
  // the ring is full.
  std::optional<std::uint64_t> try_end_burst(std::uint32_t lease);

  // Places a gate for tasks to wait for; it completes some time after open_gate. False when there is no room. `alias`: the operator that
  // failures name.
  bool try_submit_gate(const std::atomic<std::uint32_t>& alias, std::uint64_t* position);
  void open_gate(std::uint64_t position) { slots_.open_gate(position); }

  // Places a task with no group, which runs nothing, at this level (device/levels.hpp). False when there is no room.
  bool try_submit_request(std::uint32_t level, std::uint64_t* position);

  // Cancels the task in flight at this position unless it has begun, and its successors. False when it is complete. Throws std::bad_alloc;
  // then nothing has changed.
  bool cancel(std::uint64_t position);
  // Passes queued cancels on to the device.
  void pass_on_cancels() noexcept { cancels_.pass_on(); }

  // Changes aliases atomically: tasks from the returned position on run the new opcodes, earlier ones the old ones.
  struct Switch {
    std::atomic<std::uint32_t>* alias = nullptr;
    std::uint32_t opcode = 0;
  };
  std::uint64_t switch_aliases(std::span<const Switch> switches);

  // As in Reaper.
  bool done(std::uint64_t position) const { return reaper_.done(position); }
  bool succeeded(std::uint64_t position) const { return reaper_.succeeded(position); }
  Failure result(std::uint64_t position) { return reaper_.result(position); }
  std::vector<std::uint64_t> failed_positions() { return reaper_.failed_positions(); }
  std::uint32_t opcode_at(std::uint64_t position) const { return reaper_.opcode_at(position); }

  // Returns whether the task in flight at this position has an argument that is an address in [begin, end). May return true wrongly.
  // Returns nothing while no task is written there: then none was submitted there before this call.
  std::optional<bool> names(std::uint64_t position, std::uint64_t begin, std::uint64_t end) const;

  // One past the last assigned position, and one past the last position before which all are complete.
  std::uint64_t tail() const {
    const Submitter* const lone = lone_.load(std::memory_order_acquire);
    // A submitter that has just lost the tail is at least at the tail's value of this call.
    return lone != nullptr ? lone->at.load(std::memory_order_acquire) / 2 : tail_.load(std::memory_order_acquire);
  }
  std::uint64_t reaped() const { return reaper_.reaped(); }
  // Returns a position before which no task is placed whose submission begins after this call. Before the tail while a thread has unused
  // places.
  std::uint64_t filled();
  // Returns the number of tasks so far.
  std::uint64_t submitted();

  // Reads completion entries in order, up to an incomplete one, or until there is no memory to record a failure.
  void reap_done() noexcept { reaper_.reap(tail()); }
  // As reap_done, and skips places of threads that have stopped submitting. True when nothing is in flight.
  bool reap() noexcept;

  // Skips the unused places of the calling thread, which submits no more for now. True if it had any: then the loop has something to fetch.
  bool rest() { return shared_count_.load(std::memory_order_relaxed) != 0 && rest_slowly(); }
  // Skips the unused places of all idle threads. For threads that wait for later tasks.
  bool pass_over_idle() { return shared_count_.load(std::memory_order_relaxed) != 0 && pass_over_idle_slowly(); }

  // Ends submission: from here on there is no room, and the tail does not move. Returns when all tasks before it are written: a submitter
  // that has found the runtime open may be in the middle of one. A second call does nothing.
  void close() noexcept;
  // Ends everything in flight, as Reaper::complete_all. Called after close.
  void complete_all(std::optional<Reaper::Begun> begun) noexcept;

  std::uint32_t capacity() const { return slots_.capacity(); }

  // Describes graphs with launches in flight. Set before the first task.
  struct Launches {
    Reaper::FailedNode failed_node;
    Reaper::TitleOf title_of;
    Reaper::FailedInside failed_inside;
    // Returns whether the graph whose head has this offset names memory in [begin, end).
    std::function<bool(std::uint64_t head, std::uint64_t begin, std::uint64_t end)> names;
  };
  void look_up_launches(Launches launches) {
    reaper_.failed_node = std::move(launches.failed_node);
    reaper_.title_of_graph = std::move(launches.title_of);
    reaper_.failed_inside = std::move(launches.failed_inside);
    launch_names_ = std::move(launches.names);
  }

  // Sets the recorder of task samples. Set before the first task.
  void sample_into(TaskSamples& samples) { samples_ = &samples; }
  // Returns whether the task at this position is sampled.
  bool is_sampled(std::uint64_t position) const {
    return device::is_stamped(static_cast<std::uint32_t>(position), stamped_below_.load(std::memory_order_relaxed));
  }
  void set_sampling(bool on) { stamped_below_.store(on ? device::kStampsBelow : 0, std::memory_order_relaxed); }

  // A thread that takes less time per place than this is assigned twice as many places the next time. Set before the first task, by tests
  // of slow builds.
  std::chrono::nanoseconds fast_pace{500};

  // Adds a thread, removes an ended one. Called only by runtime/device/submitter.cpp, one at a time.
  Submitter* add();
  void remove(Submitter& submitter);

 private:
  using Clock = Submitter::Clock;
  static constexpr std::uint32_t kMostPlaces = 64;   // assigned to a thread at once
  static constexpr std::uint32_t kFewestTurns = 16;  // consecutive turns of one thread after which its submitter gets the tail
  static constexpr std::uint32_t kMostTurns = 1U << 12U;
  static constexpr std::chrono::microseconds kIdle{2};  // of a submitter before its places are skipped

  // By value, so that the slot stays in registers on the fast path.
  [[gnu::noinline, gnu::cold]] void take_sample(std::uint64_t position, std::uint32_t opcode, detail::FirstSlot first,
                                                const std::uint32_t* rest = nullptr) const {
    samples_->take(position, opcode, first, rest);
  }

  // Fill the slots of adjacent plain tasks, or of any task. The caller owns the places.
  void write_slots(std::uint64_t first, const detail::FirstSlot* slots, std::size_t count, std::uint32_t opcode, std::uint32_t word1);
  void write(std::uint64_t position, const TaskHead& head, const detail::Task& task, const WaitingFor& list);
  // Completes all slots of a task but the first, which the device completes.
  void complete_rest(std::uint64_t position, std::uint32_t slots);

  // By value, so that a task stays in registers on the fast path.
  [[gnu::noinline, gnu::cold]] std::uint64_t submit_slowly(const std::atomic<std::uint32_t>& alias, detail::FirstSlot slot) {
    std::uint64_t position = kNoRoom;
    if (Recorder::mine.recorder == nullptr) try_submit_plain(alias, &slot, 1, &position);
    return position;
  }

  // The right to assign places. Held by the thread whose submitter has the tail, while it is inside; else by the holder of lock_ when no
  // submitter has the tail.
  class Tail;

  // The following need lock_.
  std::uint64_t take(Submitter& me, std::uint64_t wanted, Clock::time_point now, std::uint64_t* first);
  void take_tail_back(const Submitter* me);
  void take_back(Submitter* const* submitters, std::size_t count);
  void pass_over_rest(Submitter& submitter);
  bool pass_over_standing(Clock::time_point now);
  void take_all_back();
  std::uint64_t room(std::uint64_t tail, std::uint64_t wanted);

  // The following need the right to assign places.
  void skip(std::uint64_t position, const device::Header& header, std::uint32_t word2 = 0);
  void pass_over(std::uint64_t first, std::uint64_t last);
  void count_other(std::uint64_t slots);  // places that hold no task of their own

  // Places a task that is not plain: with the opcode in `alias`, or the launch of a graph (null). `switches`: required value of switches(),
  // or any.
  bool place(const detail::Task& task, const std::atomic<std::uint32_t>* alias, std::uint64_t switches, std::uint64_t* position);
  bool rest_slowly();
  bool pass_over_idle_slowly();

  RingSlots slots_;
  std::atomic<std::uint32_t> stamped_below_{0};  // device::is_stamped; 0: no task is sampled
  std::uint64_t number_;
  std::uint64_t first_;
  TaskSamples* samples_ = nullptr;
  Reaper reaper_;
  CancelRequests cancels_;
  std::function<bool(std::uint64_t, std::uint64_t, std::uint64_t)> launch_names_;
  std::vector<std::unique_ptr<Submitter>> submitters_;  // guarded by who calls add and remove, as the next
  std::vector<Submitter*> unused_;

  // Locked before the reaper's.
  alignas(64) SpinLock lock_;
  std::atomic<Submitter*> lone_{nullptr};  // the submitter that has the tail
  std::atomic<std::uint64_t> tail_;        // valid while no submitter has it
  std::vector<Submitter*> shared_;         // submitters with places that may be unused
  std::atomic<std::uint32_t> shared_count_{0};
  Clock::time_point next_look_{};          // for idle submitters, by threads that take places
  const Submitter* last_given_ = nullptr;  // who was given places last
  std::uint32_t turns_ = 0;                // its consecutive turns
  std::uint32_t turns_to_tail_ = 1;        // consecutive turns after which its submitter gets the tail
  std::uint64_t tail_since_ = 0;           // where a submitter got the tail
  // Guarded by the right to assign places.
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> not_tasks_{0};  // positions that hold no task of their own
  TaskOrder order_;
  std::atomic<std::uint64_t> switches_{0};  // changes of aliases so far
};

}  // namespace dwell::runtime
