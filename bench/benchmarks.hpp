// Registration of benchmarks, and the context they run in.
#pragma once

#include <cstddef>
#include <dwell/dwell.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/report.hpp"

namespace dwell::bench {

// The device and the settings of a benchmark run.
struct Context {
  RuntimeInfo info;  // of a runtime with default options
  bool cuda = false;
  int ordinal = 0;     // of the CUDA device
  bool brief = false;  // DWELL_BENCH=short

  template <class T>
  T pick(T full, T brief_one) const {
    return brief ? brief_one : full;
  }
  // Returns default options for the device; warnings go to standard error.
  dwell::Options options() const;
};

// A benchmark. To add one, add a source that registers it.
struct Benchmark {
  int place;  // in the order of runs, and of results in the docs
  const char* name;
  const char* title;
  int seconds;  // limit on a GPU
  // Adds figures, goals and checks to the report. Throws std::exception if it cannot continue.
  void (*run)(const Context& context, Report& report);
};

// Registers a benchmark before main; each source has one as a constant.
class Registration {
 public:
  explicit Registration(const Benchmark& benchmark);
};

// Returns all benchmarks, by their places.
const std::vector<Benchmark>& benchmarks();

// Returns whether this process was started by the benchmark startup (see startup.cpp).
bool is_startup_child();
int run_startup_child(const std::string& device);

}  // namespace dwell::bench
