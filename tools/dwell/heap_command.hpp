// dwell heap: what lives in the heap of a running process.
#pragma once

#include <iosfwd>

#include "failure.hpp"
#include "look.hpp"

namespace dwell::tool {

struct HeapLookOptions {
  LookOptions look = {};
  bool json = false;
  // At most one of these; none: the heap's counts.
  bool types = false;   // the census by type
  bool verify = false;  // what Heap::verify says
  double watch = 0;     // what has grown in so many seconds; 0: off
};

// Prints to `out`. Returns Exit::failed when `verify` finds mistakes. Throws Failure for mistakes of the user, dwell::Error for errors of
// the process or if it is gone.
Exit heap_command(const HeapLookOptions& options, std::ostream& out);

}  // namespace dwell::tool
