#include "jit/cache/key_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace dwell::jit {

namespace {

using namespace std::chrono_literals;

// Returns whether `name` still refers to `file`. Otherwise its last holder removed it, and a lock on it excludes nobody.
bool leads_to(const File& folder, const std::string& name, const File& file) {
  struct stat named {};
  struct stat held {};
  return fstatat(folder.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(file.get(), &held) == 0 &&
         named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

}  // namespace

KeyLock::KeyLock(File folder, std::string name, std::chrono::milliseconds timeout) : folder_(std::move(folder)), name_(std::move(name)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::chrono::microseconds pause = 500us;
  for (;;) {
    File file(openat(folder_.get(), name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return;
    while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR && errno != EWOULDBLOCK) return;
      if (std::chrono::steady_clock::now() >= deadline) return;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(8ms));
    }
    if (leads_to(folder_, name_, file)) {
      file_ = std::move(file);
      return;
    }
    // Give up also on a file system that reports unstable inode numbers.
    if (std::chrono::steady_clock::now() >= deadline) return;
  }
}

KeyLock::~KeyLock() {
  // Remove the name while the lock is held, so no later holder loses it.
  if (file_ && leads_to(folder_, name_, file_)) unlinkat(folder_.get(), name_.c_str(), 0);
}

}  // namespace dwell::jit
