#include "runtime/device/keeper.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <functional>

#include "base/relax.hpp"
#include "base/thread.hpp"
#include "runtime/caught.hpp"

namespace dwell::runtime {

namespace {

std::uint32_t ticks(std::chrono::nanoseconds time) {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)) >> device::kTickShift;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count, 1, 0x7FFFFFFF));
}

// The parts of Settings::lease_time: the length of a lease, the start of the next one, and the longest wait of workers for it. They sum up
// as a quarter of a lease, a lease and two stretches, and another lease and stretch.
std::chrono::nanoseconds length_of(std::chrono::nanoseconds lease_time) { return lease_time * 9 / 20; }
std::chrono::nanoseconds follow_of(std::chrono::nanoseconds lease_time) { return length_of(lease_time) * 3 / 4; }
// If no lease starts beside another, none comes while a long task runs: the other workers must not leave before they know of it.
std::chrono::nanoseconds stretch_of(std::chrono::nanoseconds lease_time, bool kernels_queue) {
  return kernels_queue ? lease_time * 8 : lease_time / 16;
}

constexpr std::uint32_t kEndless = 0x7FFFFFFF;  // ticks: for a burst, which ends with its tasks

// A start that takes longer has waited for a lock of the driver's.
constexpr std::chrono::microseconds kContended{100};

}  // namespace

Keeper::Keeper(backend::Backend& backend, SubmissionQueue& queue, Settings settings, FailureWatch::Describe describe)
    : backend_(backend),
      queue_(queue),
      settings_(std::move(settings)),
      burst_end_(settings_.bursts ? queue.tail() : 0),
      holds_(settings_.bursts ? 1 : 0),
      in_flight_(settings_.in_flight, settings_.workers, queue),
      failures_({backend, in_flight_, std::move(describe), settings_.task_timeout, [this] { return workers(); },
                 [this] { ask_to_end(newest(), true); }, [this] { changed_.notify_all(); }}),
      janitor_([this](bool urgent, const std::function<void()>& destroy) { return destroy_beside_tasks(urgent, destroy); }) {
  on_device_.reserve(device::kMostLeases);
  thread_ = with_thread("the keeper of leases", nullptr, [this] { return std::thread([this] { watch(); }); });
}

