// Files that are written whole or not at all, and all of them or none.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace dwell::bench {

// Each file is written beside its target, as a new file whose name nobody can foresee: a link that lies there is not followed. commit()
// renames them all. Files that are not committed are removed.
class StagedFiles {
 public:
  StagedFiles() = default;
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  // Throws std::runtime_error when `target` could not be written as things stand: its folder is not there or not writable, or it is
  // a folder itself. For telling the user before the work is done.
  static void check(const std::filesystem::path& target);

  // Writes one file by `write`. Throws std::runtime_error when that fails; the message names the target.
  void add(const std::filesystem::path& target, const std::function<void(std::ostream&)>& write);

  // Renames all files to their targets. Throws std::runtime_error; then those before are in place.
  void commit();

 private:
  struct File {
    std::filesystem::path staged;
    std::filesystem::path target;
  };
  std::vector<File> files_;
};

}  // namespace dwell::bench
