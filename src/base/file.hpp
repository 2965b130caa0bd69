// An open file of the system.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dwell {

// Owns a file descriptor; -1 is none. Move-only. Closing leaves errno as it is: a caller that gives up returns the reason in it.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File();
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  // Gives the descriptor away.
  int release() { return std::exchange(descriptor_, -1); }

  // Fills `bytes` with what stands at `offset`; fewer are read only where the file ends. The count, or -1 with errno.
  ssize_t read_at(std::span<std::byte> bytes, off_t offset) const;
  // False, with errno, when not all could be written.
  bool write_all(std::span<const std::byte> bytes) const;

 private:
  int descriptor_ = -1;
};

// Which files a caller means to read. A pipe or a device may never end, and may never begin.
enum class FileKinds { regular, any };

// Opens the file at `path` for reading, through links, and never waits for one of another kind than `kinds`. Nothing on failure; then
// `why`, if it is given, says why: "No such file or directory", "it is a folder", "it is not a regular file".
File open_to_read(const std::filesystem::path& path, FileKinds kinds = FileKinds::regular, std::string* why = nullptr);

// The content of the regular file at `path`, through links. Nothing when there is none, when it cannot be read, or when it is longer than
// `limit` bytes; then `why`, if it is given, says why. Never waits for a file of another kind, unless the caller asks for any.
std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::size_t limit, std::string* why = nullptr,
                                                FileKinds kinds = FileKinds::regular);

// Opens the file at `path` for writing, by `flags` of open(2); one that it makes has this mode. A pipe that nobody has opened for reading
// is waited for, so long at most. Block devices are refused: a disc's content would be lost. Nothing on failure, with errno.
File open_to_write(const std::filesystem::path& path, int flags, mode_t mode, std::chrono::milliseconds patience);

}  // namespace dwell
