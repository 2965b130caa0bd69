#include "runtime/lease/janitor.hpp"

#include <chrono>
#include <exception>
#include <utility>

namespace dwell::runtime {

namespace {

constexpr std::size_t kTogether = 16;
constexpr std::chrono::seconds kLongest{1};

}  // namespace

Janitor::~Janitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Janitor::take(std::shared_ptr<void> waste) noexcept {
  if (waste == nullptr) return;
  try {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    waste_.push_back(std::move(waste));
  } catch (const std::exception&) {
    return;  // no thread or no memory: the caller's reference is the last one, and goes here
  }
  changed_.notify_all();
}

void Janitor::now() noexcept {
  {
    const std::lock_guard lock(mutex_);
    now_ = busy_ || !waste_.empty();
  }
  changed_.notify_all();
}

void Janitor::work() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  std::list<std::shared_ptr<void>> waste;
  const auto destroy = [&waste] { waste.clear(); };
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waste_.empty(); });
    const auto until = Clock::now() + kLongest;
    bool stop = false;
    bool done = false;
    do {
      changed_.wait_until(lock, until, [this] { return stop_ || now_ || waste_.size() >= kTogether; });
      stop = stop_;
      const bool urgent = waste_.size() >= kTogether || Clock::now() >= until;
      now_ = false;
      waste.splice(waste.end(), waste_);
      busy_ = true;
      lock.unlock();
      try {
        if (stop || !around_ || around_(urgent, destroy)) destroy();
      } catch (const std::exception&) {
        destroy();  // the device has failed: there is nothing to wait for
      }
      lock.lock();
      busy_ = false;
      done = waste.empty();
      waste_.splice(waste_.begin(), waste);
    } while (!done);
    if (stop && waste_.empty()) return;
  }
}

}  // namespace dwell::runtime
