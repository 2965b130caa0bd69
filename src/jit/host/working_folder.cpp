#include "jit/host/working_folder.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"
#include "base/file.hpp"
#include "jit/source/embedded.hpp"

namespace dwell::jit {

namespace fs = std::filesystem;

namespace {

// Check each file: tools that clean temporary folders remove single files by age.
bool is_whole(const TemporaryDirectory& folder) {
  const auto headers = embedded_headers();
  return folder.stands() && std::all_of(headers.begin(), headers.end(), [&](const EmbeddedFile& file) {
           std::error_code error;
           return !file.is_for_operators() || fs::file_size(folder.path() / "include" / file.name, error) == file.text.size();
         });
}

}  // namespace

void write_file(const fs::path& path, std::string_view text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (!error) {
    const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file && file.write_all(as_bytes(text))) return;
    error = {errno, std::generic_category()};
  }
  throw Error(errc::io_failed, "cannot write " + path.string() + ": " + error.message());
}

WorkingFolder::Job::Job(std::shared_ptr<const TemporaryDirectory> folder, unsigned number)
    : folder_(std::move(folder)), path_(folder_->path() / std::to_string(number)) {}

WorkingFolder::Job::~Job() {
  if (folder_->stands()) remove_folder(path_);
}

bool WorkingFolder::Job::stands(const fs::path& file) const {
  std::error_code error;
  return is_whole(*folder_) && fs::exists(file, error);
}

WorkingFolder::Job WorkingFolder::start() {
  const Lock lock(mutex_);
  if (folder_ == nullptr || !is_whole(*folder_)) {
    auto made = std::make_shared<TemporaryDirectory>();
    for (const EmbeddedFile& file : embedded_headers()) {
      if (file.is_for_operators()) write_file(made->path() / "include" / file.name, file.text);
    }
    folder_ = std::move(made);
  }
  return {folder_, jobs_++};
}

}  // namespace dwell::jit
