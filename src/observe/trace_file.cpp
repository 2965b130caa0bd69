#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/trace.hpp>

#include "base/output_file.hpp"

namespace dwell {

namespace {

constexpr std::chrono::seconds kPatience{5};  // for somebody who reads, where the file is a pipe

[[noreturn]] void refuse(const std::filesystem::path& path, int error) {
  const std::string why = error == ENXIO ? "nobody reads this pipe" : std::generic_category().message(error);
  throw Error(errc::io_failed, "the trace cannot be written to " + path.string() + ": " + why, {"file", path.string()});
}

bool is_there(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0;
}

File opened(const std::filesystem::path& path) {
  File file = open_to_write(path, O_APPEND | O_CREAT, 0666, kPatience);
  if (!file) refuse(path, errno);
  return file;
}

class TraceFile : public TraceWriter {
 public:
  explicit TraceFile(std::filesystem::path path)
      : path_(std::move(path)), fresh_(!is_there(path_)), buffer_(opened(path_)), out_(&buffer_) {}
  ~TraceFile() override {
    if (writer_ == nullptr && fresh_) unlink(path_.c_str());
  }

  void write(const Trace& piece) override {
    begin();
    writer_->write(piece);
    check();
  }
  void finish() override {
    begin();
    writer_->finish();
    buffer_.close();
    check();
  }

 private:
  // What the file holds is only overwritten now: no trace may come to be written, if another one is being taken.
  void begin() {
    if (writer_ != nullptr) return;
    struct stat status {};
    const int file = buffer_.file().get();
    if (fstat(file, &status) != 0 || (S_ISREG(status.st_mode) && ftruncate(file, 0) != 0)) refuse(path_, errno);
    writer_ = path_.extension() == ".json" ? chrome_writer(out_) : perfetto_writer(out_);
  }
  void check() const {
    if (buffer_.error() != 0) refuse(path_, buffer_.error());
    if (!out_) refuse(path_, EIO);
  }

  const std::filesystem::path path_;
  const bool fresh_;  // there was no such file
  FileBuffer buffer_;
  std::ostream out_;
  std::unique_ptr<TraceWriter> writer_;
};

}  // namespace

std::unique_ptr<TraceWriter> trace_file(const std::filesystem::path& path) { return std::make_unique<TraceFile>(path); }

}  // namespace dwell
