// The files in the cache's folder: its own ones, and those to remove.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace dwell::jit {

// The open folder. All files are accessed through it, so the checked folder is the one in use.
struct OpenedFolder {
  File file;
  std::string problem;  // why it cannot be used; empty, with no file, when it does not exist
};

// Opens the folder. With `make`, creates missing folders, for this user only.
OpenedFolder open_folder(const std::filesystem::path& directory, bool make);

// Returns whether it has the form of a CacheKey: 64 hexadecimal digits.
bool is_key(std::string_view name);

// Returns a temporary name for writing an entry; unique across calls and processes.
std::string temporary_name(std::string_view key);
std::string lock_name(std::string_view key);

// One of the cache's own files.
struct OwnFile {
  enum class Kind : std::uint8_t { entry, temporary, lock };
  std::string name;
  Kind kind;
  struct stat status;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(status.st_size); }
};

// Returns all of them, unordered. Throws dwell::Error with errc::io_failed when the folder cannot be read.
std::vector<OwnFile> own_files(const File& folder);

// Marks the entry as used now.
void touch(const File& folder, const std::string& name);

// Returns the seconds since its last use; negative for a time in the future.
double age(const struct stat& status);

// Removes leftovers of killed processes. Beyond the limit `max_bytes` (0: none) also removes entries, least recently used first, down to
// nine tenths of it. Keeps the entry `keep`. A file time in the future counts as now, or the file would outlive all others. Returns the
// remaining bytes of entries.
std::uint64_t tidy(const File& folder, std::string_view keep, std::uint64_t max_bytes);

// Removes a lock's file unless somebody holds the lock.
void remove_free_lock(const File& folder, const OwnFile& lock);

}  // namespace dwell::jit
