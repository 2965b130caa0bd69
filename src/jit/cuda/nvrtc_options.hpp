// Translates CompileOptions to flags of NVRTC.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <dwell/compile_options.hpp>

#include "jit/compiler.hpp"
#include "jit/cuda/cuda_library.hpp"

namespace dwell::jit {

// dwell's own parameters of a compile, beside the user's options.
struct NvrtcTarget {
  std::string arch;           // "sm_90a"
  bool relocatable = true;    // an operator, to be linked with others; false: a whole program of CUDA C++, unchanged
  Form form = Form::native;   // see operator_form
  std::string cuda_includes;  // the folder of CUDA's own headers, searched last; empty: none
};

// NVRTC's flags, for the call and for the fingerprint. CompileOptions::headers go to NVRTC beside it.
// Throws dwell::Error with errc::invalid_argument or errc::unsupported for an option that NVRTC cannot honour.
std::vector<std::string> nvrtc_flags(const CompileOptions& options, const NvrtcTarget& target);

// Returns the form in which an operator with these options is compiled. In LTO-IR the linker decides some options for the whole image (seen
// with CUDA 13.0: contraction, denormals, division): an operator with such options is always native. Throws dwell::Error with
// errc::invalid_argument, naming the option, when it also sets lto.
Form operator_form(const CompileOptions& options, Form wanted);

// ---- Architectures -------------------------------------------------------------------------------------------------------------
// `known` are the numbers that the loaded NVRTC lists, ascending; `version` is its version.

// The number in "sm_90", "sm_90a" or "sm_100f"; 0 when `arch` is of another form.
int architecture_number(const std::string& arch);

// Every architecture that NVRTC compiles for: "sm_75", ..., "sm_90", "sm_90a", ...
// From 9.0 on there is one with the instructions of that architecture alone ("a"), from 10.0 on one with those of its family ("f").
std::vector<std::string> known_architectures(std::span<const int> known, CudaVersion version);

// The architecture of images for a device of architecture `device` ("sm_90"): with its architecture-specific instructions, where NVRTC
// knows them ("sm_90a"). An architecture that already has a suffix, or that NVRTC does not list, stays as it is.
std::string image_architecture(const std::string& device, std::span<const int> known);

// The architecture of an operator to be linked into an image for `image`: `asked`, or the image's own when that is empty. The
// linker joins variants of one number ("sm_90" and "sm_90a") and nothing else. Throws dwell::Error with errc::invalid_argument that names
// the possible ones.
std::string operator_architecture(const std::string& asked, const std::string& image, std::span<const int> known, CudaVersion version);

// The architecture of a module that runs by itself on a device of architecture `image`: `asked`, or `image` when that is empty. A device
// runs code of its own major version with the same or a smaller minor one, but no other's architecture-specific code.
// Throws dwell::Error with errc::invalid_argument that names the possible ones.
std::string module_architecture(const std::string& asked, const std::string& image, std::span<const int> known, CudaVersion version);

}  // namespace dwell::jit
