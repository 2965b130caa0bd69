// The files in the folder of the cache: which are its own, and which have to go.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace dwell::jit {

// The folder, opened. Everything in it is reached through this, so the folder that was checked is the one in use.
struct OpenedFolder {
  File file;
  std::string problem;  // why it cannot be used; empty, with no file, when it does not exist
};

// With `make`, makes the folders that are missing, for this user alone.
OpenedFolder open_folder(const std::filesystem::path& directory, bool make);

// Whether CacheKey can make it: 64 hexadecimal digits.
bool is_key(std::string_view name);

// The name under which an entry is written; different in every call of every process.
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

// All of them, in no order. Throws dwell::Error with errc::io_failed when the folder cannot be read.
std::vector<OwnFile> own_files(const File& folder);

// Says that the entry was used now.
void touch(const File& folder, const std::string& name);

// Seconds since its last use, negative when that lies in the future.
double age(const struct stat& status);

// Removes what processes that were killed have left behind, and entries, the least recently used first, until nine tenths of `max_bytes`
// are left, if there is more than that limit (0: none). The entry `keep` stays. A file from the future is taken as used now, or it would
// outlive all others. Returns what the entries then take.
std::uint64_t tidy(const File& folder, std::string_view keep, std::uint64_t max_bytes);

// Removes a lock's file unless somebody holds the lock.
void remove_free_lock(const File& folder, const OwnFile& lock);

}  // namespace dwell::jit
