// Who starts leases, and who notices that one has ended.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"
#include "runtime/submit/submission_queue.hpp"

namespace dwell::runtime {

// The keeper: starts a lease when there is work, starts the next when one has ended and work is left, and lets the device rest
// otherwise. A lease is started by whoever first sees the need: a submitter that finds the loop gone, or the keeper's own thread.
//
// Handshake with submitters (modelled in tests/model/park.pml): a submitter stores its slot and then looks whether the loop is gone,
// with only a compiler fence between. The keeper says that it is gone, calls membarrier, and then looks at the ring once more. So
// either the keeper sees the slot, or the submitter sees that the loop is gone.
class Keeper {
 public:
  struct Settings {
    device::Lease lease;                    // all but workers, crew, epoch and times
    device::LeaseReport* report = nullptr;  // lease.report and lease.in_flight as the host sees them
    const device::InFlight* in_flight = nullptr;
    std::chrono::nanoseconds lease_time;
    std::chrono::nanoseconds idle_time;
    std::chrono::nanoseconds task_timeout;
    std::uint32_t workers = 0;  // wanted
  };

  // What is known about the worker that holds a task.
  struct Holder {
    std::uint32_t worker;
    std::uint64_t position;
    std::uint32_t opcode;
  };
  // Turns workers' tasks into a clause that names operators. `running`: these tasks have not ended.
  using Describe = std::function<std::string(const std::vector<Holder>&, bool running)>;

  Keeper(backend::Backend& backend, SubmissionQueue& queue, Settings settings, Describe describe);
  // Ends the lease; nothing may be in flight any more, or it is lost.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Called by submitters behind their last slot store. Costs two loads while the loop is on the device.
  void submitted() {
    frequent_fence();
    if (asleep_.load(std::memory_order_relaxed) || left() == epoch_.load(std::memory_order_relaxed)) wake();
  }

  // Takes the loop off the device until resume. Counts. Returns when the device is rid of it.
  void hold();
  // The same at the end that the lease comes to by itself, so that nobody waits for a task that runs long. False when that end has not come
  // within `patience`: then nothing is held.
  bool hold_at_end(std::chrono::nanoseconds patience);
  void resume();
  // As many resumes as there were holds.
  void resume_all();

  // While held: takes the program that later leases run, and the one before is destroyed. It leaves room for a worker at least.
  void install(std::unique_ptr<backend::LoadedImage> program);
  // The workers of leases of such a program: as many as there is room for, and no more than were asked for.
  std::uint32_t workers_of(const backend::LoadedImage& program) const { return within_asked(program.max_workers(scratch_bytes())); }
  std::uint32_t within_asked(std::uint32_t workers) const { return std::min(workers, settings_.workers); }

  // Asks the device whether it has failed.
  bool lost();
  // Something hangs on the device: `why` is the failure from now on, and nobody waits for the loop any more.
  void give_up(const Error& why);
  // Whether the device is known to have failed, and the error that says how.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Error failure() const;

  // Bytes of scratch memory that each worker is given.
  std::uint32_t scratch_bytes() const { return settings_.lease.scratch_bytes; }
  std::uint32_t workers() const { return workers_.load(std::memory_order_relaxed); }
  std::uint32_t crew() const { return crew_.load(std::memory_order_relaxed); }
  std::uint64_t leases() const { return leases_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  std::uint32_t left() const { return device::load<device::Order::acquire, device::Scope::system>(&settings_.report->left); }
  void wake();
  void watch();
  bool wait_for_end(std::uint32_t epoch, Clock::time_point started);
  bool overstayed(Clock::time_point now);
  // The tasks that workers run now, or those that ended last on each.
  std::vector<Holder> holders(bool ended) const;
  // Who may have brought the device down.
  std::string suspects() const;
  void fail(errc code, const std::string& what);

  // The following need mutex_.
  void start_if_needed(bool work_known);
  void note_end();

  backend::Backend& backend_;
  SubmissionQueue& queue_;
  Settings settings_;
  Describe describe_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;  // a lease has been started and its end has not been noted
  bool stop_ = false;
  unsigned holds_ = 0;
  std::unique_ptr<backend::LoadedImage> image_;
  std::uint64_t tail_seen_ = 0;
  Clock::time_point started_at_{};
  Clock::time_point active_until_{};  // when idle_time is over, as far as the keeper knows

  std::atomic<bool> asleep_{true};
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> workers_{0};  // of image_
  std::atomic<std::uint32_t> crew_{0};
  std::atomic<std::uint64_t> leases_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  errc failure_code_ = errc::ok;
  std::string failure_text_;

  struct Sighting {
    std::uint64_t word = 0;
    Clock::time_point since{};
  };
  std::vector<Sighting> sightings_;  // of the keeper's thread
  Clock::time_point next_look_{};

  std::thread thread_;
};

}  // namespace dwell::runtime
