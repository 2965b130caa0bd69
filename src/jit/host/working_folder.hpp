// Where the host's compiler works.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/mutex.hpp"
#include "jit/base/temporary_directory.hpp"

namespace dwell::jit {

// Writes `text` to a file, and makes the folders that it lies in. Throws dwell::Error with errc::io_failed, naming the file.
void write_file(const std::filesystem::path& path, std::string_view text);

// A private folder with dwell's device headers in include/, and one folder for each compilation under way.
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
    // Whether all that was there when the job began is still there, and `file` too. False when a cleaner of /tmp came by.
    bool stands(const std::filesystem::path& file) const;

   private:
    std::shared_ptr<const TemporaryDirectory> folder_;
    std::filesystem::path path_;
  };

  // A folder for a new compilation. The private folder is made by the first call, and made again when it is gone, when one of its headers
  // is, or when this process is a fork of the one that made it. Throws dwell::Error with errc::io_failed. May be called from any thread.
  Job start();

 private:
  Mutex mutex_;
  std::shared_ptr<const TemporaryDirectory> folder_ DWELL_GUARDED_BY(mutex_);
  unsigned jobs_ DWELL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dwell::jit
