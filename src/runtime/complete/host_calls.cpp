#include "runtime/complete/host_calls.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include <dwell/error.hpp>

#include "base/callback.hpp"
#include "base/thread.hpp"

namespace dwell::runtime {

thread_local HostCalls::Running* HostCalls::running = nullptr;

void HostCalls::prepare() {
  const Lock lock(mutex_);
  if (finishing_) throw Error(errc::closed, "the runtime is closed");
  if (threads_.empty()) start();
}

void HostCalls::start() {
  threads_.reserve(threads_.size() + 1);
  threads_.push_back(with_thread("the one that runs callbacks of graphs", nullptr, [this] { return std::thread([this] { work(); }); }));
}

void HostCalls::launches(std::shared_ptr<HostCaller> caller) {
  const Lock lock(mutex_);
  auto at = std::ranges::find(flights_, caller, &Flight::caller);
  if (at == flights_.end()) at = flights_.insert(flights_.end(), {std::move(caller), std::nullopt, 0, {}});
  if (const std::size_t most = at->tasks.size() + at->coming + 1; most > at->tasks.capacity()) at->tasks.reserve(2 * most);
  ++at->coming;
  changed_.notify_all();
}

void HostCalls::placed(const HostCaller& caller, std::optional<std::uint64_t> position, bool of_task) noexcept {
  const Lock lock(mutex_);
  const auto at = std::ranges::find(flights_, &caller, [](const Flight& flight) { return flight.caller.get(); });
  if (at == flights_.end()) return;
  --at->coming;
  if (position && of_task) at->tasks.push_back(*position);
  if (position && !of_task) at->last = position;
}

std::optional<HostCall> HostCalls::find(std::shared_ptr<HostCaller>& caller, std::list<Flight>& ended) {
  for (auto at = flights_.begin(); at != flights_.end();) {
    const auto flight = at++;
    // In this order: a launch that is complete has no calls left.
    std::erase_if(flight->tasks, done_);
    const bool over = flight->coming == 0 && flight->tasks.empty() && (!flight->last || done_(*flight->last));
    if (const std::optional<HostCall> call = flight->caller->next()) {
      caller = flight->caller;
      flights_.splice(flights_.end(), flights_, flight);  // serves the others first
      return call;
    }
    if (over) ended.splice(ended.end(), flights_, flight);
  }
  return std::nullopt;
}

void HostCalls::work() noexcept {
  constexpr Clock::duration kClosely = std::chrono::microseconds(20);
  constexpr Clock::duration kShortest = std::chrono::microseconds(5);
  constexpr Clock::duration kLongest = std::chrono::milliseconds(1);
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  std::shared_ptr<HostCaller> caller;
  std::list<Flight> ended;
  Clock::time_point since{};  // of the last work
  Running mine{this};
  running = &mine;
  Lock lock(mutex_);
  mine.next = std::exchange(working_, &mine);
  while (!finishing_) {
    if (flights_.empty() && mine.leads) led_ = mine.leads = false;
    if (!mine.leads) {
      if (led_ || flights_.empty()) {
        ++idle_;
        changed_.wait(lock);
        --idle_;
        continue;
      }
      led_ = mine.leads = true;
      since = Clock::now();
    }
    const std::optional<HostCall> call = find(caller, ended);
    if (call || !ended.empty()) {
      mine.launch = call ? call->launch : 0;
      mine.caller = caller.get();
      mine.number = call ? call->number : 0;
      mine.since = Clock::now();
      // Destroys captures of callbacks without the lock: they may call this object.
      lock.unlock();
      {
        const Callback callback(runtime_, "the callback of a host node");
        ended.clear();
        if (call) caller->answer(*call, causes_);
        if (callback.is_forked()) return;
      }
      lock.lock();
      mine.caller = nullptr;
      lock.unlock();
      {
        const Callback callback(runtime_, "the callback of a host node");
        caller.reset();
        if (callback.is_forked()) return;
      }
      lock.lock();
      since = Clock::now();
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (now - since < kClosely) {
      const Unlocked unlocked(mutex_);
      std::this_thread::yield();
    } else {
      changed_.wait_until(lock, now + std::clamp((now - since) / 8, kShortest, kLongest));
    }
  }
  if (mine.leads) led_ = false;
  Running** at = &working_;
  while (*at != &mine) at = &(*at)->next;
  *at = mine.next;
}

void HostCalls::let_go(const HostCalls* at, std::optional<std::uint64_t> task) {
  Running& mine = *running;
  const Lock lock(mutex_);
  if (mine.leads) {
    if (idle_ == 0 && !finishing_) start();
    mine.leads = false;
    led_ = false;
    changed_.notify_all();
  }
  if (at == this) mine.waits_for = task;
}

void HostCalls::go_on() noexcept {
  const Lock lock(mutex_);
  running->waits_for.reset();
}

std::vector<HostCalls::Open> HostCalls::open() {
  std::vector<Open> all;
  const Lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (const Running* one = working_; one != nullptr; one = one->next)
    if (one->caller != nullptr) all.push_back({one->launch, one->caller->name(one->number), true, one->waits_for, now - one->since});
  for (const Flight& flight : flights_)
    for (const HostCall& call : flight.caller->waiting()) all.push_back({call.launch, flight.caller->name(call.number), false, {}, {}});
  return all;
}

void HostCalls::finish() noexcept {
  for (;;) {
    std::vector<std::thread> threads;
    {
      const Lock lock(mutex_);
      finishing_ = true;
      threads.swap(threads_);
      changed_.notify_all();
    }
    if (threads.empty()) break;
    for (std::thread& thread : threads) thread.join();
  }
  std::list<Flight> left;  // destroyed without the lock
  const Lock lock(mutex_);
  left.swap(flights_);
}

}  // namespace dwell::runtime
