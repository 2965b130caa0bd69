// Exceptions of host nodes' callbacks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Keeps the last exceptions, for Error::cause. Destroys them without holding a lock: their destructors may call the runtime. Members may be
// called from any thread.
class Causes {
 public:
  static constexpr std::size_t kMost = 64;

  // Records the exception of a callback of the launch at this position, modulo 2^32. Does nothing without memory.
  void note(std::uint32_t launch, const std::string& message, std::exception_ptr exception) noexcept {
    std::optional<Entry> entry;
    try {
      entry.emplace(Entry{launch, message, std::move(exception)});
    } catch (const std::bad_alloc&) {
      return;
    }
    const Lock lock(mutex_);
    std::swap(last_[next_], *entry);  // under the lock; the old entry is destroyed after it
    next_ = (next_ + 1) % kMost;
  }
  // Returns the exception of that launch with that message; null if none was recorded, or later ones have replaced it.
  std::exception_ptr of(std::uint64_t position, const std::string& message) const {
    const Lock lock(mutex_);
    for (const Entry& entry : last_)
      if (entry.exception != nullptr && entry.launch == static_cast<std::uint32_t>(position) && entry.message == message)
        return entry.exception;
    return nullptr;
  }

 private:
  struct Entry {
    std::uint32_t launch = 0;
    std::string message;
    std::exception_ptr exception;
  };

  mutable Mutex mutex_;
  std::array<Entry, kMost> last_ DWELL_GUARDED_BY(mutex_);
  std::size_t next_ DWELL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dwell::runtime
