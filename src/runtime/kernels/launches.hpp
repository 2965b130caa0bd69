// Launches of ordinary kernels, and their failures.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"

namespace dwell::runtime {

// Numbers launches from 0, keeps their needs until they end, and reports their state. Launches on different streams end in any order. Waits
// by polling: no thread waits inside the driver. Members may be called from any thread.
//
// Invariant: a number is in `in_flight_` from before its launch returns until it is known to have ended, and every number below
// `settled()` has ended.
class Launches {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Launches(backend::Backend& backend) : backend_(backend) {}
  // Launches still in flight are lost.
  ~Launches() = default;
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  // The needs of a launch beside the backend's call. `addresses`: arguments that may point to memory; `keep`: kept until the launch has
  // ended, and dropped by collect.
  struct Needs {
    std::string kernel;
    std::vector<std::uint64_t> addresses;
    std::shared_ptr<const void> keep;
  };
  // Launches a kernel, and returns the launch's number. Throws as Backend::launch, and errc::closed after close has begun.
  std::uint64_t launch(backend::LoadedModule& kernels, const backend::KernelLaunch& launch, Needs needs);

  // Returns whether the launch has ended, successfully or not. Does not block.
  bool done(std::uint64_t number);
  // Waits for a launch, until `deadline` if there is one; false at the deadline.
  bool wait(std::uint64_t number, std::optional<Clock::time_point> deadline);
  // The error of a launch that has ended; nothing after a success.
  std::optional<Error> error_of(std::uint64_t number) const;
  // The errors of all launches, by number.
  std::map<std::uint64_t, Error> errors() const;

  // The launches in flight that have an argument which is an address in [begin, end).
  std::vector<std::uint64_t> naming(std::uint64_t begin, std::uint64_t end) const;
  // One past the last assigned number, and the first that may still be in flight.
  std::uint64_t next() const;
  std::uint64_t settled();
  // Waits for every launch before `number`.
  void wait_before(std::uint64_t number);

  // Drops what ended launches have kept. Takes as long as the destructors of those things.
  void collect();

  // Returns the kernel of a launch in flight; empty if the launch is known to have ended.
  std::string kernel_of(std::uint64_t number) const;
  // The kernels in flight, for the message after a fault; empty if there are none.
  std::string in_flight() const;

  // Refuses further launches and waits for those in flight. Gives up when none ends for `patience` (0: never), and returns the remaining
  // kernels, as in_flight.
  std::string close(std::chrono::nanoseconds patience);

 private:
  // Allocated before the launch and filled after it: a shortage of memory cannot lose a launch.
  using Completion = std::shared_ptr<std::unique_ptr<backend::Completion>>;
  struct Flight {
    Completion completion;  // null while the launch is being made
    Needs needs;
  };
  using Flights = std::map<std::uint64_t, Flight>;  // by number; nodes move between maps, which cannot fail
  // Polls the backend for a launch. Without memory for its error the launch stays in flight, and is polled again.
  void look(std::uint64_t number) noexcept;
  // Polls the oldest launches up to the first that has not ended, and a few others in turn: a call has constant cost.
  void look_around() noexcept;
  bool ended(std::uint64_t number) const;

  backend::Backend& backend_;
  mutable Mutex mutex_;  // not held during calls of the backend, except to free completions
  Condition entered_;
  bool closed_ DWELL_GUARDED_BY(mutex_) = false;
  unsigned entering_ DWELL_GUARDED_BY(mutex_) = 0;  // launches between their check of closed_ and their insertion into in_flight_
  std::uint64_t next_ DWELL_GUARDED_BY(mutex_) = 0;
  Flights in_flight_ DWELL_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Error> errors_ DWELL_GUARDED_BY(mutex_);
  Flights ended_ DWELL_GUARDED_BY(mutex_);                // until collect
  std::uint64_t looked_at_ DWELL_GUARDED_BY(mutex_) = 0;  // where look_around continues
};

}  // namespace dwell::runtime
