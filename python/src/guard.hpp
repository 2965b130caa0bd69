// A lock that threads with the GIL take.
#pragma once

#include <mutex>

#include "state.hpp"

namespace dwell::python {

// Holds a mutex. The caller holds the GIL; it is released while this waits, since the owner of the mutex may need it.
class Guard {
 public:
  explicit Guard(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    const Unlocked unlocked;
    lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace dwell::python
