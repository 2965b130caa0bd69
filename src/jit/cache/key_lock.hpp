// A lock between processes for making a value once.
#pragma once

#include <chrono>
#include <string>

#include "base/file.hpp"

namespace dwell::jit {

// A file lock in a shared folder, released by the system when its process dies. Advisory: a process that does not get it in time repeats
// the work. Unlocking removes the file. Move-only; used by one thread at a time.
class KeyLock {
 public:
  // Holds nothing.
  KeyLock() = default;
  // Locks `name` in `folder`, and waits up to `timeout` for it. Holds nothing after the timeout, or where files cannot be created or
  // locked.
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
