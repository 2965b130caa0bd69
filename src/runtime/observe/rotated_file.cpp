#include "runtime/observe/rotated_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::runtime {

namespace {

std::string failure(const std::string& path, int error) { return path + ": " + std::generic_category().message(error); }

}  // namespace

int write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

RotatedFile::RotatedFile(std::string path, std::uint64_t bytes, unsigned files)
    : path_(std::move(path)), limit_(bytes), files_(std::max(files, 1U)) {
  open();
  if (descriptor_ < 0)
    throw Error(errc::invalid_argument, "the log's file cannot be opened: " + failure(path_, errno), {"option", "Options::log.file"});
}

RotatedFile::~RotatedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RotatedFile::open() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  struct stat status {};
  size_ = descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

void RotatedFile::rotate() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  // A name that cannot be changed keeps its file, to which more is appended.
  if (files_ == 1) ::unlink(path_.c_str());
  for (unsigned i = files_ - 1; i > 0; --i) std::rename(name(i - 1).c_str(), name(i).c_str());
  open();
}

std::string RotatedFile::write(std::string_view text) {
  if (limit_ != 0 && size_ != 0 && size_ + text.size() > limit_) rotate();
  if (descriptor_ < 0) open();
  if (descriptor_ < 0) return failure(path_, errno);
  const int error = write_all(descriptor_, text);
  if (error != 0) {
    // What went before the disc was full would stand before another line.
    struct stat status {};
    const bool part = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) > size_;
    if (part && ::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) return failure(path_, errno);
    return failure(path_, error);
  }
  size_ += text.size();
  return {};
}

}  // namespace dwell::runtime
