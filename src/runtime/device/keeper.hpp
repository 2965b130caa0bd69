// Starts leases, and notices their end.
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

// The keeper: starts a lease when there is work, starts the next one while that works so that leases roll, and lets the device rest when
// there is nothing to do. The first thread that sees the need starts a lease: a submitter that finds the loop gone, or the keeper's own
// thread.
//
// The next lease is started when three quarters of the one that works have passed. It waits on the device until the workers of that one
// hand over (device/seat.hpp). A blocking call of others waits for the leases that were started before it: a quarter of one, all of the
// next, and what both stretch. Some calls wait twice, and between the two let a start pass that has waited for the driver's lock. The lease
// that came so has no successor until it has left, and for `give_way` nothing is started: then the call finds the device empty. All in all
// that is little more than `lease_time`.
//
// Handshake with submitters (modelled in tests/model/park.pml): a submitter stores its slot and then looks whether the loop is gone,
// with only a compiler fence between. The keeper says that it is gone, calls membarrier, and then looks at the ring once more. So
// either the keeper sees the slot, or the submitter sees that the loop is gone.
class Keeper {
 public:
  struct Settings {
    device::Lease lease;                    // all but workers, crew, number, slot and times
    device::LeaseReport* report = nullptr;  // lease.report and lease.in_flight as the host sees them
    device::InFlight* in_flight = nullptr;
    std::chrono::nanoseconds lease_time;  // others wait no longer
    std::chrono::nanoseconds give_way;    // see above; 0 where the calls of others wait for no lease
    std::chrono::nanoseconds idle_time;
    bool memory_needs_lease;  // see memory_made
    bool kernels_queue;       // no lease starts beside another
    std::chrono::nanoseconds task_timeout;
    std::uint32_t workers = 0;  // wanted
    bool bursts = false;        // leases are bursts, and start only when one is asked for
    // Called when a lease has been started that found none on the device, with the keeper's mutex held; may be empty, as the next.
    std::function<void()> woken = {};
    // Called before an image goes, and when a hand-over has come to its end; perhaps with the keeper's mutex held. Must not throw.
    std::function<void()> settle = {};
  };

  // Throws errc::out_of_memory when its thread cannot be made.
  Keeper(backend::Backend& backend, SubmissionQueue& queue, Settings settings, FailureWatch::Describe describe);
  // Takes the loop off the device; nothing may be in flight any more, or it is lost.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Called by submitters behind their last slot store. Costs three loads while the loop is on the device, two while it is parked.
  void submitted() {
    frequent_fence();
    if (asleep_.load(std::memory_order_relaxed) || has_left(newest_.load(std::memory_order_relaxed))) [[unlikely]] {
      if (holds_.load(std::memory_order_relaxed) == 0) wake();  // else release_park looks
    }
  }

  // The same by those who wait for the task at `position`, or kRoom: where leases are bursts, nobody else may run it.
  static constexpr std::uint64_t kRoom = ~std::uint64_t{0};
  void awaited(std::uint64_t position) {
    if (!settings_.bursts)
      submitted();
    else if (position >= burst_end_.load(std::memory_order_relaxed) && !parked())
      try_burst(nullptr);
  }
  // Runs what was submitted before in a burst, between what the stream holds and what comes there later; null: at once. Returns when the
  // burst is under way; at once when there is nothing to run. False, with nothing changed, while the loop is kept off the device, or too
  // many bursts are under way. Throws the keeper's failure.
  bool try_burst(void* stream);

  // Whether the place at `position` is the end of the last burst, which stands there until the next one.
  bool ends_burst(std::uint64_t position) const { return position + 1 == burst_end_.load(std::memory_order_relaxed); }

  // Takes the loop off the device: waits for tasks that run, not for those that wait. Returns when the device is rid of it. Throws the
  // keeper's failure.
  [[nodiscard]] ParkGuard park_loop();
  // The same by starting no further lease, so that nobody else waits for a task that runs long. Nothing when the last lease has not left
  // within `patience`.
  [[nodiscard]] std::optional<ParkGuard> try_park_loop(std::chrono::nanoseconds patience);
  // Takes the loop off the device for good: no lease starts any more, also when it throws. Throws the keeper's failure.
  void retire();
  // The user's own parks, which are counted apart. resume throws errc::invalid_argument without a park.
  void park();
  void resume();
  // As many resumes as there were parks of the user.
  void resume_all();

