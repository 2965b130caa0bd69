// What a runtime shows to other processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/diagnosis.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>
#include <dwell/trace.hpp>

namespace dwell::live {

// Functions that threads of the server call, several at a time. What they throw becomes the answer. One that is empty is answered with
// errc::unsupported.
struct Source {
  std::uint64_t runtime = 0;  // RuntimeInfo::runtime
  std::function<Metrics()> metrics;
  std::function<Diagnosis()> diagnose;
  // Traces for so long. The writer throws when nobody waits for the trace any more: let that through. The server finishes the writer.
  std::function<void(std::chrono::nanoseconds, TraceWriter&)> trace;
  // The lines after place `after`, oldest first, `most` at most; sets `next` to the place of the last one, or `after`. The first is after
  // 0.
  std::function<std::vector<LogRecord>(std::uint64_t after, std::size_t most, std::uint64_t* next)> logs;
  // All that is known of an operator, in words.
  std::function<std::string(std::string_view name)> inspect;
};

}  // namespace dwell::live
