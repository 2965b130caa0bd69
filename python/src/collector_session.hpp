// The lock of a collector.
#pragma once

#include "collector.hpp"

namespace dwell::python {

// Holds the lock. Memory that is let go of goes when the lock has.
class Collector::Session {
 public:
  explicit Session(Collector& of) : collector_(of.shared_from_this()), guard_(of.checked().mutex_) {
    of.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ~Session() {
    trash_.swap(collector_->trash_);
    collector_->owner_.store({}, std::memory_order_relaxed);
    guard_.reset();
    collector_->drain();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::shared_ptr<Collector> collector_;
  std::vector<Allocated> trash_;
  std::optional<Guard> guard_;
};

}  // namespace dwell::python
