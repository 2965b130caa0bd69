#include "runtime/kernels/launches.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "runtime/device/backoff.hpp"

namespace dwell::runtime {

std::uint64_t Launches::launch(backend::LoadedModule& kernels, const backend::KernelLaunch& launch, Needs needs) {
  const auto completion = std::make_shared<std::unique_ptr<backend::Completion>>();
  std::uint64_t number = 0;
  {
    const Lock lock(mutex_);
    if (closed_) throw Error(errc::closed, "the runtime is closed");
    // Before the launch: from now on dropped memory waits for this number.
    in_flight_.emplace(next_, Flight{nullptr, std::move(needs)});
    number = next_++;
    ++entering_;
  }
  std::exception_ptr refusal;
  try {
    *completion = backend_.launch(kernels, launch);
  } catch (...) {
    refusal = std::current_exception();
  }
  {
    const Lock lock(mutex_);
    --entering_;
    const auto at = in_flight_.find(number);
    if (refusal)
      ended_.insert(in_flight_.extract(at));
    else
      at->second.completion = completion;
    entered_.notify_all();
  }
  if (refusal) std::rethrow_exception(refusal);
  return number;
}

void Launches::look(std::uint64_t number) noexcept {
  try {
    Completion completion;
    std::string kernel;
    {
      const Lock lock(mutex_);
      const auto at = in_flight_.find(number);
      if (at == in_flight_.end() || at->second.completion == nullptr) return;
      completion = at->second.completion;
      kernel = at->second.needs.kernel;
    }
    std::optional<Error> error;
    try {
      if (!(*completion)->done()) return;
    } catch (const Error& failure) {
      error =
          Error(failure.kind(), "launch " + std::to_string(number) + " of kernel " + kernel + ": " + failure.message(), {"kernel", kernel});
    }
    const Lock lock(mutex_);
    const auto at = in_flight_.find(number);
    if (at == in_flight_.end()) return;
    if (error) errors_.emplace(number, *error);
    ended_.insert(in_flight_.extract(at));
  } catch (const std::bad_alloc&) {
    return;  // polled again later
  }
}

void Launches::look_around() noexcept {
  constexpr int kOthers = 4;
  for (int others = 0; others < kOthers;) {
    std::uint64_t oldest = 0;
    std::uint64_t other = 0;
    {
      const Lock lock(mutex_);
      if (in_flight_.empty()) return;
      oldest = in_flight_.begin()->first;
      const auto at = in_flight_.upper_bound(looked_at_);
      other = at == in_flight_.end() ? oldest : at->first;
      looked_at_ = other;
    }
    look(oldest);
    if (ended(oldest)) continue;
    if (other != oldest) look(other);
    ++others;
  }
}

bool Launches::ended(std::uint64_t number) const {
  const Lock lock(mutex_);
  return !in_flight_.contains(number);
}

bool Launches::done(std::uint64_t number) {
  look(number);
  return ended(number);
}

bool Launches::wait(std::uint64_t number, std::optional<Clock::time_point> deadline) {
  Backoff backoff(true);
  while (!done(number)) {
    if (!backoff.wait()) continue;
    if (deadline && Clock::now() >= *deadline) return done(number);
  }
  return true;
}

std::optional<Error> Launches::error_of(std::uint64_t number) const {
  const Lock lock(mutex_);
  const auto at = errors_.find(number);
  if (at == errors_.end()) return std::nullopt;
  return at->second;
}

std::map<std::uint64_t, Error> Launches::errors() const {
  const Lock lock(mutex_);
  return errors_;
}

std::vector<std::uint64_t> Launches::naming(std::uint64_t begin, std::uint64_t end) const {
  std::vector<std::uint64_t> numbers;
  const Lock lock(mutex_);
  for (const auto& [number, flight] : in_flight_) {
    const auto inside = [&](std::uint64_t address) { return address >= begin && address < end; };
    if (std::ranges::any_of(flight.needs.addresses, inside)) numbers.push_back(number);
  }
  return numbers;
}

std::uint64_t Launches::next() const {
  const Lock lock(mutex_);
  return next_;
}

std::uint64_t Launches::settled() {
  look_around();
  const Lock lock(mutex_);
  return in_flight_.empty() ? next_ : in_flight_.begin()->first;
}

void Launches::wait_before(std::uint64_t number) {
  Backoff backoff(true);
  while (settled() < number) backoff.wait();
}

void Launches::collect() {
  look_around();
  Flights given_up;  // outside the lock
  const Lock lock(mutex_);
  given_up.swap(ended_);
}

std::string Launches::kernel_of(std::uint64_t number) const {
  const Lock lock(mutex_);
  const auto at = in_flight_.find(number);
  return at == in_flight_.end() ? std::string() : at->second.needs.kernel;
}

std::string Launches::in_flight() const {
  constexpr std::size_t kMost = 8;
  const Lock lock(mutex_);
  std::string text;
  std::size_t count = 0;
  for (const auto& [number, flight] : in_flight_) {
    if (++count > kMost) return text + ", and " + std::to_string(in_flight_.size() - kMost) + " more";
    text += (text.empty() ? "" : ", ") + flight.needs.kernel + " (launch " + std::to_string(number) + ")";
  }
  return text;
}

std::string Launches::close(std::chrono::nanoseconds patience) {
  std::size_t left = 0;
  {
    Lock lock(mutex_);
    closed_ = true;
    while (entering_ != 0) entered_.wait(lock);
    left = in_flight_.size();
  }
  Clock::time_point since = Clock::now();
  for (Backoff pause(true); left != 0;) {
    look_around();
    const std::size_t before = std::exchange(left, [this] {
      const Lock lock(mutex_);
      return in_flight_.size();
    }());
    if (left != before)
      since = Clock::now();
    else if (pause.wait() && patience.count() != 0 && Clock::now() - since > patience)
      return in_flight();
  }
  collect();
  return {};
}

}  // namespace dwell::runtime
