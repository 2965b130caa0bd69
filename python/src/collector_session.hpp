// The lock of a collector.
#pragma once

#include "collector.hpp"

namespace dwell::python {

// Holds the lock. Drops memory that was freed meanwhile after it has released the lock.
class Collector::Session {
 public:
  explicit Session(Collector& of) : collector_(of.shared_from_this()), guard_(of.checked().mutex_) {
    of.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ~Session() {
    freed_.swap(collector_->freed_);
    collector_->owner_.store({}, std::memory_order_relaxed);
    guard_.reset();
    collector_->delete_unused();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::shared_ptr<Collector> collector_;
  std::vector<Allocated> freed_;
  std::optional<Guard> guard_;
};

}  // namespace dwell::python
