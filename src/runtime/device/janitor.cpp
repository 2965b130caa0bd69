#include "runtime/device/janitor.hpp"

#include <exception>
#include <utility>

namespace dwell::runtime {

Janitor::~Janitor() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Janitor::take(std::shared_ptr<void> thing, std::size_t bytes) noexcept {
  if (thing == nullptr) return;
  try {
    const Lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    waste_.push_back({std::move(thing), bytes, Clock::now()});
    bytes_ += bytes;
    now_ = true;
  } catch (const std::exception&) {
    return;  // no thread or no memory: destroys the caller's reference, the last one, here
  }
  changed_.notify_all();
}

void Janitor::now() noexcept {
  {
    const Lock lock(mutex_);
    now_ = true;
  }
  changed_.notify_all();
}

bool Janitor::is_urgent() const {
  return waste_.size() > kMost || bytes_ > kMostBytes || (!waste_.empty() && Clock::now() - waste_.front().since >= longest_);
}

bool Janitor::destroy_oldest(bool urgent) {
  std::list<Waste> oldest;
  oldest.splice(oldest.begin(), waste_, waste_.begin());
  bytes_ -= oldest.front().bytes;
  const bool stop = stop_;
  bool done = true;
  {
    const Unlocked unlocked(mutex_);
    const auto destroy = [&oldest] { oldest.clear(); };
    try {
      done = stop || !around_ || around_(urgent, destroy);
    } catch (const std::exception&) {
      done = true;  // the device has failed: there is nothing to wait for
    }
    if (done) destroy();
  }
  if (!done) bytes_ += oldest.front().bytes;
  waste_.splice(waste_.begin(), oldest);
  return done;
}

void Janitor::work() {
  Lock lock(mutex_);
  for (;;) {
    while (!stop_ && waste_.empty()) changed_.wait(lock);
    if (waste_.empty()) return;
    now_ = false;
    while (!waste_.empty() && destroy_oldest(false)) {}
    if (waste_.empty()) continue;
    const auto due = waste_.front().since + longest_;
    while (!stop_ && !now_ && !is_urgent() && changed_.wait_until(lock, due) == std::cv_status::no_timeout) {}
    if (!stop_ && !now_) {
      destroy_oldest(true);
      const auto end = Clock::now() + kBreak;
      while (!stop_ && !now_ && changed_.wait_until(lock, end) == std::cv_status::no_timeout) {}
    }
  }
}

}  // namespace dwell::runtime
