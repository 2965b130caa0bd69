#include "jit/cuda/nvrtc_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "jit/source/option_checks.hpp"

namespace dwell::jit {

namespace {

// The range that the assembler accepts on all architectures; it rounds up smaller counts and ignores larger ones.
constexpr unsigned kFewestRegisters = 24;
constexpr unsigned kMostRegisters = 255;

constexpr std::string_view kNeededToLink = "dwell links what NVRTC makes, and chooses this itself";

constexpr auto kRefusedByNvrtc = std::to_array<RefusedFlag>({
    {"gpu-architecture", "use CompileOptions::arch"},
    {"arch", "use CompileOptions::arch"},
    {"std", "use CompileOptions::standard"},
    {"use_fast_math", "use CompileOptions::fast_math"},
    {"ftz", "use CompileOptions::flush_denormals"},
    {"fmad", "use CompileOptions::contract"},
    {"prec-div", "use CompileOptions::precise_division"},
    {"prec-sqrt", "use CompileOptions::precise_sqrt"},
    {"maxrregcount", "use CompileOptions::max_registers"},
    {"dlink-time-opt", "use CompileOptions::lto"},
    {"dlto", "use CompileOptions::lto"},
    {"gen-opt-lto", "use CompileOptions::lto"},
    {"generate-line-info", "use CompileOptions::line_info"},
    {"lineinfo", "use CompileOptions::line_info"},
    {"device-debug", "use CompileOptions::debug"},
    {"G", "use CompileOptions::debug"},
    {"define-macro", "use CompileOptions::defines"},
    {"D", "use CompileOptions::defines", true},
    {"include-path", "use CompileOptions::include_paths"},
    {"I", "use CompileOptions::include_paths", true},
    {"pre-include", kUnseenByCache},
    {"include", kUnseenByCache},
    {"pch", kUnseenByCache},
    {"create-pch", kUnseenByCache},
    {"use-pch", kUnseenByCache},
    {"relocatable-device-code", kNeededToLink},
    {"rdc", kNeededToLink},
    {"device-c", kNeededToLink},
    {"dc", kNeededToLink},
    {"device-w", kNeededToLink},
    {"dw", kNeededToLink},
});

void add_switch(std::vector<std::string>& flags, const std::string& name, const std::optional<bool>& value) {
  if (value) flags.push_back("--" + name + "=" + (*value ? "true" : "false"));
}

std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& one : list) text += (text.empty() ? "" : ", ") + one;
  return text;
}

// Throws unless NVRTC compiles for `arch`.
void check_known(const std::string& arch, std::span<const int> known, CudaVersion version) {
  const std::vector<std::string> all = known_architectures(known, version);
  if (std::find(all.begin(), all.end(), arch) != all.end()) return;
  throw option_error(errc::invalid_argument, "arch",
                     "NVRTC " + version.text() + " does not compile for '" + arch + "'; it knows " + joined(all));
}

bool is_specific(const std::string& arch) { return arch.ends_with('a'); }
bool is_of_family(const std::string& arch) { return arch.ends_with('f'); }

}  // namespace

std::vector<std::string> nvrtc_flags(const CompileOptions& options, const NvrtcTarget& target) {
  check_standard(options);
  check_headers(options);
  check_flags(options, kRefusedByNvrtc);
  if (options.max_registers != 0 && (options.max_registers < kFewestRegisters || options.max_registers > kMostRegisters)) {
    throw option_error(errc::invalid_argument, "max_registers",
                       std::to_string(options.max_registers) + " is not possible; use " + std::to_string(kFewestRegisters) + " to " +
                           std::to_string(kMostRegisters) + ", or 0 for no limit");
  }

  std::vector<std::string> flags = {
      "--gpu-architecture=" + target.arch,
      std::string("--relocatable-device-code=") + (target.relocatable ? "true" : "false"),
      "--std=c++" + std::to_string(options.standard),
  };
  if (target.relocatable) {
    flags.insert(flags.end(), {
                                  "--device-as-default-execution-space",  // plain helper functions work as on the CPU
                                  "--minimal",                            // leaves out textures and the runtime API: 8 of 28 ms
                                  "--diag-suppress=177",  // "declared but never referenced": everything the user defines is local
                              });
  }
  if (options.fast_math) flags.emplace_back("--use_fast_math");
  add_switch(flags, "ftz", options.flush_denormals);
  add_switch(flags, "fmad", options.contract);
  add_switch(flags, "prec-div", options.precise_division);
  add_switch(flags, "prec-sqrt", options.precise_sqrt);
  if (options.max_registers != 0) flags.push_back("--maxrregcount=" + std::to_string(options.max_registers));
  if (target.form == Form::lto) flags.emplace_back("--dlink-time-opt");
  // Debug information includes the lines; the assembler warns about both together. Keep the optimiser on: after one compilation without it,
  // NVRTC 13.0 compiles worse for the rest of the process (the loop took 67 registers instead of 58, with any limit), and the cache would
  // keep the result.
  if (options.debug) flags.insert(flags.end(), {"--device-debug", "--dopt=on"});
  if (options.debug && target.relocatable) flags.emplace_back("--define-macro=DWELL_CHECKED=1");  // kernels have no task to fail
  if (options.line_info && !options.debug) flags.emplace_back("--generate-line-info");
  for (const std::string& define : checked_defines(options)) flags.push_back("--define-macro=" + define);
  for (const std::string& path : checked_include_paths(options)) flags.push_back("--include-path=" + path);
  if (!target.cuda_includes.empty()) flags.push_back("--include-path=" + target.cuda_includes);
  flags.insert(flags.end(), options.flags.begin(), options.flags.end());
  return flags;
}

