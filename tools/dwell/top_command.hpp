// dwell top: a process that runs, at a glance.
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

// Shows the process on the terminal until the person who looks quits or it ends, or prints one picture to `out`. Where several processes
// run and none is named, prints a list of them. Throws Failure for what the user can correct.
Exit top_command(const TopOptions& options, std::ostream& out);

}  // namespace dwell::tool
