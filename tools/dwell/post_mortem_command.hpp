// dwell post-mortem: shows the last tasks of each worker of a process that was killed, or whose device failed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>

#include "failure.hpp"

namespace dwell::tool {

struct PostMortemOptions {
  std::filesystem::path file;  // empty: of the user's last dead process that left one
  std::size_t last = 8;        // tasks of each worker
};

// Prints the report to `out`. Throws Failure if there is no file, dwell::Error if it cannot be read.
Exit post_mortem_command(const PostMortemOptions& options, std::ostream& out);

}  // namespace dwell::tool
