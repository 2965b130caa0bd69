// A folder of the caller's own that is gone when its owner is.
#pragma once

#include <filesystem>
#include <utility>

namespace dwell::jit {

// A new, empty folder that only this user may enter, under $XDG_RUNTIME_DIR, $TMPDIR or /tmp, whichever is the first that works. Removed
// with everything in it at the end of its life. Move-only.
class TemporaryDirectory {
 public:
  // Throws dwell::Error with errc::io_failed when none can be made; the message names what was tried.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dwell::jit
