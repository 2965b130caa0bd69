// Tokens: tasks of the ready queue, each of which stands for any task that waits by priority (levels.hpp).
#pragma once

#include "device/levels.hpp"
#include "device/source.hpp"

namespace dwell::device {

struct Tokens : SourceVerbs {
  static constexpr u32 kSources = 1U << source::token;
  static constexpr u32 kPart = part::levels;

  static DWELL_DEVICE bool calls(const Header&) { return false; }
  static DWELL_DEVICE bool goes_on(const Header&) { return true; }
  // Defined after the table (sources.hpp): the task for a token may be of any source.
  static DWELL_DEVICE Follows proceed(const Behind& at);
};

}  // namespace dwell::device
