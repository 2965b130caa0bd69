// Starts leases, and detects their end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/failure_watch.hpp"
#include "runtime/device/in_flight.hpp"
#include "runtime/device/janitor.hpp"
#include "runtime/device/submission_queue.hpp"

namespace dwell::runtime {

class Keeper;

// Keeps the loop off the device while it lives. Made by Keeper::park_loop and try_park_loop; outlived by the keeper.
class ParkGuard {
 public:
  ParkGuard(ParkGuard&& from) noexcept : keeper_(std::exchange(from.keeper_, nullptr)) {}
  ParkGuard& operator=(ParkGuard&&) = delete;
  ParkGuard(const ParkGuard&) = delete;
  ParkGuard& operator=(const ParkGuard&) = delete;
  ~ParkGuard();

 private:
  friend class Keeper;
  explicit ParkGuard(Keeper& keeper) : keeper_(&keeper) {}

  Keeper* keeper_;
};

// Starts a lease when there is work, starts the next one while that works so that leases roll, and leaves the device empty when there is no
// work. The first thread that sees the need starts a lease: a submitter that finds the loop gone, or the keeper's own thread.
//
// The next lease is started after three quarters of the current one. It waits on the device until the current one's workers hand over
// (device/seat.hpp). A blocking driver call by others waits for all leases started before it: a quarter of one, all of the next, and their
// overruns. Some calls wait twice, and in between admit a start that has waited for the driver's lock. That lease gets no successor until
// it has left, and no lease is started for `give_way`: then the call finds the device empty. In total the call waits little more than
// `lease_time`.
//
// Handshake with submitters (modelled in tests/model/park.pml): a submitter stores its slot and then checks whether the loop is gone,
// with only a compiler fence between. The keeper publishes that it is gone, calls membarrier, and then checks the ring once more. So either
// the keeper sees the slot, or the submitter sees that the loop is gone.
class Keeper {
 public:
  struct Settings {
    device::Lease lease;                    // all but workers, crew, number, slot and times
    device::LeaseReport* report = nullptr;  // lease.report and lease.in_flight as the host sees them
    device::InFlight* in_flight = nullptr;
    std::chrono::nanoseconds lease_time;  // bound on the wait of others
    std::chrono::nanoseconds give_way;    // see above; 0 if calls of others do not wait for leases
    std::chrono::nanoseconds idle_time;
    bool memory_needs_lease;  // see memory_made
    bool kernels_queue;       // no lease starts beside another
    std::chrono::nanoseconds task_timeout;
    std::uint32_t workers = 0;  // wanted
    bool bursts = false;        // leases are bursts, started on request only
    // Called after the start of a lease that found none on the device, with the keeper's mutex held; may be empty, as the next.
    std::function<void()> woken = {};
    // Called before an image is unloaded, and after a hand-over; possibly with the keeper's mutex held. Must not throw.
    std::function<void()> settle = {};
  };

  // Throws errc::out_of_memory when its thread cannot be made.
  Keeper(backend::Backend& backend, SubmissionQueue& queue, Settings settings, FailureWatch::Describe describe);
  // Takes the loop off the device; tasks still in flight are lost.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Called by submitters after their last slot store. Costs three loads while the loop is on the device, two while it is parked.
  void submitted() {
    frequent_fence();
    if (asleep_.load(std::memory_order_relaxed) || has_left(newest_.load(std::memory_order_relaxed))) [[unlikely]] {
      if (holds_.load(std::memory_order_relaxed) == 0) wake();  // else release_park checks
    }
  }

  // Called by threads that wait for the task at `position`, or for room (kRoom). With bursts, nothing else may run it.
  static constexpr std::uint64_t kRoom = ~std::uint64_t{0};
  void awaited(std::uint64_t position) {
    if (!settings_.bursts)
      submitted();
    else if (position >= burst_end_.load(std::memory_order_relaxed) && !parked())
      try_burst(nullptr);
  }
  // Runs all earlier tasks in a burst, ordered in the stream; null: at once. Returns when the burst is enqueued; at once when there is
  // nothing to run. False, with nothing changed, while the loop is kept off the device, or too many bursts are pending. Throws the keeper's
  // failure.
  bool try_burst(void* stream);