  // Takes the loop off the device for a moment, calls `meanwhile`, and lets it come back. False when that did not succeed within
  // `patience`, since a task runs long: then nobody has waited for that task but the caller. Throws the keeper's failure.
  bool pause(std::chrono::nanoseconds patience, const std::function<void()>& meanwhile);
  // Whether the loop is off the device, as far as the keeper knows: all that it has written is there then.
  bool asleep() const { return asleep_.load(std::memory_order_acquire); }
  // Whether the user has parked the loop.
  bool parked() const { return parks_.load(std::memory_order_relaxed) != 0; }

  // Makes `image` the one that leases run from now on, and returns when no lease of another is on the device. Leases roll meanwhile; the
  // loop parks only where the image has another number of workers. It has room for a worker at least. Throws the keeper's failure; then the
  // image may run all the same. Called by one thread at a time.
  void hand_over(std::unique_ptr<backend::LoadedImage> image);
  // The same, but asks no lease to end and waits for none: for an image in which all opcodes mean the same. False, with nothing changed,
  // when the image has another number of workers and the loop does not park within `patience`.
  bool hand_over_quietly(std::unique_ptr<backend::LoadedImage> image, std::chrono::nanoseconds patience);

  // Waits until all tasks have ended that run now, while leases roll. A call that waits for the device then blocks for two leases at most:
  // behind a long task it would hold the driver's lock for as long, and with it the copies and launches of all threads. False when they
  // have not ended within `patience`. Throws the keeper's failure.
  bool outlast_tasks(std::optional<std::chrono::nanoseconds> patience = {});

  // Makes a call that waits for the device, behind outlast_tasks. Leases of a second and more leave for it, or it would wait for one to its
  // end. Throws the keeper's failure, and what `call` throws.
  void beside_tasks(const std::function<void()>& call);

  // Memory has been allocated for tasks. Under a tool that knows only what was there when a lease was started, waits until those leases
  // have left; 2 s at most, because a task may wait for what its submitter does with the memory. Throws the keeper's failure.
  void memory_made() {
    if (settings_.memory_needs_lease) outlast_tasks(std::chrono::seconds(2));
  }

  // What `call` returns of the image that leases run from now on, which stays loaded meanwhile; null before the first.
  template <class Call>
  auto with_image(Call call) {
    // The last reference goes to the janitor, because to unload may wait for the device.
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

  // The workers of leases of such an image: as many as there is room for, and no more than were asked for.
  std::uint32_t workers_of(const backend::LoadedImage& image) const { return within_asked(image.max_workers(scratch_bytes())); }
  std::uint32_t within_asked(std::uint32_t workers) const { return std::min(workers, settings_.workers); }

  // As of FailureWatch: the keeper's failure is the device's.
  bool lost() { return failures_.lost(); }
  Error explain(const Error& error) { return failures_.explain(error); }
  void give_up(const Error& why) { failures_.give_up(why); }
  bool failed() const { return failures_.failed(); }
  Error failure() const { return failures_.failure(); }

  // Changes what leases are given that are started from now on: what is to be noted, and where. Those on the device go on as they are.
  template <class Change>
  void change_leases(Change change) {
    const Lock lock(mutex_);
    change(settings_.lease);
  }

  // Takes things whose destruction needs the loop off the device, or waits for the driver.
  Janitor& janitor() { return janitor_; }

  // Bytes of scratch memory that each worker is given.
  std::uint32_t scratch_bytes() const { return settings_.lease.scratch_bytes; }
  std::uint32_t workers() const { return workers_.load(std::memory_order_relaxed); }  // 0 before the first image
  std::uint32_t most_workers() const { return settings_.workers; }
  std::uint32_t crew() const { return crew_.load(std::memory_order_relaxed); }
  std::uint64_t leases() const { return leases_.load(std::memory_order_relaxed); }
  // How many of them found no lease on the device.
  std::uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }
  // How often the loop was on the device and was taken off: by a park, a hand-over that parks, pause().
  std::uint64_t pauses() const { return pauses_.load(std::memory_order_relaxed); }
  // The number of the lease that was started last; 0 before the first.
  std::uint32_t newest() const { return newest_.load(std::memory_order_relaxed).number; }
  // The number of the last lease that works, as the device has said.
  std::uint32_t begun() const { return device::load<device::Order::relaxed, device::Scope::system>(&settings_.report->begun); }
  InFlightTasks& in_flight() { return in_flight_; }

