// dwell top: an overview of a running process.
#pragma once

#include <iosfwd>

#include "failure.hpp"
#include "look.hpp"

namespace dwell::tool {

struct TopOptions {
  LookOptions look = {};
  double delay = 1;   // seconds between two pictures
  bool once = false;  // one picture of one delay
  bool json = false;  // with `once`: as JSON
};

// Shows the process on the terminal until the user quits or it ends, or prints one picture to `out`. Prints a list if several processes run
// and none is named. Throws Failure for mistakes of the user.
Exit top_command(const TopOptions& options, std::ostream& out);

}  // namespace dwell::tool
