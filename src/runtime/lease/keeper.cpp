#include "runtime/lease/keeper.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <functional>

namespace dwell::runtime {

namespace {

std::uint32_t ticks(std::chrono::nanoseconds time) {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)) >> device::kTickShift;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count, 1, 0x7FFFFFFF));
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Keeper::Keeper(backend::Backend& backend, SubmissionQueue& queue, Settings settings, Describe describe)
    : backend_(backend), queue_(queue), settings_(settings), describe_(std::move(describe)) {
  thread_ = std::thread([this] { watch(); });
}

Keeper::~Keeper() {
  if (!failed()) {
    try {
      hold();
    } catch (const Error&) {
      // The device is lost: there is nothing left to hold.
    }
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Keeper::note_end() {
  if (running_ && left() == epoch_.load(std::memory_order_relaxed)) {
    running_ = false;
    changed_.notify_all();
  }
}

void Keeper::start_if_needed(bool work_known) {
  if (running_ || holds_ != 0 || stop_ || failed() || image_ == nullptr) return;
  const auto now = Clock::now();
  const std::uint64_t tail = queue_.tail();
  if (tail != tail_seen_) active_until_ = now + settings_.idle_time;
  tail_seen_ = tail;
  // With nothing to do, a lease follows only on one that ran its full time while Options::idle is longer still.
  const bool lingers = now - started_at_ >= settings_.lease_time && now < active_until_;
  if (!work_known && queue_.reap() && !lingers) return;
  started_at_ = now;
  device::Lease lease = settings_.lease;
  lease.workers = workers();
  lease.crew = crew();
  lease.number = epoch_.load(std::memory_order_relaxed) + 1;
  lease.lease_ticks = ticks(settings_.lease_time);
  lease.idle_ticks = ticks(settings_.idle_time);
  try {
    backend_.start(*image_, lease);
  } catch (const Error& error) {
    fail(error.kind(), error.message() + suspects());
    return;
  }
  running_ = true;
  leases_.fetch_add(1, std::memory_order_relaxed);
  epoch_.store(lease.number, std::memory_order_relaxed);
  asleep_.store(false, std::memory_order_relaxed);
  changed_.notify_all();
}

void Keeper::wake() {
  const std::lock_guard lock(mutex_);
  note_end();
  start_if_needed(true);
}

void Keeper::hold() {
  std::unique_lock lock(mutex_);
  ++holds_;
  note_end();
  if (running_) {
    const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed);
    lock.unlock();
    device::store<device::Order::relaxed, device::Scope::system>(&settings_.report->end, epoch);
    queue_.try_close_lease(epoch);
    // Parking takes microseconds unless a task runs long; then the keeper's thread sees the end.
    const auto until = Clock::now() + std::chrono::milliseconds(1);
    for (std::uint32_t round = 1; left() != epoch && Clock::now() < until; ++round) {
      if (round % 64 == 0) std::this_thread::yield();
      relax();
    }
    lock.lock();
    note_end();
    changed_.wait(lock, [this] { return !running_ || failed(); });
  }
  // No membarrier here: resume looks at the ring under the submission lock, so it sees the task of any submitter that had the lock before,
  // and any later one sees this.
  asleep_.store(true, std::memory_order_relaxed);
  if (failed()) throw failure();
  backend_.finish();
}

bool Keeper::hold_at_end(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  ++holds_;
  note_end();
  if (!changed_.wait_for(lock, patience, [this] { return !running_ || failed(); })) {
    --holds_;
    return false;
  }
  asleep_.store(true, std::memory_order_relaxed);
  if (failed()) throw failure();
  backend_.finish();
  return true;
}

void Keeper::resume() {
  const std::lock_guard lock(mutex_);
  if (holds_ == 0) throw Error(errc::invalid_argument, "resume without park");
  if (--holds_ == 0) start_if_needed(false);
}

void Keeper::resume_all() {
  const std::lock_guard lock(mutex_);
  holds_ = 0;
  start_if_needed(false);
}

void Keeper::install(std::unique_ptr<backend::LoadedImage> program) {
  const std::uint32_t workers = workers_of(*program);
  const std::lock_guard lock(mutex_);
  image_ = std::move(program);
  workers_.store(workers, std::memory_order_relaxed);
  crew_.store(std::clamp<std::uint32_t>(workers / 8, 1, device::kMaxCrew), std::memory_order_relaxed);
}

void Keeper::watch() {
  // Sleeps until shortly before a lease must end; the usual slack of 50 us would be most of the gap between two leases.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!running_ || failed()) {
      changed_.wait(lock);
      continue;
    }
    const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed);
    lock.unlock();
    const bool ended = wait_for_end(epoch, Clock::now());
    lock.lock();
    if (!ended) {
      changed_.notify_all();  // once more, under the lock: whoever was about to wait has missed the one before
      continue;
    }
    note_end();
    if (running_) continue;  // a submitter was faster: this is the next lease already
    start_if_needed(false);
    if (running_) continue;
    asleep_.store(true, std::memory_order_relaxed);
    membarrier();
    // Any task whose submitter has not seen `asleep_` is visible now.
    start_if_needed(!queue_.reap());
  }
}