Form operator_form(const CompileOptions& options, Form wanted) {
  // Flags count as well: they may change anything.
  const std::string_view in_the_way = options.fast_math                          ? "fast_math"
                                      : options.flush_denormals.value_or(false)  ? "flush_denormals"
                                      : !options.contract.value_or(true)         ? "contract"
                                      : !options.precise_division.value_or(true) ? "precise_division"
                                      : options.max_registers != 0               ? "max_registers"
                                      : options.line_info                        ? "line_info"
                                      : options.debug                            ? "debug"
                                      : !options.flags.empty()                   ? "flags"
                                                                                 : "";
  if (in_the_way.empty()) return options.lto ? Form::lto : wanted;
  if (!options.lto) return Form::native;
  throw option_error(errc::invalid_argument, "lto",
                     "not together with CompileOptions::" + std::string(in_the_way) +
                         ", which the linker would decide for the whole image; leave one of them out");
}

int architecture_number(const std::string& arch) {
  if (!arch.starts_with("sm_") || arch.size() < 5 || arch.size() > 7) return 0;
  int number = 0;
  const char* const end = arch.data() + arch.size();
  const auto [rest, error] = std::from_chars(arch.data() + 3, end, number);
  const bool suffixed = rest + 1 == end && (*rest == 'a' || *rest == 'f');
  return error == std::errc() && number > 0 && (rest == end || suffixed) ? number : 0;
}

std::vector<std::string> known_architectures(std::span<const int> known, CudaVersion version) {
  std::vector<std::string> list;
  for (const int number : known) {
    const std::string plain = "sm_" + std::to_string(number);
    list.push_back(plain);
    if (number >= 90) list.push_back(plain + "a");
    if (number >= 100 && version >= CudaVersion{12, 9}) list.push_back(plain + "f");
  }
  return list;
}

std::string image_architecture(const std::string& device, std::span<const int> known) {
  const int number = architecture_number(device);
  const bool plain = device == "sm_" + std::to_string(number);
  return plain && number >= 90 && std::find(known.begin(), known.end(), number) != known.end() ? device + "a" : device;
}

std::string operator_architecture(const std::string& asked, const std::string& image, std::span<const int> known, CudaVersion version) {
  if (asked.empty()) return image;
  check_known(asked, known, version);
  const int number = architecture_number(image);
  if (architecture_number(asked) == number) return asked;
  const int own[] = {number};
  throw option_error(errc::invalid_argument, "arch",
                     "operators are linked into the device's one image, so '" + asked + "' is not possible; use " +
                         joined(known_architectures(own, version)) + ", or leave it empty");
}

std::string module_architecture(const std::string& asked, const std::string& image, std::span<const int> known, CudaVersion version) {
  if (asked.empty()) return image;
  check_known(asked, known, version);
  const int device = architecture_number(image);
  const auto runs = [&](const std::string& arch) {
    const int number = architecture_number(arch);
    if (number / 10 != device / 10 || number > device) return false;
    return number == device || is_of_family(arch) || !is_specific(arch);
  };
  if (runs(asked)) return asked;
  std::vector<std::string> possible = known_architectures(known, version);
  std::erase_if(possible, [&](const std::string& arch) { return !runs(arch); });
  throw option_error(errc::invalid_argument, "arch",
                     "the device does not run code for '" + asked + "'; use " + joined(possible) + ", or leave it empty");
}

}  // namespace dwell::jit