  // Returns whether `position` is the end of the last burst, which stays there until the next one.
  bool ends_burst(std::uint64_t position) const { return position + 1 == burst_end_.load(std::memory_order_relaxed); }

  // Takes the loop off the device, and returns when it has left: waits for running tasks, not for waiting ones. Throws the keeper's
  // failure.
  [[nodiscard]] ParkGuard park_loop();
  // As park_loop, but only stops starting leases, so that a long task delays nobody else. Returns nothing if the last lease has not left
  // within `patience`.
  [[nodiscard]] std::optional<ParkGuard> try_park_loop(std::chrono::nanoseconds patience);
  // Takes the loop off the device permanently: no lease starts any more, also when it throws. Throws the keeper's failure.
  void retire();
  // The user's own parks, counted separately. resume throws errc::invalid_argument without a park.
  void park();
  void resume();
  // Resumes all parks of the user.
  void resume_all();

  // Takes the loop off the device, calls `meanwhile`, and lets it return. False if the loop did not leave within `patience` because of a
  // long task: then only the caller has waited for that task. Throws the keeper's failure.
  bool pause(std::chrono::nanoseconds patience, const std::function<void()>& meanwhile);
  // Returns whether the keeper knows the loop to be off the device: then all its writes are visible.
  bool asleep() const { return asleep_.load(std::memory_order_acquire); }
  // Returns whether the user has parked the loop.
  bool parked() const { return parks_.load(std::memory_order_relaxed) != 0; }

  // Makes later leases run `image`, and returns when no lease of another image is on the device. Leases roll meanwhile; the loop parks only
  // for another number of workers. The image has room for at least one worker. Throws the keeper's failure; the image may run even then.
  // Called by one thread at a time.
  void hand_over(std::unique_ptr<backend::LoadedImage> image);
  // As hand_over, but neither ends leases nor waits for them: for an image in which all opcodes mean the same. False, with nothing changed,
  // when the image has another number of workers and the loop does not park within `patience`.
  bool hand_over_quietly(std::unique_ptr<backend::LoadedImage> image, std::chrono::nanoseconds patience);

  // Waits until all currently running tasks have ended, while leases roll. A later call that waits for the device then blocks for at most
  // two leases. Otherwise it would wait for a long task and hold the driver's lock, and with it copies and launches of all threads. False
  // when the tasks have not ended within `patience`. Throws the keeper's failure.
  bool outlast_tasks(std::optional<std::chrono::nanoseconds> patience = {});

  // Makes a call that waits for the device, after outlast_tasks. Ends leases of a second or more first, or the call would wait for one to
  // its end. Throws the keeper's failure, and what `call` throws.
  void beside_tasks(const std::function<void()>& call);

  // Called after memory was allocated for tasks. Under a tool that knows only the memory that existed at the start of a lease, waits until
  // older leases have left; at most 2 s, because a task may wait for what its submitter does with the memory. Throws the keeper's failure.
  void memory_made() {
    if (settings_.memory_needs_lease) outlast_tasks(std::chrono::seconds(2));
  }

  // Returns `call` of the image of later leases, which stays loaded meanwhile; null before the first.
  template <class Call>
  auto with_image(Call call) {
    // Gives the last reference to the janitor: unloading may wait for the device.
    struct Use {
      explicit Use(Keeper& of) : keeper(of) {
        const Lock lock(keeper.mutex_);
        image = keeper.image_;
      }
      ~Use() {
        if (image.use_count() == 1) keeper.janitor_.take(std::move(image));
      }
      Use(const Use&) = delete;
      Use& operator=(const Use&) = delete;
      Keeper& keeper;
      std::shared_ptr<backend::LoadedImage> image;
    };
    const Use use(*this);
    return call(std::as_const(use.image));
  }

