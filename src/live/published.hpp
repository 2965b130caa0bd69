// Publishes a runtime to other processes of the same user.
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
// The first source of a process starts its server, the last one stops it and removes the socket. A forked child does not publish its
// parent's sources; it may publish its own. With DWELL_LIVE=off nothing is published.
class Published {
 public:
  // Errors go to `warn` in one line, unless that is empty; the program continues unpublished.
  Published(Source source, const std::function<void(std::string_view)>& warn);
  // Waits for requests inside the source; traces end early. Must not be called by the source's own functions. Does nothing in a forked
  // child.
  ~Published();
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

 private:
  ThisProcess* process_ = nullptr;
  std::uint64_t id_ = 0;
};

}  // namespace dwell::live
