// Tells whether a file has changed.
#pragma once

#include <time.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace dwell::jit {

// A time of a file. Those before 1677 and after 2262, which file systems allow, are taken as the first and last that fit.
std::chrono::nanoseconds since_1970(const timespec& time);

// Where a file lies, for as long as it exists.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  auto operator<=>(const FileId&) const = default;
};

// Where a file lies and when it was last written: a file that is replaced or rewritten gets another stamp. Times are since 1970.
struct FileStamp {
  FileId id;
  std::uint64_t size = 0;                // bytes
  std::chrono::nanoseconds modified{0};  // mtime, which programs set as they like (touch, tar, rsync)
  std::chrono::nanoseconds changed{0};   // ctime, which only the clock sets

  bool operator==(const FileStamp&) const = default;
};

// Of the regular file at `path`, through links; nothing when there is none.
std::optional<FileStamp> stamp_of(const std::string& path);
// Of the folder at `path`, through links: it gets another stamp when a file appears in it or is gone.
std::optional<FileStamp> folder_stamp_of(const std::string& path);

// "FILE (SIZE bytes of MTIME ns)", for identities; says so when there is no such file.
std::string build_of(const std::filesystem::path& file);

}  // namespace dwell::jit
