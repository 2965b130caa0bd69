#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/trace.hpp>

namespace dwell {

namespace {

class TraceFile : public TraceWriter {
 public:
  explicit TraceFile(std::filesystem::path path) : path_(std::move(path)), file_(path_, std::ios::binary | std::ios::trunc) {
    check();
    writer_ = path_.extension() == ".json" ? chrome_writer(file_) : perfetto_writer(file_);
  }

  void write(const Trace& piece) override {
    writer_->write(piece);
    check();
  }
  void finish() override {
    writer_->finish();
    file_.close();
    check();
  }

 private:
  void check() const {
    if (file_) return;
    throw Error(errc::io_failed, "the trace cannot be written to " + path_.string() + ": " + std::strerror(errno),
                {"file", path_.string()});
  }

  std::filesystem::path path_;
  std::ofstream file_;
  std::unique_ptr<TraceWriter> writer_;
};

}  // namespace

std::unique_ptr<TraceWriter> trace_file(const std::filesystem::path& path) { return std::make_unique<TraceFile>(path); }

}  // namespace dwell
