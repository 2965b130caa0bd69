// Tasks in flight, and the times at which they complete.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include <dwell/dwell.hpp>

namespace dwell::tool {

// Watches tickets in the order of submission and reports each once, with the time at which it was first seen complete. Reports a task after
// all earlier ones: the time is that until all tasks up to this one are known to be complete. `Note`: the owner's data for a task. Used
// from one thread.
template <class Note>
class Flight {
 public:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    Ticket ticket;
    Clock::time_point submitted;  // before the call of submit
    Note note;
  };
  using Report = std::function<void(const Entry&, Clock::time_point seen)>;

  // At most `limit` tasks are in flight. Below the ring's capacity submitting never waits, so waits do not count as latency.
  Flight(std::size_t limit, Report report) : limit_(limit), report_(std::move(report)) {}

  // Adds a task that was just submitted; first waits for the oldest ones while the limit is reached.
  void add(const Ticket& ticket, Clock::time_point submitted, Note note) {
    poll();
    while (entries_.size() >= limit_) wait();
    entries_.push_back(Entry{ticket, submitted, std::move(note)});
  }

  // Reports complete tasks.
  void poll() {
    while (!entries_.empty() && entries_.front().ticket.done()) {
      report_(entries_.front(), Clock::now());
      entries_.pop_front();
    }
  }

  // Waits a while for the oldest task, then reports complete ones.
  void wait() {
    if (entries_.empty()) return;
    try {
      entries_.front().ticket.wait_for(std::chrono::milliseconds(20));
    } catch (const Error&) {
      // The receiver of the report checks the ticket.
    }
    poll();
  }

  std::size_t size() const { return entries_.size(); }
  // Tasks not reported yet, in the order of submission.
  const Entry& operator[](std::size_t index) const { return entries_[index]; }

 private:
  std::size_t limit_;
  Report report_;
  std::deque<Entry> entries_;
};

}  // namespace dwell::tool