Keeper::~Keeper() {
  std::optional<ParkGuard> parked;
  if (!failed()) {
    try {
      parked.emplace(park_loop());
    } catch (const Error&) {
      // The device is lost: there is nothing left to park.
    }
  }
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// ---- Leases --------------------------------------------------------------------------------------------------------------------

void Keeper::collect() {
  bool any = false;
  for (auto lease = on_device_.begin(); lease != on_device_.end();) {
    if (!has_left({lease->number, lease->slot})) {
      ++lease;
      continue;
    }
    if (lease->number == layout_) layout_ = 0;
    if (lease->image != image_) janitor_.take(std::move(lease->image));
    if (lease->gives_way) give_way_until_ = Clock::now() + settings_.give_way;
    lease = on_device_.erase(lease);
    any = true;
  }
  const std::uint32_t begun = this->begun();
  if (begun != begun_) {
    begun_ = begun;
    begun_at_ = Clock::now();
    // Its workers are seated, so the seats are laid out.
    if (!device::is_after(layout_, begun)) layout_ = 0;
  }
  if (any) changed_.notify_all();
}

bool Keeper::loop_is_gone() const {
  return on_device_.empty() || on_device_.back().number != newest_.load(std::memory_order_relaxed).number;
}

bool Keeper::may_start() const {
  if (holds_ != 0 || stop_ || failed() || image_ == nullptr || on_device_.size() >= device::kMostLeases) return false;
  if (Clock::now() < give_way_until_) return false;
  // It could occupy the room that the first worker of that lease needs, and wait for it.
  if (layout_ != 0) return false;
  return on_device_.empty() || (seats_workers_ == workers() && seats_crew_ == crew());  // new seats need an empty device
}

bool Keeper::any_up_to(std::uint32_t number) const {
  return std::ranges::any_of(on_device_, [number](const OnDevice& lease) { return !device::is_after(lease.number, number); });
}

void Keeper::start(void* stream) {
  device::Lease lease = settings_.lease;
  lease.workers = workers();
  lease.crew = crew();
  lease.number = newest_.load(std::memory_order_relaxed).number + 1;
  if (lease.number == 0) lease.number = 1;  // 0 is no lease
  while (std::ranges::find(on_device_, lease.slot, &OnDevice::slot) != on_device_.end()) ++lease.slot;
  lease.wakes = loop_is_gone() ? 1 : 0;
  lease.lays_out = seats_workers_ != lease.workers || seats_crew_ != lease.crew ? 1 : 0;
  if (lease.lays_out != 0) layout_ = lease.number;
  lease.former_workers = seats_workers_;
  lease.former_crew = seats_crew_;
  lease.lease_ticks = settings_.bursts ? kEndless : ticks(length_of(settings_.lease_time));
  lease.stretch_ticks = settings_.bursts ? kEndless : ticks(stretch_of(settings_.lease_time, settings_.kernels_queue));
  lease.idle_ticks = settings_.bursts ? kEndless : ticks(settings_.idle_time);
  device::store<device::Order::relaxed, device::Scope::system>(&settings_.report->launched, lease.number);
  const auto before = Clock::now();
  try {
    if (settings_.bursts)
      backend_.start_burst(*image_, lease, stream);
    else
      backend_.start(*image_, lease);
  } catch (...) {
    failures_.fail(caught(errc::device_lost));
    return;
  }
  const bool contended = Clock::now() - before > kContended;
  on_device_.push_back({lease.number, lease.slot, image_, contended && settings_.give_way.count() != 0});
  seats_workers_ = lease.workers;
  seats_crew_ = lease.crew;
  leases_.fetch_add(1, std::memory_order_relaxed);
  if (lease.wakes != 0) wakes_.fetch_add(1, std::memory_order_relaxed);
  newest_.store({lease.number, lease.slot}, std::memory_order_relaxed);
  asleep_.store(false, std::memory_order_relaxed);
  changed_.notify_all();
  if (lease.wakes != 0 && settings_.woken) settings_.woken();
}

void Keeper::start_if_needed(bool work_known) {
  if (!loop_is_gone() || !may_start()) return;
  if (work_known || !queue_.reap()) start();
}

void Keeper::roll_if_due(Clock::time_point now) {
  const std::uint64_t tail = queue_.tail();
  if (tail != tail_seen_) active_at_ = now;
  tail_seen_ = tail;
  // One lease waits at a time. One slot stays free for a new image when long tasks hold the others.
  if (loop_is_gone() || !may_start() || begun_ != newest_.load(std::memory_order_relaxed).number) return;
  // Bounded: a long task may keep it there, and later tasks wait for a successor.
  if (on_device_.back().gives_way && now < begun_at_ + settings_.lease_time) return;
  if (on_device_.size() >= device::kMostLeases - 1 || now < begun_at_ + follow_of(settings_.lease_time)) return;
  // An idle loop is about to end the lease by itself.
  if (now - active_at_ >= settings_.idle_time / 2 && queue_.reap()) return;
  start();
}

void Keeper::fall_asleep() {
  asleep_.store(true, std::memory_order_release);
  membarrier();
  // Any task whose submitter has not seen `asleep_` is visible now.
  start_if_needed(!queue_.reap());
}

void Keeper::wake() {
  const Lock lock(mutex_);
  collect();
  start_if_needed(true);
}

void Keeper::ask_to_end(std::uint32_t number, bool at_once) {
  // A burst ends by itself; tasks that it left would run at another place of its stream.
  if (settings_.bursts && !failed()) return;
  auto* const word = at_once ? &settings_.report->end : &settings_.report->over;
  device::store<device::Order::relaxed, device::Scope::system>(word, number);
  queue_.try_close_lease(number, at_once);
}

bool Keeper::wait_on(Wait& wait, Lock& lock) {
  if (failed()) throw failure();
  const auto now = Clock::now();
  if (wait.until && now >= *wait.until) return false;
  if (now < wait.close_look) {
    const Unlocked unlocked(mutex_);
    for (int i = 0; i < 16; ++i) relax();
    if (++wait.rounds % 8 == 0) std::this_thread::yield();
  } else {
    changed_.wait_until(lock, now + std::chrono::milliseconds(10));
  }
  collect();
  return true;
}

// ---- Bursts --------------------------------------------------------------------------------------------------------------------

bool Keeper::may_burst() const {
  // The one hold is that of all bursts.
  if (holds_ != 1 || stop_ || image_ == nullptr || on_device_.size() >= device::kMostLeases) return false;
  return on_device_.empty() || (seats_workers_ == workers() && seats_crew_ == crew());
}

bool Keeper::try_burst(void* stream) {
  if (stream != nullptr) backend_.check_burst(stream);
  const Lock bursts(burst_mutex_);
  queue_.rest();
  if (queue_.tail() == burst_end_.load(std::memory_order_relaxed)) return true;
  std::uint32_t number = 0;
  {
    const Lock lock(mutex_);
    if (failed()) throw failure();
    collect();
    if (!may_burst()) return false;
    start(stream);
    if (failed()) throw failure();
    number = newest_.load(std::memory_order_relaxed).number;
  }
  // The burst runs, and makes room.
  std::optional<std::uint64_t> end;
  for (std::uint32_t round = 0; !(end = queue_.try_end_burst(number)); ++round) {
    if (failed()) throw failure();
    queue_.reap_done();
    if (round % 64 == 63) std::this_thread::yield();
    relax();
  }
  burst_end_.store(*end + 1, std::memory_order_relaxed);  // others may have submitted after it by now
  // Not before the burst has its end. Another thread's call that waits for the device, such as the loading of a module, holds driver locks
  // until the burst has ended: a thread that waits for these locks must not block the burst.
  try {
    backend_.order_behind_burst();
  } catch (...) {
    failures_.fail(caught(errc::device_lost));
    throw failure();
  }
  return true;
}

// ---- Parking -------------------------------------------------------------------------------------------------------------------

ParkGuard Keeper::park_loop() {
  Lock lock(mutex_);
  ++holds_;
  ParkGuard guard(*this);
  try {
    collect();
    if (!on_device_.empty()) {
      const std::uint32_t newest = newest_.load(std::memory_order_relaxed).number;
      lock.unlock();
      ask_to_end(newest, true);
      lock.lock();
      collect();
      for (Wait wait; !on_device_.empty();) wait_on(wait, lock);
      ++pauses_;
    }
    // No membarrier here: release_park calls it before it looks at the ring.
    asleep_.store(true, std::memory_order_release);
    if (failed()) throw failure();
    backend_.finish();
  } catch (...) {
    lock.unlock();  // the guard locks it
    throw;
  }
  janitor_.now();
  return guard;
}

std::optional<ParkGuard> Keeper::try_park_loop(std::chrono::nanoseconds patience) {
  Lock lock(mutex_);
  ++holds_;
  std::optional<ParkGuard> guard(ParkGuard(*this));
  try {
    Wait wait{Clock::now() + patience};
    collect();
    const bool empty = on_device_.empty();
    while (!on_device_.empty()) {
      if (wait_on(wait, lock)) continue;
      lock.unlock();
      return std::nullopt;
    }
    if (!empty) ++pauses_;
    asleep_.store(true, std::memory_order_release);
    backend_.finish();
  } catch (...) {
    lock.unlock();
    throw;
  }
  return guard;
}

bool Keeper::pause(std::chrono::nanoseconds patience, const std::function<void()>& meanwhile) {
  // All tasks that ran have ended: the request below covers those that have begun since.
  if (!outlast_tasks(patience)) return false;
  Lock lock(mutex_);
  ++holds_;
  std::optional<ParkGuard> guard(ParkGuard(*this));
  collect();
  const std::uint32_t newest = newest_.load(std::memory_order_relaxed).number;
  bool empty = on_device_.empty();
  try {
    if (!empty) {
      const Unlocked unlocked(mutex_);
      ask_to_end(newest, true);
    }
    const bool was_empty = empty;
    for (Wait wait{Clock::now() + patience}; !empty && wait_on(wait, lock);) empty = on_device_.empty();
    if (empty) {
      if (!was_empty) ++pauses_;
      asleep_.store(true, std::memory_order_release);
      meanwhile();
    }
  } catch (...) {
    lock.unlock();  // the guard locks it
    throw;
  }
  lock.unlock();
  guard.reset();
  if (empty) return true;
  // A lease that is to end at once runs no tasks but the one that keeps it: others need a new lease.
  lock.lock();
  collect();
  if (any_up_to(newest) && newest_.load(std::memory_order_relaxed).number == newest && may_start()) start();
  return false;
}

void Keeper::release_park() {
  const Lock lock(mutex_);
  if (--holds_ != 0) return;
  membarrier();  // any task whose submitter has seen the hold, or the loop before it, is visible now
  start_if_needed(false);
}

void Keeper::retire() {
  {
    const Lock lock(mutex_);
    ++holds_;
  }
  const ParkGuard parked = park_loop();
}

void Keeper::park() {
  ParkGuard guard = park_loop();
  const Lock lock(mutex_);
  ++parks_;
  guard.keeper_ = nullptr;  // resume releases the hold
}

void Keeper::resume() {
  {
    const Lock lock(mutex_);
    if (parks_ == 0) throw Error(errc::invalid_argument, "resume without park");
    --parks_;
  }
  release_park();
}

void Keeper::resume_all() {
  for (;;) {
    {
      const Lock lock(mutex_);
      if (parks_ == 0) return;
      --parks_;
    }
    release_park();
  }
}

// ---- Images --------------------------------------------------------------------------------------------------------------------

void Keeper::install(std::shared_ptr<backend::LoadedImage> image) {
  const std::uint32_t workers = workers_of(*image);
  image_.swap(image);
  workers_.store(workers, std::memory_order_relaxed);
  crew_.store(std::clamp<std::uint32_t>(workers / 8, 1, device::kMaxCrew), std::memory_order_relaxed);
  // A lease that runs it still refers to it: then collect gives it to the janitor.
  const bool in_use = std::ranges::any_of(on_device_, [&](const OnDevice& lease) { return lease.image == image; });
  if (!in_use) janitor_.take(std::move(image));
}

std::shared_ptr<backend::LoadedImage> Keeper::share(std::unique_ptr<backend::LoadedImage> image) const {
  return {image.release(), [this](backend::LoadedImage* last) {
            settle();
            delete last;
          }};
}

void Keeper::hand_over(std::unique_ptr<backend::LoadedImage> image) {
  const std::uint32_t workers = workers_of(*image);
  std::shared_ptr<backend::LoadedImage> shared = share(std::move(image));
  Lock lock(mutex_);
  if (workers != seats_workers_) {
    lock.unlock();
    const ParkGuard parked = park_loop();
    lock.lock();
    install(std::move(shared));
    lock.unlock();  // before the guard locks it
    settle();
    janitor_.now();
    return;
  }
  install(std::move(shared));
  roll_over(lock);
  lock.unlock();
  settle();
}

bool Keeper::outlast_tasks(std::optional<std::chrono::nanoseconds> patience) {
  Lock lock(mutex_);
  return roll_over(lock, patience ? std::optional(Clock::now() + *patience) : std::nullopt);
}

void Keeper::beside_tasks(const std::function<void()>& call) {
  constexpr std::chrono::seconds kLong{1};
  if (settings_.bursts || settings_.lease_time < kLong) {
    outlast_tasks();
    return call();
  }
  while (!pause(kLong, call)) {}
}

bool Keeper::destroy_beside_tasks(bool urgent, const std::function<void()>& destroy) {
  // The loop stays off during the driver call: a task that begins could block it.
  if (const auto parked = try_park_loop(std::chrono::nanoseconds(0))) {
    destroy();
    return true;
  }
  if (!urgent) return false;
  outlast_tasks();
  destroy();
  return true;
}

bool Keeper::roll_over(Lock& lock, std::optional<Clock::time_point> until) {
  collect();
  const std::uint32_t last = newest_.load(std::memory_order_relaxed).number;
  const auto followed = [&] { return newest_.load(std::memory_order_relaxed).number != last; };
  for (Wait wait{until}; any_up_to(last) && !followed() && !may_start() && holds_ == 0 && !stop_;) {
    if (!wait_on(wait, lock)) return false;
  }
  if (any_up_to(last) && !followed() && may_start()) start();
  if (any_up_to(last) && followed()) {
    {
      const Unlocked unlocked(mutex_);
      ask_to_end(last, false);
    }
    collect();
  }
  for (Wait wait{until}; any_up_to(last);) {
    if (!wait_on(wait, lock)) return false;
  }
  return true;
}

bool Keeper::hand_over_quietly(std::unique_ptr<backend::LoadedImage> image, std::chrono::nanoseconds patience) {
  const std::uint32_t workers = workers_of(*image);
  std::shared_ptr<backend::LoadedImage> shared = share(std::move(image));
  // Changed by leases only; none starts with another number before the image is installed.
  const bool needs_park = [&] {
    const Lock lock(mutex_);
    return workers != seats_workers_;
  }();
  const std::optional<ParkGuard> parked = needs_park ? try_park_loop(patience) : std::nullopt;
  if (needs_park && !parked) return false;
  Lock lock(mutex_);
  install(std::move(shared));
  lock.unlock();
  return true;
}

// ---- The keeper's own thread -----------------------------------------------------------------------------------------------------

void Keeper::watch() {
  // The default slack of 50 us would be a large part of a lease.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  // A thread's first reap allocates, later ones do not.
  while (failure_of(errc::out_of_memory, [this] { queue_.reap(); })) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Lock lock(mutex_);
  while (!stop_) {
    // Others may have recorded the end of the last lease; only fall_asleep checks whether the ring is empty.
    if ((on_device_.empty() && asleep_.load(std::memory_order_relaxed)) || failed()) {
      changed_.wait(lock);
      continue;
    }
    collect();
    queue_.pass_on_cancels();
    const auto now = Clock::now();
    // It polls for new tasks afterwards.
    if (const auto until = give_way_until_; now < until) {
      lock.unlock();
      std::this_thread::sleep_until(until);
      lock.lock();
      continue;
    }
    if (loop_is_gone()) start_if_needed(false);
    if (loop_is_gone())
      fall_asleep();
    else
      roll_if_due(now);
    if (on_device_.empty()) {
      janitor_.now();
      continue;
    }
    const auto until = next_look(now);
    lock.unlock();
    std::this_thread::sleep_until(until);
    const bool check = now >= next_check_;
    if (check) next_check_ = now + std::chrono::milliseconds(5);
    // Without memory for the failure's message, it is checked again.
    const bool over = check && !failure_of(errc::out_of_memory, [&] { failures_.look(); }) && failed();
    lock.lock();
    if (over) changed_.notify_all();  // again, under the lock: a thread about to wait has missed the first one
  }
}

Keeper::Clock::time_point Keeper::next_look(Clock::time_point now) const {
  constexpr std::chrono::microseconds kShortest{20};
  constexpr std::chrono::microseconds kLongest{1000};
  const bool waits = begun_ != newest_.load(std::memory_order_relaxed).number;
  auto nap = begun_at_ + (waits ? length_of(settings_.lease_time) : follow_of(settings_.lease_time)) - now;
  // After that time either the hand-over is near, or a long task or an idle ring delays the next lease.
  if (nap <= Clock::duration::zero()) nap = waits ? Clock::duration(kShortest) : Clock::duration(5 * kShortest);
  return now + std::clamp<Clock::duration>(nap, kShortest, kLongest);
}

}  // namespace dwell::runtime
