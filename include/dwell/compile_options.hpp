// How a source is compiled.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dwell {

// An aggregate, CompileOptions{.fast_math = true, .max_registers = 64}, or built up: CompileOptions().with_define("TILE", "32").
// Options::compile is the runtime's default. Unset options have the compiler's own defaults, except those that dwell itself needs. Options
// are never ignored: one that the device's compiler cannot honour is errc::invalid_argument, or errc::unsupported if it honours no value of
// it.
struct CompileOptions {
  // The real architecture, "sm_90" or "sm_90a". Empty: the device's own, with its architecture-specific instructions ("sm_90a").
  // Operators are linked into the device's one image, so for them only the device's own number is possible, with or without its letter;
  // modules may ask for any that the device runs. CUDA only.
  std::string arch = {};
  // The version of C++: 14, 17 or 20.
  int standard = 20;

  // Implies flush_denormals (on CUDA; the CPU keeps denormals), contract, and neither precise division nor precise square roots, unless
  // those are set.
  bool fast_math = false;
  std::optional<bool> flush_denormals = {};   // NVRTC's --ftz; on the CPU, where it is a mode of the thread, only false
  std::optional<bool> contract = {};          // --fmad: a * b + c in one rounding; on the CPU -ffp-contract
  std::optional<bool> precise_division = {};  // --prec-div; on the CPU only true, and not with fast_math
  std::optional<bool> precise_sqrt = {};      // --prec-sqrt; likewise

  // Registers per thread, 24 to 255; the compiler spills the rest. 0: the compiler chooses. CUDA only.
  unsigned max_registers = 0;
  // Link-time optimization across all sources compiled with it; linking then takes tens of milliseconds. Not needed for Tier::lto, which
  // inlines by itself. Cannot be combined with options that would then apply to the whole image: fast_math, max_registers, line_info,
  // debug, flags, and flush_denormals, contract or precise_division other than NVRTC's defaults. CUDA only; programs of kernels are
  // compiled as a whole anyway.
  bool lto = false;
  bool line_info = false;  // source lines for profilers and debuggers
  // Debug information; on a CPU also no optimisation. Operators check the bounds of all spans (buffers, slices, shared memory): an access
  // out of bounds fails the task with status::out_of_bounds, and its error holds index, size and
  // line.
  bool debug = false;

  std::map<std::string, std::string> defines = {};  // name ("TILE", "SQUARE(x)") to value, one line
  std::vector<std::string> include_paths = {};      // searched in this order; their headers are part of the cache key
  std::map<std::string, std::string> headers = {};  // found by #include before any file: relative name to text
  // Flags for the compiler itself, after all others; each begins with a dash and has its value joined to it. A flag
  // that has an option of its own here, or that would break the object that dwell needs, is errc::invalid_argument.
  std::vector<std::string> flags = {};

  CompileOptions with_define(std::string name, std::string value = "1") && {
    defines.insert_or_assign(std::move(name), std::move(value));
    return std::move(*this);
  }
  CompileOptions with_include_path(std::string path) && {
    include_paths.push_back(std::move(path));
    return std::move(*this);
  }
  CompileOptions with_header(std::string name, std::string text) && {
    headers.insert_or_assign(std::move(name), std::move(text));
    return std::move(*this);
  }
  CompileOptions with_flag(std::string flag) && {
    flags.push_back(std::move(flag));
    return std::move(*this);
  }
  // Returns a changed copy.
  CompileOptions with_define(std::string name, std::string value = "1") const& {
    return CompileOptions(*this).with_define(std::move(name), std::move(value));
  }
  CompileOptions with_include_path(std::string path) const& { return CompileOptions(*this).with_include_path(std::move(path)); }
  CompileOptions with_header(std::string name, std::string text) const& {
    return CompileOptions(*this).with_header(std::move(name), std::move(text));
  }
  CompileOptions with_flag(std::string flag) const& { return CompileOptions(*this).with_flag(std::move(flag)); }

  bool operator==(const CompileOptions&) const = default;
};

}  // namespace dwell
