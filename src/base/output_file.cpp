#include "base/output_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <system_error>
#include <utility>

#include <dwell/error.hpp>

namespace dwell {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kPatience{5};  // for somebody who reads a pipe
constexpr mode_t kPermissions = S_IRWXU | S_IRWXG | S_IRWXO;

[[noreturn]] void fail(const fs::path& target, const std::string& why) {
  throw Error(errc::io_failed, "cannot write " + target.string() + ": " + why, {"file", target.string()});
}
[[noreturn]] void fail(const fs::path& target, int error) { fail(target, std::generic_category().message(error)); }

fs::path folder_of(const fs::path& place) { return place.has_parent_path() ? place.parent_path() : fs::path("."); }

// What lies at a target.
struct Found {
  fs::path place;
  bool whole = false;  // it is written as it is: no file comes to its place
  mode_t mode = 0;     // of a regular file; 0: there is none
};

Found find(const fs::path& target, OutputFile::Links links) {
  Found found{target};
  struct stat link {};
  struct stat status {};
  const bool is_link = lstat(target.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  const bool there = stat(target.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) fail(target, "it is a folder");
  const bool trusted = !is_link || links == OutputFile::Links::follow || link.st_uid == geteuid() || link.st_uid == 0;
  if (there && !S_ISREG(status.st_mode) && trusted) {
    if (S_ISBLK(status.st_mode)) fail(target, "it is a disc");
    if (S_ISSOCK(status.st_mode)) fail(target, "it is a socket");
    found.whole = true;
    return found;
  }
  // By hand: what leads to nothing, too, is followed.
  constexpr int kMostLinks = 40;
  std::error_code error;
  for (int i = 0; links == OutputFile::Links::follow && fs::is_symlink(found.place, error); ++i) {
    if (i == kMostLinks) fail(target, ELOOP);
    found.place = folder_of(found.place) / fs::read_symlink(found.place, error);
    if (error) fail(target, error.message());
  }
  if (there && S_ISREG(status.st_mode) && (!is_link || links == OutputFile::Links::follow)) found.mode = status.st_mode & kPermissions;
  return found;
}

void check(const fs::path& target, const Found& found) {
  if (found.whole) {
    if (access(target.c_str(), W_OK) != 0) fail(target, errno);
    return;
  }
  const fs::path folder = folder_of(found.place);
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail(target, "there is no folder " + folder.string());
  if (access(folder.c_str(), W_OK | X_OK) == 0) return;
  const int reason = errno;
  fail(target, "the folder " + folder.string() + " cannot be written to: " + std::generic_category().message(reason));
}

// A name beside `place` that nobody can foresee.
fs::path staged_name(const fs::path& place) {
  std::uint64_t number = 0;  // std::random_device takes a newer glibc
  if (getrandom(&number, sizeof number, 0) != sizeof number) fail(place, errno);
  return folder_of(place) / ("." + place.filename().string() + "." + std::to_string(number) + ".part");
}

}  // namespace

FileBuffer::FileBuffer(File file) : file_(std::move(file)) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

FileBuffer::int_type FileBuffer::overflow(int_type next) {
  if (!write_buffer()) return traits_type::eof();
  if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
  return traits_type::not_eof(next);
}

std::streamsize FileBuffer::xsputn(const char* from, std::streamsize count) {
  if (count < static_cast<std::streamsize>(buffer_.size())) return std::streambuf::xsputn(from, count);
  return write_buffer() && write({from, static_cast<std::size_t>(count)}) ? count : 0;
}

bool FileBuffer::write_buffer() {
  const bool written = write({pbase(), pptr()});
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return written;
}

bool FileBuffer::write(std::span<const char> text) {
  if (error_ != 0) return false;
  if (!file_.write_all(std::as_bytes(text))) error_ = errno != 0 ? errno : EIO;
  return error_ == 0;
}

bool FileBuffer::close() {
  if (!file_) return error_ == 0;
  write_buffer();
  struct stat status {};
  const bool regular = fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode);
  // A rename is only as durable as the bytes it names.
  if (error_ == 0 && regular && fsync(file_.get()) != 0) error_ = errno;
  if (::close(file_.release()) != 0 && error_ == 0) error_ = errno;
  return error_ == 0;
}

void OutputFile::check(const fs::path& target, Links links) { dwell::check(target, find(target, links)); }

OutputFile::OutputFile(fs::path target, Links links) : target_(std::move(target)) {
  Found found = find(target_, links);
  dwell::check(target_, found);
  place_ = std::move(found.place);
  File file;
  if (found.whole) {
    file = open_to_write(place_, 0, 0, kPatience);
    if (!file) fail(target_, errno == ENXIO ? "nobody reads this pipe" : std::generic_category().message(errno));
  } else {
    fs::path staged = staged_name(place_);
    file = File(open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file) fail(target_, errno);
    staged_ = std::move(staged);
    // A file that others must not read stays so.
    if (found.mode != 0) static_cast<void>(fchmod(file.get(), found.mode));
  }
  buffer_ = std::make_unique<FileBuffer>(std::move(file));
  stream_ = std::make_unique<std::ostream>(buffer_.get());
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : target_(std::move(other.target_)),
      place_(std::move(other.place_)),
      staged_(std::exchange(other.staged_, fs::path())),
      buffer_(std::move(other.buffer_)),
      stream_(std::move(other.stream_)) {}

OutputFile::~OutputFile() {
  if (!staged_.empty()) unlink(staged_.c_str());
}

void OutputFile::finish() {
  if (!buffer_->close()) fail(target_, buffer_->error());
  // A writer may have given up by itself.
  if (!*stream_) fail(target_, EIO);
}

void OutputFile::commit() {
  if (staged_.empty()) return;
  if (std::rename(staged_.c_str(), place_.c_str()) != 0) fail(target_, errno);
  staged_.clear();
}

}  // namespace dwell
