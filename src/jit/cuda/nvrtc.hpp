// NVRTC: CUDA C++ to relocatable device code. Opened when first needed; needs no GPU and no driver.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "jit/compiler.hpp"
#include "jit/cuda/cuda_library.hpp"

namespace dwell::jit {

// The result of a compile. Empty after a failure, except `log`, the compiler's text.
struct NvrtcResult {
  bool ok = false;
  Bytes bytes;
  std::string ptx;                   // not of LTO-IR
  std::vector<std::string> lowered;  // the symbol behind each name expression
  std::string log;
};

// The library, open. All members may be called from several threads at once.
class Nvrtc {
 public:
  // A header that #include finds by this name. Both end in a null character.
  struct Header {
    const char* name;
    const char* text;
  };

  // Returns the process's instance, never closed: NVRTC's exit handlers may run before ours. Throws dwell::Error with
  // errc::compiler_unavailable; a later call tries again.
  static const Nvrtc& get();
  // Opens the first suitable one of `candidates`.
  explicit Nvrtc(const std::vector<std::string>& candidates);

  CudaVersion version() const { return version_; }
  std::filesystem::path file() const { return library_.file(); }
  // Returns the library of built-in functions that it opens at its first compile; empty if it is not beside it.
  std::filesystem::path builtins_file() const;
  // The folder of CUDA's own headers that came with it (cuda_fp16.h); empty when there is none.
  std::filesystem::path include_folder() const;
  // Returns the supported architectures, as the number in sm_90, ascending.
  std::vector<int> architectures() const;

  // Compiles `text` to a cubin, or with --dlink-time-opt among `options` and Form::lto to LTO-IR for nvJitLink; `file` is its name in
  // diagnostics, `expressions` name what must be instantiated. Throws dwell::Error with errc::compile_failed when NVRTC itself fails, not
  // when the text does, and with errc::invalid_argument for an option that it does not know.
  NvrtcResult compile(const std::string& text, const std::string& file, std::span<const Header> headers,
                      const std::vector<std::string>& options, Form form = Form::native,
                      std::span<const std::string> expressions = {}) const;

 private:
  struct Functions;

  DynamicLibrary library_;
  CudaVersion version_;
  std::vector<DynamicLibrary> builtins_;  // NVRTC itself would search them by name only
};

}  // namespace dwell::jit
