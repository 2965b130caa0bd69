// By what a file is known to be the one it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace dwell::jit {

// Where a file lies and when it was last written: a file that is replaced or rewritten gets another stamp.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;             // bytes
  std::int64_t modified_seconds = 0;  // since the epoch
  std::int64_t modified_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

// Of the regular file at `path`, through links; nothing when there is none.
std::optional<FileStamp> stamp_of(const std::string& path);

// "FILE (SIZE bytes of SECONDS.NANOSECONDS)", for identities; says so when there is no such file.
std::string build_of(const std::filesystem::path& file);

}  // namespace dwell::jit
