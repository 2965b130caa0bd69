#include "base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace dwell {

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

ssize_t File::read_at(std::span<std::byte> bytes, off_t offset) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(descriptor_, bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool File::write_all(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::size_t limit) {
  const File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (status.st_size < 0 || static_cast<std::uintmax_t>(status.st_size) > limit) return std::nullopt;
  // The file may grow while it is read, and those of /proc say that they are empty: there is room for a byte more than the size, and a file
  // that fills it is read again.
  std::size_t room = static_cast<std::size_t>(status.st_size) + 1;
  for (;;) {
    std::vector<std::byte> bytes(room);
    const ssize_t got = file.read_at(bytes, 0);
    if (got < 0 || static_cast<std::size_t>(got) > limit) return std::nullopt;
    if (static_cast<std::size_t>(got) < room) {
      bytes.resize(static_cast<std::size_t>(got));
      return bytes;
    }
    room = std::min(room, limit) * 2 + 1;
  }
}

}  // namespace dwell