 private:
  friend class ParkGuard;
  using Clock = std::chrono::steady_clock;

  // A lease that has been started and not left by all workers, as far as the keeper has noted.
  struct OnDevice {
    std::uint32_t number;
    std::uint32_t slot;
    std::shared_ptr<backend::LoadedImage> image;
    bool gives_way;  // a call of others held up its start, and may wait for its end
  };
  // A lease's number and slot in one word.
  struct alignas(8) Name {  // one access for clang too
    std::uint32_t number;
    std::uint32_t slot;
  };

  // How a wait for leases goes on. They end within microseconds unless a task runs long, so it looks closely at first; after that the
  // keeper's thread sees the end.
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
  // Gives things of the driver back, see Janitor::Around.
  bool destroy_beside_tasks(bool urgent, const std::function<void()>& destroy);

  // The image, which tells `settle` before it goes.
  std::shared_ptr<backend::LoadedImage> share(std::unique_ptr<backend::LoadedImage> image) const;
  void settle() const {
    if (settings_.settle) settings_.settle();
  }
  // Notes which leases have been left, and which one works.
  void collect() DWELL_REQUIRES(mutex_);
  bool loop_is_gone() const DWELL_REQUIRES(mutex_);
  bool may_start() const DWELL_REQUIRES(mutex_);
  // Whether a lease is on the device that is no later than `number`.
  bool any_up_to(std::uint32_t number) const DWELL_REQUIRES(mutex_);
  // Starts a lease, which may_start allows; or a burst, which may_burst allows, on this stream.
  void start(void* stream = nullptr) DWELL_REQUIRES(mutex_);
  void start_if_needed(bool work_known) DWELL_REQUIRES(mutex_);
  void roll_if_due(Clock::time_point now) DWELL_REQUIRES(mutex_);
  void fall_asleep() DWELL_REQUIRES(mutex_);
  void install(std::shared_ptr<backend::LoadedImage> image) DWELL_REQUIRES(mutex_);
  // When there may be something to do: a lease begins or is due to be followed.
  Clock::time_point next_look(Clock::time_point now) const DWELL_REQUIRES(mutex_);
  // Starts the next lease, asks those before to hand over to it, and waits until all workers have left them. False when `until` comes
  // first.
  bool roll_over(Lock& lock, std::optional<Clock::time_point> until = {}) DWELL_REQUIRES(mutex_);
  // One round of a wait for the leases to change: lets go of the mutex for a moment, and collects. False, at once, when the time is up.
  // Throws the failure.
  bool wait_on(Wait& wait, Lock& lock) DWELL_REQUIRES(mutex_);

  backend::Backend& backend_;
  SubmissionQueue& queue_;
  Settings settings_;

  Mutex burst_mutex_;                     // before mutex_: bursts begin and end in one order
  std::atomic<std::uint64_t> burst_end_;  // one past the end of the last one; changed under the mutex
  Mutex mutex_;
  Condition changed_;
  std::vector<OnDevice> on_device_ DWELL_GUARDED_BY(mutex_);  // by number
  bool stop_ DWELL_GUARDED_BY(mutex_) = false;
  std::atomic<unsigned> holds_{0};  // park guards, one since retire, one where leases are bursts; changed under the mutex
  std::atomic<unsigned> parks_{0};  // of the user, each with one of the holds; changed under the mutex
  std::shared_ptr<backend::LoadedImage> image_ DWELL_GUARDED_BY(mutex_);
  std::uint32_t seats_workers_ DWELL_GUARDED_BY(mutex_) = 0;  // as the seats are laid out
  std::uint32_t seats_crew_ DWELL_GUARDED_BY(mutex_) = 0;
  std::uint32_t layout_ DWELL_GUARDED_BY(mutex_) = 0;  // the lease that lays them out, until that is known to have happened
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
  Janitor janitor_;  // last: its thread uses the others
};

inline ParkGuard::~ParkGuard() {
  if (keeper_ != nullptr) keeper_->release_park();
}

}  // namespace dwell::runtime
