// Which entries of the heap's table of handles are in use.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "base/mutex.hpp"

namespace dwell::runtime {

// An entry that was released is not used again before the collector has cleared it. Outlives the runtime with its last handle. Members may
// be called from any thread.
class Handles {
 public:
  explicit Handles(std::uint32_t most) : most_(most) {}

  // Takes an entry. Throws errc::out_of_memory when all are in use, or not cleared yet.
  std::uint32_t take() {
    const Lock lock(mutex_);
    if (free_.empty() && next_ == most_)
      throw Error(errc::out_of_memory, "the heap has no room for another handle: it has " + std::to_string(most_) +
                                           "; drop some and collect, or let objects refer to each other");
    if (free_.empty()) return next_++;
    const std::uint32_t entry = free_.back();
    free_.pop_back();
    return entry;
  }
  void release(std::uint32_t entry) noexcept {
    const Lock lock(mutex_);
    try {
      released_.push_back(entry);
    } catch (const std::bad_alloc&) {
      // The object stays: there is no memory to note that it is not needed.
    }
  }
  // Returns the entries that were released since the last call.
  std::vector<std::uint32_t> released() {
    const Lock lock(mutex_);
    return std::exchange(released_, {});
  }
  // The collector has cleared these.
  void cleared(const std::vector<std::uint32_t>& entries) {
    const Lock lock(mutex_);
    free_.insert(free_.end(), entries.begin(), entries.end());
  }
  // One past the last entry that was ever used.
  std::uint32_t end() const {
    const Lock lock(mutex_);
    return next_;
  }

 private:
  const std::uint32_t most_;
  mutable Mutex mutex_;
  std::uint32_t next_ DWELL_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> free_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> released_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
