#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/trace.hpp>

namespace dwell {

namespace {

class TraceFile : public TraceWriter {
 public:
  explicit TraceFile(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code none;
    fresh_ = !std::filesystem::exists(path_, none);
    file_.open(path_, std::ios::binary | std::ios::app);
    check();
  }
  ~TraceFile() override {
    std::error_code none;
    if (writer_ == nullptr && fresh_) std::filesystem::remove(path_, none);
  }

  void write(const Trace& piece) override {
    begin();
    writer_->write(piece);
    check();
  }
  void finish() override {
    begin();
    writer_->finish();
    file_.close();
    check();
  }

 private:
  // What the file holds is only overwritten now: no trace may come to be written, if another one is being taken.
  void begin() {
    if (writer_ != nullptr) return;
    std::error_code error;
    if (std::filesystem::is_regular_file(path_, error)) std::filesystem::resize_file(path_, 0, error);
    if (error) refuse(error.message());
    writer_ = path_.extension() == ".json" ? chrome_writer(file_) : perfetto_writer(file_);
  }
  void check() const {
    if (!file_) refuse(std::strerror(errno));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(errc::io_failed, "the trace cannot be written to " + path_.string() + ": " + why, {"file", path_.string()});
  }

  const std::filesystem::path path_;
  bool fresh_ = false;  // there was no such file
  std::ofstream file_;
  std::unique_ptr<TraceWriter> writer_;
};

}  // namespace

std::unique_ptr<TraceWriter> trace_file(const std::filesystem::path& path) { return std::make_unique<TraceFile>(path); }

}  // namespace dwell
