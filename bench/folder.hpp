// A folder for the time of a benchmark.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include <dwell/error.hpp>

namespace dwell::bench {

// Empty at first, and gone with its owner.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dwell-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error(errc::io_failed, "cannot make a folder like " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dwell::bench