  // The workers of leases of such an image: as many as fit, at most the requested number.
  std::uint32_t workers_of(const backend::LoadedImage& image) const { return within_asked(image.max_workers(scratch_bytes())); }
  std::uint32_t within_asked(std::uint32_t workers) const { return std::min(workers, settings_.workers); }

  // As in FailureWatch: the keeper's failure is the device's.
  bool lost() { return failures_.lost(); }
  Error explain(const Error& error) { return failures_.explain(error); }
  void give_up(const Error& why) { failures_.give_up(why); }
  bool failed() const { return failures_.failed(); }
  Error failure() const { return failures_.failure(); }

  // Changes the settings of later leases: what to record, and where. Current leases keep theirs.
  template <class Change>
  void change_leases(Change change) {
    const Lock lock(mutex_);
    change(settings_.lease);
  }

  // Destroys objects whose destruction needs the loop off the device, or waits for the driver.
  Janitor& janitor() { return janitor_; }

  // Bytes of scratch memory of each worker.
  std::uint32_t scratch_bytes() const { return settings_.lease.scratch_bytes; }
  std::uint32_t workers() const { return workers_.load(std::memory_order_relaxed); }  // 0 before the first image
  std::uint32_t most_workers() const { return settings_.workers; }
  std::uint32_t crew() const { return crew_.load(std::memory_order_relaxed); }
  std::uint64_t leases() const { return leases_.load(std::memory_order_relaxed); }
  // The number of leases that found none on the device.
  std::uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }
  // How often the loop was taken off the device: by a park, a hand-over that parks, pause().
  std::uint64_t pauses() const { return pauses_.load(std::memory_order_relaxed); }
  // The number of the lease started last; 0 before the first.
  std::uint32_t newest() const { return newest_.load(std::memory_order_relaxed).number; }
  // The number of the last lease that works, reported by the device.
  std::uint32_t begun() const { return device::load<device::Order::relaxed, device::Scope::system>(&settings_.report->begun); }
  InFlightTasks& in_flight() { return in_flight_; }

 private:
  friend class ParkGuard;
  using Clock = std::chrono::steady_clock;

  // A lease that was started, and that not all workers are known to have left.
  struct OnDevice {
    std::uint32_t number;
    std::uint32_t slot;
    std::shared_ptr<backend::LoadedImage> image;
    bool gives_way;  // a call of others delayed its start, and may wait for its end
  };
  // A lease's number and slot in one word.
  struct alignas(8) Name {  // one access for clang too
    std::uint32_t number;
    std::uint32_t slot;
  };

  // The state of a wait for leases. They end within microseconds unless a task runs long: the wait polls closely at first, then leaves it
  // to the keeper's thread.
  struct Wait {
    std::optional<Clock::time_point> until = {};
    Clock::time_point close_look = Clock::now() + std::chrono::milliseconds(1);
    std::uint32_t rounds = 0;
  };

  bool has_left(Name lease) const {
    return device::load<device::Order::acquire, device::Scope::system>(&settings_.report->left[lease.slot]) == lease.number;
  }
  void wake();
  bool may_burst() const DWELL_REQUIRES(mutex_);
  void watch();
  void release_park();

  void ask_to_end(std::uint32_t number, bool at_once);
  // Implements Janitor::Around.
  bool destroy_beside_tasks(bool urgent, const std::function<void()>& destroy);

