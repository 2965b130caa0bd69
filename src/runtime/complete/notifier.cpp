#include "runtime/complete/notifier.hpp"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "base/callback.hpp"
#include "base/thread.hpp"
#include "runtime/caught.hpp"

namespace dwell::runtime {

Notifier::~Notifier() {
  finish();
  const Lock lock(mutex_);
  if (event_fd_ >= 0) ::close(event_fd_);
}

void Notifier::start() {
  if (started_) return;
  thread_ = with_thread("the one that calls back", nullptr, [this] { return std::thread([this] { work(); }); });
  started_ = true;
}

bool Notifier::when(Due due, Callback& callback) {
  std::list<Request> request;
  request.push_back({std::move(due), {}});
  const Lock lock(mutex_);
  if (finishing_) return false;
  start();
  request.front().callback.swap(callback);
  requests_.splice(requests_.end(), request);
  changed_.notify_all();
  return true;
}

Notifier::Prepared Notifier::prepare(Due due, Callback callback) {
  Prepared prepared;
  prepared.request_.push_back({std::move(due), std::move(callback)});
  const Lock lock(mutex_);
  if (finishing_) throw Error(errc::closed, "the runtime is closed");
  start();
  return prepared;
}

bool Notifier::when(Prepared& prepared) noexcept {
  const Lock lock(mutex_);
  if (finishing_) return false;
  requests_.splice(requests_.end(), prepared.request_);
  changed_.notify_all();
  return true;
}

void Notifier::work() noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr Clock::duration kShortest = std::chrono::microseconds(5);
  constexpr Clock::duration kLongest = std::chrono::milliseconds(1);
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  std::list<Request> waiting;
  std::list<Request> due;
  Clock::time_point since{};  // when the last request came or was answered
  Lock lock(mutex_);
  for (;;) {
    if (!requests_.empty()) since = Clock::now();
    waiting.splice(waiting.end(), requests_);
    if (waiting.empty()) {
      if (finishing_) break;
      changed_.wait(lock);
      continue;
    }
    const bool all = finishing_;
    lock.unlock();
    for (auto at = waiting.begin(); at != waiting.end();) {
      const auto request = at++;
      bool is_due = all;
      if (!is_due) static_cast<void>(failure_of(errc::invalid_argument, [&] { is_due = request->due(); }));
      if (is_due) due.splice(due.end(), waiting, request);
    }
    const bool answers = !due.empty();
    while (!due.empty()) {
      const dwell::Callback callback(runtime_, "a callback of a ticket");
      call(due.front());
      due.pop_front();  // with the callback's captures
      if (callback.is_forked()) return;
    }
    const Clock::time_point now = Clock::now();
    if (answers) since = now;
    lock.lock();
    if (!answers && requests_.empty() && !finishing_) changed_.wait_until(lock, now + std::clamp((now - since) / 8, kShortest, kLongest));
  }
}

void Notifier::call(Request& request) noexcept {
  const std::optional<Error> thrown = failure_of(errc::invalid_argument, request.callback);
  if (!thrown || !warn_) return;
  if (failure_of(errc::invalid_argument, [&] { warn_("dwell: a callback threw: " + thrown->message()); }))
    static_cast<void>(failure_of(errc::invalid_argument, [&] { warn_("dwell: a callback threw"); }));
}

int Notifier::event_fd() {
  const Lock lock(mutex_);
  if (event_fd_ < 0) event_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd_ < 0) throw Error(errc::out_of_memory, std::string("no eventfd can be opened: ") + std::strerror(errno));
  return event_fd_;
}

void Notifier::count() noexcept {
  const Lock lock(mutex_);
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the descriptor is readable already.
  if (event_fd_ >= 0) static_cast<void>(::write(event_fd_, &one, sizeof(one)) == sizeof(one));
}

void Notifier::finish() noexcept {
  std::thread thread;
  {
    const Lock lock(mutex_);
    finishing_ = true;
    thread.swap(thread_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

}  // namespace dwell::runtime
