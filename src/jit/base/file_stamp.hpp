// Detects changes of files.
#pragma once

#include <time.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace dwell::jit {

// Converts a file's time. Times before 1677 and after 2262, which file systems allow, are clamped.
std::chrono::nanoseconds since_1970(const timespec& time);

// Identifies an existing file.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  auto operator<=>(const FileId&) const = default;
};

// A file's identity and last write: a file that is replaced or rewritten gets another stamp. Times are since 1970.
struct FileStamp {
  FileId id;
  std::uint64_t size = 0;                // bytes
  std::chrono::nanoseconds modified{0};  // mtime, which programs may set (touch, tar, rsync)
  std::chrono::nanoseconds changed{0};   // ctime, which programs cannot set

  bool operator==(const FileStamp&) const = default;
};

// Returns the stamp of the regular file at `path`, through links; nothing if there is none.
std::optional<FileStamp> stamp_of(const std::string& path);
// Returns the stamp of the folder at `path`, through links: it changes when a file is added or removed.
std::optional<FileStamp> folder_stamp_of(const std::string& path);

// "FILE (SIZE bytes of MTIME ns)", for identities; says so when there is no such file.
std::string build_of(const std::filesystem::path& file);

}  // namespace dwell::jit
