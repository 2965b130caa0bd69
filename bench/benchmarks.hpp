// Every benchmark, and what they are told.
#pragma once

#include <cstddef>
#include <dwell/dwell.hpp>
#include <filesystem>
#include <string>

#include "bench/report.hpp"

namespace dwell::bench {

// Where and how a benchmark runs.
struct Context {
  RuntimeInfo info;    // of a runtime with default options
  bool cuda = false;   // the device is a CUDA device
  int ordinal = 0;     // which
  bool brief = false;  // DWELL_BENCH=short

  template <class T>
  T pick(T full, T brief_one) const {
    return brief ? brief_one : full;
  }
  // Default options for the device; warnings go to standard error.
  dwell::Options options() const;
};

// Each adds its figures, goals and checks to the report, and throws std::exception when it cannot go on.
void latency(const Context& context, Report& report);
void throughput(const Context& context, Report& report);
void steps(const Context& context, Report& report);
void graphs(const Context& context, Report& report);
void jobs(const Context& context, Report& report);
void sweep(const Context& context, Report& report);
void spawn(const Context& context, Report& report);
void producers(const Context& context, Report& report);
void kit(const Context& context, Report& report);
void tensors(const Context& context, Report& report);
void swap(const Context& context, Report& report);
void compile(const Context& context, Report& report);
void park(const Context& context, Report& report);
void coexist(const Context& context, Report& report);
void idle(const Context& context, Report& report);
void observe(const Context& context, Report& report);
void log(const Context& context, Report& report);
void startup(const Context& context, Report& report);

// The work of a process that the benchmark startup has started (see startup.cpp).
bool is_startup_child();
int run_startup_child(const std::string& device);

}  // namespace dwell::bench
