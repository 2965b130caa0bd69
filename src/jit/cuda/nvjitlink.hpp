// nvJitLink: relocatable device code to one image. Opened when first needed; needs no GPU and no driver.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "jit/compiler.hpp"
#include "jit/cuda/cuda_library.hpp"

namespace dwell::jit {

// The library, open. All members may be called from several threads at once.
class NvJitLink {
 public:
  // One input. `name`: its name in the linker's messages.
  struct Input {
    enum class Kind { cubin, ptx, lto_ir };
    Kind kind = Kind::cubin;
    std::span<const std::byte> bytes;
    std::string name;
  };

  // Returns the process's instance, never closed. Throws dwell::Error with errc::compiler_unavailable; a later call tries again.
  static NvJitLink& get();
  // Opens the first suitable one of `candidates`.
  explicit NvJitLink(const std::vector<std::string>& candidates);

  CudaVersion version() const { return version_; }
  std::filesystem::path file() const { return library_.file(); }

  struct Output {
    Bytes bytes;         // a cubin
    std::string report;  // the assembler's, on each function, if any input is LTO-IR
  };
  // Links `inputs` for `arch` ("sm_90"), with link-time optimisation if any is LTO-IR: of that only what a kernel or another
  // input needs remains, and all variables. Throws dwell::Error with errc::link_failed; the message holds the linker's text.
  Output link(const std::string& arch, std::span<const Input> inputs);

 private:
  DynamicLibrary library_;
  CudaVersion version_;
  Mutex mutex_;  // the linker does not document thread safety
};

}  // namespace dwell::jit
