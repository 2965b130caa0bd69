// Files that are written whole or not at all, and all of them or none.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <iosfwd>

#include "base/output_file.hpp"

namespace dwell::bench {

// Each file is written beside its target, as a new file whose name nobody can foresee: a link that lies there is not followed. commit()
// renames them all. Files that are not committed are removed. A target that is a pipe or a device is written by add().
class StagedFiles {
 public:
  // Throws std::runtime_error when `target` could not be written as things stand (OutputFile::check). For telling the user before the work
  // is done.
  static void check(const std::filesystem::path& target);

  // Writes one file by `write`. Throws std::runtime_error when that fails; the message names the target.
  void add(const std::filesystem::path& target, const std::function<void(std::ostream&)>& write);

  // Brings all files to their targets. Throws std::runtime_error; then those before are in place.
  void commit();

 private:
  std::deque<OutputFile> files_;
};

}  // namespace dwell::bench
