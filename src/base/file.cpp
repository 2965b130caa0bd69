#include "base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <thread>

namespace dwell {

File::~File() {
  if (descriptor_ < 0) return;
  const int reason = errno;
  close(descriptor_);
  errno = reason;
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
    if (put == 0) errno = EIO;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

namespace {

void tell(std::string* why, const std::string& problem) {
  if (why != nullptr) *why = problem;
}
void tell(std::string* why, int error) {
  if (why != nullptr) *why = std::generic_category().message(error);
}

// Of a file that has no size: `limit` bytes and one more at most.
std::optional<std::vector<std::byte>> read_to_end(const File& file, std::size_t limit) {
  std::vector<std::byte> bytes;
  for (std::size_t done = 0;;) {
    bytes.resize(std::min(std::max<std::size_t>(2 * done, 65536), limit + 1));
    const ssize_t got = read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    done += static_cast<std::size_t>(got);
    if (got == 0 || done > limit) {
      bytes.resize(done);
      return bytes;
    }
  }
}

}  // namespace

File open_to_read(const std::filesystem::path& path, FileKinds kinds, std::string* why) {
  const int patience = kinds == FileKinds::regular ? O_NONBLOCK : 0;
  File file(open(path.c_str(), O_RDONLY | patience | O_CLOEXEC | O_NOCTTY));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) {
    tell(why, errno);
    return {};
  }
  if (S_ISREG(status.st_mode) || (kinds == FileKinds::any && !S_ISDIR(status.st_mode))) return file;
  tell(why, S_ISDIR(status.st_mode) ? "it is a folder" : "it is not a regular file");
  return {};
}

std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::size_t limit, std::string* why, FileKinds kinds) {
  const File file = open_to_read(path, kinds, why);
  struct stat status {};
  if (!file) return std::nullopt;
  const auto unreadable = [&](int error) {
    tell(why, error);
    return std::nullopt;
  };
  const auto too_long = [&] {
    tell(why, "it is longer than " + std::to_string(limit) + " bytes");
    return std::nullopt;
  };
  if (fstat(file.get(), &status) != 0) return unreadable(errno);
  if (!S_ISREG(status.st_mode)) {
    auto bytes = read_to_end(file, limit);
    if (!bytes) return unreadable(errno);
    if (bytes->size() > limit) return too_long();
    return bytes;
  }
  if (status.st_size < 0 || static_cast<std::uintmax_t>(status.st_size) > limit) return too_long();
  // The file may grow while it is read, and those of /proc say that they are empty: there is room for a byte more than the size, and a file
  // that fills it is read again.
  std::size_t room = static_cast<std::size_t>(status.st_size) + 1;
  for (;;) {
    std::vector<std::byte> bytes(room);
    const ssize_t got = file.read_at(bytes, 0);
    if (got < 0) return unreadable(errno);
    if (static_cast<std::size_t>(got) > limit) return too_long();
    if (static_cast<std::size_t>(got) < room) {
      bytes.resize(static_cast<std::size_t>(got));
      return bytes;
    }
    room = std::min(room, limit) * 2 + 1;
  }
}

File open_to_write(const std::filesystem::path& path, int flags, mode_t mode, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kStep{10};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  struct stat status {};
  for (;;) {
    File file(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | flags, mode));
    if (file) {
      if (fstat(file.get(), &status) != 0) return {};
      if (S_ISBLK(status.st_mode)) {
        errno = ENOTSUP;
        return {};
      }
      // Only the opening must not wait.
      const int now = fcntl(file.get(), F_GETFL);
      if (now < 0 || fcntl(file.get(), F_SETFL, now & ~O_NONBLOCK) != 0) return {};
      return file;
    }
    if (errno == EINTR) continue;
    if (errno != ENXIO || stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      errno = ENXIO;
      return {};
    }
    std::this_thread::sleep_for(kStep);
  }
}

}  // namespace dwell
