#include "runtime/lease/janitor.hpp"

#include <exception>
#include <utility>

namespace dwell::runtime {

Janitor::~Janitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Janitor::take(std::shared_ptr<void> thing, std::size_t bytes) noexcept {
  if (thing == nullptr) return;
  try {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    waste_.push_back({std::move(thing), bytes, Clock::now()});
    bytes_ += bytes;
    now_ = true;
  } catch (const std::exception&) {
    return;  // no thread or no memory: the caller's reference is the last one, and goes here
  }
  changed_.notify_all();
}

void Janitor::now() noexcept {
  {
    const std::lock_guard lock(mutex_);
    now_ = true;
  }
  changed_.notify_all();
}

bool Janitor::is_urgent() const {
  return waste_.size() > kMost || bytes_ > kMostBytes || (!waste_.empty() && Clock::now() - waste_.front().since >= longest_);
}

// False when the loop is on the device, and it is not urgent.
bool Janitor::destroy_oldest(std::unique_lock<std::mutex>& lock, bool urgent) {
  std::list<Waste> oldest;
  oldest.splice(oldest.begin(), waste_, waste_.begin());
  bytes_ -= oldest.front().bytes;
  const auto destroy = [&oldest] { oldest.clear(); };
  const bool stop = stop_;
  lock.unlock();
  bool done = true;
  try {
    done = stop || !around_ || around_(urgent, destroy);
  } catch (const std::exception&) {
    done = true;  // the device has failed: there is nothing to wait for
  }
  if (done) destroy();
  lock.lock();
  if (!done) bytes_ += oldest.front().bytes;
  waste_.splice(waste_.begin(), oldest);
  return done;
}

void Janitor::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waste_.empty(); });
    if (waste_.empty()) return;
    now_ = false;
    while (!waste_.empty() && destroy_oldest(lock, false)) {}
    if (waste_.empty()) continue;
    changed_.wait_until(lock, waste_.front().since + longest_, [this] { return stop_ || now_ || is_urgent(); });
    if (!stop_ && !now_) {
      destroy_oldest(lock, true);
      changed_.wait_for(lock, kBreak, [this] { return stop_ || now_; });
    }
  }
}

}  // namespace dwell::runtime