bool Keeper::wait_for_end(std::uint32_t epoch, Clock::time_point started) {
  // A busy lease ends at its time: look closely only around then, and rarely before and after.
  const auto busy_end = started + settings_.lease_time;
  for (;;) {
    const auto now = Clock::now();
    if (left() == epoch) return true;
    if (epoch_.load(std::memory_order_relaxed) != epoch) return true;
    if (now < busy_end - std::chrono::microseconds(120)) {
      const auto nap = std::min<Clock::duration>(busy_end - std::chrono::microseconds(120) - now, std::chrono::milliseconds(1));
      std::this_thread::sleep_for(nap);
    } else if (now < busy_end + std::chrono::microseconds(300)) {
      for (int i = 0; i < 64 && left() != epoch; ++i) relax();
      continue;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (now >= next_look_) {
      next_look_ = now + std::chrono::milliseconds(5);
      if (overstayed(now)) return false;
    }
  }
}

bool Keeper::lost() {
  if (failed()) return true;
  const std::string fault = backend_.fault();
  if (fault.empty()) return false;
  fail(errc::device_lost, "the device failed: " + fault + suspects());
  return true;
}

bool Keeper::overstayed(Clock::time_point now) {
  if (lost()) return true;
  if (settings_.task_timeout.count() == 0) return false;
  const std::vector<Holder> now_held = holders(false);
  sightings_.resize(workers());
  std::vector<Holder> late;
  for (const Holder& holder : now_held) {
    if (holder.worker >= sightings_.size()) continue;
    Sighting& sighting = sightings_[holder.worker];
    if (sighting.since == Clock::time_point{} || sighting.word != holder.position)
      sighting = Sighting{holder.position, now};
    else if (now - sighting.since > settings_.task_timeout)
      late.push_back(holder);
  }
  if (late.empty()) return false;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.task_timeout);
  give_up(Error(errc::task_timeout,
                "a task has run for more than " + std::to_string(limit.count()) + " ms (Options::task_timeout)" + describe_(late, true)));
  return true;
}

void Keeper::give_up(const Error& why) {
  backend_.abandon();
  fail(why.kind(), why.message());
}

std::string Keeper::suspects() const {
  const std::vector<Holder> running = holders(false);
  if (!running.empty()) return describe_(running, true);
  // A store goes its way after the task that made it, unless the task has an argument that leads to memory.
  std::vector<Holder> last = holders(true);
  std::ranges::sort(last, std::greater(), &Holder::position);
  return describe_(last, false);
}

std::vector<Keeper::Holder> Keeper::holders(bool ended) const {
  std::vector<Holder> all;
  const std::uint64_t tail = queue_.tail();
  for (std::uint32_t worker = 0; worker < workers(); ++worker) {
    const std::uint64_t word = device::load<device::Order::relaxed, device::Scope::system>(&settings_.in_flight[worker].word);
    if (word == 0) continue;
    // The record holds 32 bits of the position: it is the last one at or before the tail that ends in them.
    const std::uint64_t position = tail - static_cast<std::uint32_t>(static_cast<std::uint32_t>(tail) - static_cast<std::uint32_t>(word));
    if (position >= tail || queue_.done(position) != ended) continue;
    all.push_back(Holder{worker, position, static_cast<std::uint32_t>(word >> 32U) & 0xFFFFU});
  }
  return all;
}

void Keeper::fail(errc code, const std::string& what) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_code_ != errc::ok) return;
    failure_code_ = code;
    failure_text_ = what;
  }
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

Error Keeper::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return Error(failure_code_, failure_text_);
}

}  // namespace dwell::runtime
