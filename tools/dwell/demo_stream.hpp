// The work of the demonstration: processes a picture tile by tile, repeatedly, while an operator is replaced.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include <dwell/dwell.hpp>

#include "demo_check.hpp"
#include "demo_reference.hpp"
#include "image.hpp"
#include "latencies.hpp"

namespace dwell::tool {

// A change of the tone operator during the stream.
struct DemoChange {
  std::chrono::nanoseconds took{0};
  std::uint64_t tiles_meanwhile = 0;  // submitted during the call
};

struct DemoFigures {
  Latencies alone;              // tiles with nothing else in flight
  Latencies under_load;         // tiles of the stream
  std::uint64_t submitted = 0;  // tasks
  std::uint64_t complete = 0;
  std::uint64_t failed = 0;
  std::string first_failure;
  std::uint64_t passes = 0;
  std::uint64_t tiles = 0;
  std::uint64_t wrong = 0;
  std::array<std::uint64_t, kDemoPhases> by_phase{};
  std::chrono::nanoseconds time{0};  // of the stream
  DemoChange redefine;
  DemoChange rollback;
  std::chrono::nanoseconds pause{0};  // of redefine: from the end of the old loop to the start of the new one
  Image after;                        // the last pass
};

// The most tasks in flight at once.
inline constexpr std::size_t kDemoInFlight = 8192;

// Submits passes over the picture for half a second each: before redefine, between redefine and rollback, and after. A second thread
// redefines the tone operator and rolls it back while the first submits. Checks every tile of every pass.
DemoFigures run_demo_stream(Runtime& runtime, const Image& source, const DemoReference& reference);

}  // namespace dwell::tool
