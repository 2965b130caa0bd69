#include "bench/staged_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <random>
#include <stdexcept>
#include <streambuf>
#include <utility>

namespace dwell::bench {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& target) { return target.has_parent_path() ? target.parent_path() : fs::path("."); }

[[noreturn]] void fail(const fs::path& target, const std::string& why) {
  throw std::runtime_error("cannot write " + target.string() + ": " + why);
}

// Writes to a new file: never to one that is there, nor through a link.
class NewFile : public std::streambuf {
 public:
  // Makes `name`; on failure is_open() is false and errno says why.
  explicit NewFile(const fs::path& name) : descriptor_(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }
  ~NewFile() override {
    if (is_open()) ::close(descriptor_);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  // Brings everything to the disk: a rename is only as durable as the bytes it names.
  bool close() { return write_buffer() && fsync(descriptor_) == 0 && ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int_type overflow(int_type next) override {
    if (!write_buffer()) return traits_type::eof();
    if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
    return traits_type::not_eof(next);
  }
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    if (count < static_cast<std::streamsize>(buffer_.size())) return std::streambuf::xsputn(from, count);
    return write_buffer() && write_all(from, static_cast<std::size_t>(count)) ? count : 0;
  }
  bool write_buffer() {
    const bool written = write_all(pbase(), static_cast<std::size_t>(pptr() - pbase()));
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return written;
  }
  bool write_all(const char* from, std::size_t count) const {
    while (count > 0) {
      const ssize_t written = ::write(descriptor_, from, count);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      from += written;
      count -= static_cast<std::size_t>(written);
    }
    return true;
  }

  int descriptor_;
  std::array<char, 65536> buffer_;
};

// A name beside `target` that nobody can foresee.
fs::path staged_name(const fs::path& target) {
  std::random_device random;
  return folder_of(target) / ("." + target.filename().string() + "." + std::to_string(random()) + std::to_string(random()) + ".part");
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
  fs::path staged = staged_name(target);
  NewFile file(staged);
  if (!file.is_open()) fail(target, std::strerror(errno));
  files_.push_back({std::move(staged), target});
  errno = 0;
  std::ostream to(&file);
  write(to);
  if (!to || !file.close()) fail(target, std::strerror(errno != 0 ? errno : EIO));
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

}  // namespace dwell::bench
