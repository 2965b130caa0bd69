// dwell cache: shows and maintains the cache of compiled operators.
#pragma once

#include <iosfwd>
#include <string>

#include "failure.hpp"

namespace dwell::tool {

struct CacheOptions {
  std::string action;  // "stats", "list", "clear", "verify", "path"
  bool json = false;
};

// Prints the result to `out`, and problems of the environment to `warnings`. Returns Exit::failed if verify found a broken entry. Throws
// Failure if the cache is switched off, dwell::Error if its folder cannot be used.
Exit cache_command(const CacheOptions& options, std::ostream& out, std::ostream& warnings);

}  // namespace dwell::tool
