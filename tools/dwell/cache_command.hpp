// dwell cache: looks after the cache of compiled operators.
#pragma once

#include <iosfwd>
#include <string>

#include "failure.hpp"

namespace dwell::tool {

struct CacheOptions {
  std::string action;  // "stats", "list", "clear", "verify", "path"
  bool json = false;
};

// Prints what was found or done to `out`, and what is wrong with the environment to `warnings`. Exit::failed when verify found a broken
// entry. Throws Failure when the cache is switched off, dwell::Error when its folder cannot be used.
Exit cache_command(const CacheOptions& options, std::ostream& out, std::ostream& warnings);

}  // namespace dwell::tool
