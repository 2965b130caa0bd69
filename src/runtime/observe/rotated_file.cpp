#include "runtime/observe/rotated_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::runtime {

namespace {

std::string failure(const std::string& path, int error) {
  return path + ": " + (error == ENXIO ? "nobody reads this pipe" : std::generic_category().message(error));
}

}  // namespace

int write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

RotatedFile::RotatedFile(std::string path, std::uint64_t bytes, unsigned files)
    : path_(std::move(path)), limit_(bytes), files_(std::max(files, 1U)) {
  const int error = open();
  if (error != 0)
    throw Error(errc::invalid_argument, "the log's file cannot be opened: " + failure(path_, error), {"option", "Options::log.file"});
}

int RotatedFile::open() {
  file_ = open_to_write(path_, O_APPEND | O_CREAT, 0644, std::chrono::milliseconds(0));
  if (!file_) return errno;
  struct stat status {};
  regular_ = ::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode);
  size_ = regular_ ? static_cast<std::uint64_t>(status.st_size) : 0;
  return 0;
}

void RotatedFile::rotate() {
  file_ = File();
  // If renaming fails, appends to the old file.
  if (files_ == 1) ::unlink(path_.c_str());
  for (unsigned i = files_ - 1; i > 0; --i) std::rename(name(i - 1).c_str(), name(i).c_str());
}

std::string RotatedFile::write(std::string_view text) {
  if (regular_ && limit_ != 0 && size_ != 0 && size_ + text.size() > limit_) rotate();
  if (!file_) {
    if (const int error = open(); error != 0) return failure(path_, error);
  }
  if (const int error = write_all(file_.get(), text); error != 0) {
    // Removes the partial line that was written before the disc was full. Its own failure is less important.
    struct stat status {};
    const bool part = regular_ && ::fstat(file_.get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) > size_;
    if (part) static_cast<void>(::ftruncate(file_.get(), static_cast<off_t>(size_)));
    return failure(path_, error);
  }
  size_ += text.size();
  return {};
}

}  // namespace dwell::runtime
