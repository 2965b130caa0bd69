// A private folder that lives as long as its owner.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/file.hpp"

namespace dwell::jit {

// Removes a folder with all its content, as far as possible: for destructors.
void remove_folder(const std::filesystem::path& path) noexcept;

// A new, empty folder that only this user may enter, below the first of $XDG_RUNTIME_DIR, $TMPDIR and /tmp that works. The destructor
// removes it with all its content, except in a forked child: there the folder still belongs to the parent. Move-only.
class TemporaryDirectory {
 public:
  // Throws dwell::Error with errc::io_failed when none can be made; the message names the folders that were tried.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(TemporaryDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), folder_(std::move(other.folder_)), owner_(other.owner_) {}
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(folder_, other.folder_);
    std::swap(owner_, other.owner_);
    return *this;
  }

  const std::filesystem::path& path() const { return path_; }
  // Whether the path still names this folder, and this process created it. False after a cleaner of /tmp has removed the folder, even if
  // another one has its name now.
  bool stands() const;

 private:
  std::string make(std::string& path);

  std::filesystem::path path_;
  File folder_;  // open, so that no other folder gets its inode number
  pid_t owner_;
};

}  // namespace dwell::jit
