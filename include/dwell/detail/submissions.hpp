// Tasks that a collector of operations has submitted.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include <dwell/ticket.hpp>

namespace dwell::detail {

// Tickets in the order of submission, until their tasks are done, and the first of them that failed, until `wait` throws for it. Both
// collectors of the Python package use it (python/src/collector.hpp, python/dwell/torch/csrc/collector.hpp). Belongs to one thread at a
// time.
class Submissions {
 public:
  void add(const Ticket& ticket) { open_.push_back(ticket); }

  // Returns whether no ticket is kept: drop_done and the waits have found all tasks done.
  bool empty() const { return open_.empty(); }
  // Returns whether a failure is kept, for which `wait` will throw.
  bool failed() const { return failed_.has_value(); }

  // Drops the tickets ahead of the first that is not done. Does not wait.
  void drop_done() {
    while (!open_.empty() && open_.front().done()) drop_first();
  }
  // Waits until at most so many tickets are kept. Throws errc::stalled only.
  void wait_until(std::size_t most) {
    while (open_.size() > most) drop_first();
  }
  // Waits for all, then throws for the first that failed since the last call, as Ticket::wait.
  void wait() {
    wait_until(0);
    if (failed_) std::exchange(failed_, std::nullopt)->wait();
  }
  // Drops all, failures too.
  void clear() {
    open_.clear();
    failed_.reset();
  }

 private:
  // Waits for the first task, and keeps its failure if it is the first one.
  void drop_first() {
    if (open_.front().status() != 0 && !failed_) failed_ = open_.front();
    open_.pop_front();
  }

  std::deque<Ticket> open_;
  std::optional<Ticket> failed_;
};

}  // namespace dwell::detail
