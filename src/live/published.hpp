// A runtime that other processes of the same user can look at.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "live/source.hpp"

namespace dwell::live {

class ThisProcess;

// Publishes a source for as long as it lives:
//
//   const live::Published published({.runtime = 1, .metrics = [this] { return metrics(); }, ...}, warn);
//
// The first of a process starts its server, the last one stops it and removes the socket. A forked child publishes nothing of its parent's;
// it may publish its own. With DWELL_LIVE=off nothing is published.
class Published {
 public:
  // What keeps a process from being seen goes to `warn` in one line, unless that is empty, and the program works on.
  Published(Source source, const std::function<void(std::string_view)>& warn);
  // Waits for requests that are inside the source; traces end early. Not to be called by the source's own functions. Does nothing in a
  // forked child.
  ~Published();
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

 private:
  ThisProcess* process_ = nullptr;
  std::uint64_t id_ = 0;
};

}  // namespace dwell::live
