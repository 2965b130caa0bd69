// A lock that processes hold while they make what others want too.
#pragma once

#include <chrono>
#include <string>

#include "base/file.hpp"

namespace dwell::jit {

// Held through a file in a folder that all share, and freed by the system when its process dies. It is only advice: a process that does
// not get it in time does the same work again. The file goes with the lock. Move-only; a value belongs to one thread at a time.
class KeyLock {
 public:
  // Holds nothing.
  KeyLock() = default;
  // Takes the lock `name` in `folder`, and waits up to `timeout` for it. Holds nothing when that passes, or where files cannot be made
  // or locked.
  KeyLock(File folder, std::string name, std::chrono::milliseconds timeout);
  ~KeyLock();
  KeyLock(KeyLock&&) noexcept = default;
  KeyLock& operator=(KeyLock&& other) noexcept {
    std::swap(folder_, other.folder_);
    std::swap(file_, other.file_);
    std::swap(name_, other.name_);
    return *this;
  }

  bool held() const { return static_cast<bool>(file_); }

 private:
  File folder_;
  File file_;
  std::string name_;
};

}  // namespace dwell::jit
