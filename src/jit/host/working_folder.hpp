// The host compiler's working folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/mutex.hpp"
#include "jit/base/temporary_directory.hpp"

namespace dwell::jit {

// Writes `text` to a file, and creates its folders. Throws dwell::Error with errc::io_failed, naming the file.
void write_file(const std::filesystem::path& path, std::string_view text);

// A private folder with dwell's device headers in include/, and one folder for each running compilation.
class WorkingFolder {
 public:
  // The folder of one compilation; it lives as long as this.
  class Job {
   public:
    Job(std::shared_ptr<const TemporaryDirectory> folder, unsigned number);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path include() const { return folder_->path() / "include"; }
    // Returns whether all files from the begin of the job, and `file`, still exist. False after a cleaner of /tmp.
    bool stands(const std::filesystem::path& file) const;

   private:
    std::shared_ptr<const TemporaryDirectory> folder_;
    std::filesystem::path path_;
  };

  // Creates a folder for a new compilation. The first call creates the private folder; later ones recreate it if it or a header is missing,
  // or if this process is a fork of its creator. Throws dwell::Error with errc::io_failed. May be called from any thread.
  Job start();

 private:
  Mutex mutex_;
  std::shared_ptr<const TemporaryDirectory> folder_ DWELL_GUARDED_BY(mutex_);
  unsigned jobs_ DWELL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dwell::jit
