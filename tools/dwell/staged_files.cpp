#include "staged_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace dwell::tool {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& target) { return target.has_parent_path() ? target.parent_path() : fs::path("."); }

[[noreturn]] void fail(const fs::path& target, const std::string& why) {
  throw std::runtime_error("cannot write " + target.string() + ": " + why);
}

// A rename is only as durable as the bytes it names.
bool flush_to_disk(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool flushed = fsync(descriptor) == 0;
  close(descriptor);
  return flushed;
}

}  // namespace

StagedFiles::~StagedFiles() {
  for (const File& file : files_) {
    std::error_code error;
    fs::remove(file.staged, error);
  }
}

void StagedFiles::check(const fs::path& target) {
  std::error_code error;
  if (fs::is_directory(target, error)) fail(target, "it is a folder");
  const fs::path folder = folder_of(target);
  if (!fs::is_directory(folder, error)) fail(target, "there is no folder " + folder.string());
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(target, "the folder " + folder.string() + " cannot be written to: " + std::strerror(errno));
}

void StagedFiles::add(const fs::path& target, const std::function<void(std::ostream&)>& write) {
  check(target);
  fs::path staged = folder_of(target) / ("." + target.filename().string() + "." + std::to_string(getpid()) + ".part");
  errno = 0;
  std::ofstream to(staged, std::ios::binary | std::ios::trunc);
  if (!to) fail(target, std::strerror(errno != 0 ? errno : EIO));
  files_.push_back({std::move(staged), target});
  write(to);
  to.close();
  if (!to || !flush_to_disk(files_.back().staged)) fail(target, std::strerror(errno != 0 ? errno : EIO));
}

void StagedFiles::commit() {
  while (!files_.empty()) {
    const File& file = files_.front();
    std::error_code error;
    fs::rename(file.staged, file.target, error);
    if (error) fail(file.target, error.message());
    files_.erase(files_.begin());
  }
}

}  // namespace dwell::tool