  // Wraps the image so that it calls `settle` before it is unloaded.
  std::shared_ptr<backend::LoadedImage> share(std::unique_ptr<backend::LoadedImage> image) const;
  void settle() const {
    if (settings_.settle) settings_.settle();
  }
  // Updates which leases have been left, and which one works.
  void collect() DWELL_REQUIRES(mutex_);
  bool loop_is_gone() const DWELL_REQUIRES(mutex_);
  bool may_start() const DWELL_REQUIRES(mutex_);
  // Returns whether a lease up to `number` is on the device.
  bool any_up_to(std::uint32_t number) const DWELL_REQUIRES(mutex_);
  // Starts a lease (may_start holds), or a burst on this stream (may_burst holds).
  void start(void* stream = nullptr) DWELL_REQUIRES(mutex_);
  void start_if_needed(bool work_known) DWELL_REQUIRES(mutex_);
  void roll_if_due(Clock::time_point now) DWELL_REQUIRES(mutex_);
  void fall_asleep() DWELL_REQUIRES(mutex_);
  void install(std::shared_ptr<backend::LoadedImage> image) DWELL_REQUIRES(mutex_);
  // Returns when the keeper must act next: a lease begins or needs a successor.
  Clock::time_point next_look(Clock::time_point now) const DWELL_REQUIRES(mutex_);
  // Starts the next lease, asks earlier ones to hand over to it, and waits until all workers have left them. False if `until` comes first.
  bool roll_over(Lock& lock, std::optional<Clock::time_point> until = {}) DWELL_REQUIRES(mutex_);
  // One round of a wait for the leases to change: releases the mutex briefly, and collects. False, at once, after the deadline. Throws the
  // failure.
  bool wait_on(Wait& wait, Lock& lock) DWELL_REQUIRES(mutex_);

  backend::Backend& backend_;
  SubmissionQueue& queue_;
  Settings settings_;

  Mutex burst_mutex_;                     // locked before mutex_: bursts begin and end in one order
  std::atomic<std::uint64_t> burst_end_;  // one past the end of the last one; changed under the mutex
  Mutex mutex_;
  Condition changed_;
  std::vector<OnDevice> on_device_ DWELL_GUARDED_BY(mutex_);  // by number
  bool stop_ DWELL_GUARDED_BY(mutex_) = false;
  std::atomic<unsigned> holds_{0};  // park guards, plus one after retire, plus one with bursts; changed under the mutex
  std::atomic<unsigned> parks_{0};  // the user's, each with one of the holds; changed under the mutex
  std::shared_ptr<backend::LoadedImage> image_ DWELL_GUARDED_BY(mutex_);
  std::uint32_t seats_workers_ DWELL_GUARDED_BY(mutex_) = 0;  // for which the seats are laid out
  std::uint32_t seats_crew_ DWELL_GUARDED_BY(mutex_) = 0;
  std::uint32_t layout_ DWELL_GUARDED_BY(mutex_) = 0;  // the lease that lays them out, until it is known to have done so
  std::uint64_t tail_seen_ DWELL_GUARDED_BY(mutex_) = 0;
  Clock::time_point active_at_ DWELL_GUARDED_BY(mutex_){};  // when the tail last moved, as far as the keeper knows
  std::uint32_t begun_ DWELL_GUARDED_BY(mutex_) = 0;        // the last lease that the keeper has seen work
  Clock::time_point begun_at_ DWELL_GUARDED_BY(mutex_){};   // when it saw that
  Clock::time_point give_way_until_ DWELL_GUARDED_BY(mutex_){};

  std::atomic<bool> asleep_{true};
  std::atomic<Name> newest_{Name{0, 0}};
  std::atomic<std::uint32_t> workers_{0};  // of image_
  std::atomic<std::uint32_t> crew_{0};
  std::atomic<std::uint64_t> leases_{0};
  std::atomic<std::uint64_t> wakes_{0};
  std::atomic<std::uint64_t> pauses_{0};

  InFlightTasks in_flight_;
  FailureWatch failures_;
  Clock::time_point next_check_{};  // of the keeper's thread

  std::thread thread_;
  Janitor janitor_;  // last: its thread uses the other members
};

inline ParkGuard::~ParkGuard() {
  if (keeper_ != nullptr) keeper_->release_park();
}

}  // namespace dwell::runtime
