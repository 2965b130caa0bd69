// What the formats of traces have in common: words for events, and which figures of an event mean something.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <dwell/trace.hpp>

namespace dwell::observe {

struct KindText {
  std::string_view name;
  bool has_id;
  bool has_count;
};

// In the order of TraceEvent::Kind.
inline constexpr std::array<KindText, 19> kKindTexts{{
    {"task", true, false},  {"node", true, false},   {"spawned", false, false}, {"group", true, false},    {"lease", true, false},
    {"fetch", true, true},  {"take", true, false},   {"begin", true, false},    {"complete", true, true},  {"barrier", true, false},
    {"submit", true, true}, {"wait", true, false},   {"define", false, false},  {"compile", false, false}, {"hand_over", true, false},
    {"park", false, false}, {"launch", true, false}, {"flush", false, true},    {"mark", false, false},
}};
static_assert(kKindTexts.size() == static_cast<std::size_t>(TraceEvent::Kind::mark) + 1);

inline const KindText& text_of(TraceEvent::Kind kind) { return kKindTexts[static_cast<std::size_t>(kind)]; }

// What the workers and threads of a trace belong to.
inline std::string process_name(const Trace& trace) { return "dwell " + trace.device + " runtime " + std::to_string(trace.runtime); }

// Of the tasks of one submission, this many at most are joined to it by arrows: more show nothing.
inline constexpr std::uint32_t kMostFlows = 64;

}  // namespace dwell::observe
