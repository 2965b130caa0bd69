// An open file of the system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dwell {

// Owns a file descriptor; -1 is none. Move-only.
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

// The content of the regular file at `path`, through links. Nothing when there is none, when it cannot be read, or when it is longer than
// `limit` bytes. Never waits for a file of another kind.
std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::size_t limit);

}  // namespace dwell
