// The last events of a timeline, in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <dwell/trace.hpp>

namespace dwell::runtime {

// Keeps a limited number of events and of arrows. Beyond it discards the older half, and counts its events as dropped. Used by one thread
// at a time.
class KeptTrace final : public TraceWriter {
 public:
  explicit KeptTrace(std::size_t most = 10'000'000) : most_(most) {}

  void write(const Trace& piece) override {
    auto& events = trace_.events;
    events.insert(events.end(), piece.events.begin(), piece.events.end());
    trace_.arrows.insert(trace_.arrows.end(), piece.arrows.begin(), piece.arrows.end());
    std::uint64_t dropped = trace_.dropped + piece.dropped;
    if (events.size() > most_) {
      const std::size_t more = events.size() - most_ / 2;
      events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(more));
      dropped += more;
    }
    if (auto& arrows = trace_.arrows; arrows.size() > most_)
      arrows.erase(arrows.begin(), arrows.end() - static_cast<std::ptrdiff_t>(most_ / 2));
    trace_.names = piece.names;
    trace_.device = piece.device;
    trace_.runtime = piece.runtime;
    trace_.dropped = dropped;
    trace_.clock_error_ns = std::max(trace_.clock_error_ns, piece.clock_error_ns);
  }
  void finish() override {}

  // Moves the trace out.
  Trace take() { return std::exchange(trace_, {}); }

 private:
  std::size_t most_;
  Trace trace_;
};

}  // namespace dwell::runtime
