// dwell post-mortem: what each worker of a process did last that was killed, or whose device failed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>

#include "failure.hpp"

namespace dwell::tool {

struct PostMortemOptions {
  std::filesystem::path file;  // empty: that of the user's last process that died and has left one
  std::size_t last = 8;        // tasks of each worker
};

// Prints it to `out`. Throws Failure when there is no file, dwell::Error when it cannot be read.
Exit post_mortem_command(const PostMortemOptions& options, std::ostream& out);

}  // namespace dwell::tool
