// How a benchmark registers itself, and what it is told.
#pragma once

#include <cstddef>
#include <dwell/dwell.hpp>
#include <filesystem>
#include <string>
#include <vector>

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

// A benchmark: a source that registers it is all that it takes.
struct Benchmark {
  int place;  // in the order in which they run; the docs show results in it
  const char* name;
  const char* title;
  int seconds;  // that it may take on a GPU
  // Adds figures, goals and checks to the report. Throws std::exception when it cannot go on.
  void (*run)(const Context& context, Report& report);
};

// Makes a benchmark known before main: a constant of its source.
class Registration {
 public:
  explicit Registration(const Benchmark& benchmark);
};

// All, by their places.
const std::vector<Benchmark>& benchmarks();

// The work of a process that the benchmark startup has started (see startup.cpp).
bool is_startup_child();
int run_startup_child(const std::string& device);

}  // namespace dwell::bench
