// The launches of ordinary kernels that are in flight, and what became of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"

namespace dwell::runtime {

// Numbers launches from 0, keeps what they need, and says how far they are. Launches on different streams end in any order. No thread waits
// inside the driver: whoever waits asks again and again. Members may be called from any thread.
//
// Invariant: a number is in `in_flight_` from before its launch returns until it is known to have ended, and every number below
// `settled()` has ended.
class Launches {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Launches(backend::Backend& backend) : backend_(backend) {}
  // Nothing may be in flight any more, or it is lost.
  ~Launches() = default;
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  // What a launch needs beside the backend's call. `addresses` are its arguments that may lead to memory; `keep` stays alive until it has
  // ended, and is given up by collect.
  struct Needs {
    std::string kernel;
    std::vector<std::uint64_t> addresses;
    std::shared_ptr<const void> keep;
  };
  // Launches, and returns the number. Throws as Backend::launch, and errc::closed after close has begun.
  std::uint64_t launch(backend::LoadedModule& kernels, const backend::KernelLaunch& launch, Needs needs);

  // Whether the launch has ended, well or not. Does not block.
  bool done(std::uint64_t number);
  // Waits for it, until `deadline` if there is one; false when that comes first.
  bool wait(std::uint64_t number, std::optional<Clock::time_point> deadline);
  // The error of one that has ended, or nothing if it went well.
  std::optional<Error> error_of(std::uint64_t number) const;
  // All that went wrong, by number.
  std::map<std::uint64_t, Error> errors() const;

  // The launches in flight that have an argument which is an address in [begin, end).
  std::vector<std::uint64_t> naming(std::uint64_t begin, std::uint64_t end) const;
  // One past the last number given out, and the first that may still be in flight.
  std::uint64_t next() const;
  std::uint64_t settled();
  // Waits for every launch before `number`.
  void wait_before(std::uint64_t number);

  // Gives up what launches that have ended have kept; may take as long as that takes.
  void collect();

  // The kernels in flight, for a message that says who may have brought the device down; empty if there are none.
  std::string in_flight() const;

  // Lets no more launches in, and waits for those that are in flight, but not when none ends for as long as `patience` (0: for ever).
  // Returns the kernels that are left then, as in_flight.
  std::string close(std::chrono::nanoseconds patience);

 private:
  struct Flight {
    std::shared_ptr<backend::Completion> completion;
    Needs needs;
  };
  // Asks the backend about one.
  void look(std::uint64_t number);
  // Asks about the oldest up to the first that has not ended, and about a few others in turn: a call costs the same however many there are.
  void look_around();
  bool ended(std::uint64_t number) const;

  backend::Backend& backend_;
  mutable std::mutex mutex_;  // guards all that follows; not held while the backend is called, but for the freeing of completions
  std::condition_variable entered_;
  bool closed_ = false;
  unsigned entering_ = 0;  // launches between their check of closed_ and their place in in_flight_
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Flight> in_flight_;
  std::map<std::uint64_t, Error> errors_;
  std::vector<Flight> ended_;    // until collect
  std::uint64_t looked_at_ = 0;  // where look_around goes on
};

}  // namespace dwell::runtime
