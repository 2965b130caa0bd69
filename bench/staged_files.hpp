// Writes several files atomically: each whole or not at all, and all or none.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <iosfwd>

#include "base/output_file.hpp"

namespace dwell::bench {

// Writes each file next to its target, as a new file with an unpredictable name, so that no link is followed. commit() renames them all.
// Files that are not committed are removed. add() writes directly to a target that is a pipe or a device.
class StagedFiles {
 public:
  // Throws std::runtime_error if `target` could not be written now (OutputFile::check). For reporting it before the work.
  static void check(const std::filesystem::path& target);

  // Writes one file with `write`. Throws std::runtime_error on failure; the message names the target.
  void add(const std::filesystem::path& target, const std::function<void(std::ostream&)>& write);

  // Renames all files to their targets. Throws std::runtime_error; earlier files then stay renamed.
  void commit();

 private:
  std::deque<OutputFile> files_;
};

}  // namespace dwell::bench
