// The interface of a runtime to other processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/diagnosis.hpp>
#include <dwell/heap.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>
#include <dwell/trace.hpp>

namespace dwell::live {

// Functions called by threads of the server, also concurrently. Their exceptions become the answer. An empty one is answered with
// errc::unsupported.
struct Source {
  std::uint64_t runtime = 0;  // RuntimeInfo::runtime
  std::function<Metrics()> metrics;
  std::function<Diagnosis()> diagnose;
  // Records a trace for this time. The writer throws when nobody waits for the trace any more: let that through. The server finishes the
  // writer.
  std::function<void(std::chrono::nanoseconds, TraceWriter&)> trace;
  // Returns at most `most` lines after number `after`, oldest first; sets `next` to the number of the last one, or to `after`. The first
  // line comes after 0.
  std::function<std::vector<LogRecord>(std::uint64_t after, std::size_t most, std::uint64_t* next)> logs;
  // As Heap::statistics, census and verify. Without a heap their results are empty: nobody makes one by looking.
  std::function<HeapStatistics()> heap;
  std::function<HeapCensus()> census;
  std::function<HeapVerification()> verify;
  // Describes an operator.
  std::function<std::string(std::string_view name)> inspect;
};

}  // namespace dwell::live
