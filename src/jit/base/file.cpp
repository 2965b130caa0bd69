#include "jit/base/file.hpp"

#include <unistd.h>

#include <cerrno>

namespace dwell::jit {

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

}  // namespace dwell::jit
