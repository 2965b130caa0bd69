#include "jit/host/host_options.hpp"

#include <algorithm>
#include <array>

#include "jit/source/option_checks.hpp"

namespace dwell::jit {

namespace {

constexpr std::string_view kNeededToLoad = "dwell loads what the compiler makes, and chooses this itself";
// These flags link in start-up code that changes the rounding mode of each thread that loads the object.
constexpr std::string_view kThreadMode = "it changes how the program's own threads round; use CompileOptions::fast_math";

constexpr auto kRefusedByHost = std::to_array<RefusedFlag>({
    {"std", "use CompileOptions::standard"},
    {"ffast-math", kThreadMode},
    {"Ofast", kThreadMode},
    {"funsafe-math-optimizations", kThreadMode},
    {"ffp-contract", "use CompileOptions::contract"},
    {"flto", "each operator is one object, so there is nothing to optimise when it is linked", true},
    {"g", "use CompileOptions::debug or line_info", true},
    {"D", "use CompileOptions::defines", true},
    {"define-macro", "use CompileOptions::defines"},
    {"I", "use CompileOptions::include_paths", true},
    {"include-directory", "use CompileOptions::include_paths"},
    {"include-directory-after", "use CompileOptions::include_paths"},
    {"include-prefix", "use CompileOptions::include_paths"},
    {"i", kUnseenByCache, true},  // -include, -imacros, -isystem, -iquote, -idirafter, -isysroot, ...
    {"include", kUnseenByCache},
    {"imacros", kUnseenByCache},
    {"sysroot", kUnseenByCache},
    {"fplugin", kUnseenByCache, true},
    {"specs", kUnseenByCache},
    {"B", kUnseenByCache, true},
    {"o", kNeededToLoad, true},
    {"output", kNeededToLoad},
    {"c", kNeededToLoad},
    {"compile", kNeededToLoad},
    {"S", kNeededToLoad},
    {"assemble", kNeededToLoad},
    {"E", kNeededToLoad},
    {"preprocess", kNeededToLoad},
    {"M", kNeededToLoad, true},
    {"fsyntax-only", kNeededToLoad},
    {"x", kNeededToLoad, true},
    {"language", kNeededToLoad},
    {"shared", kNeededToLoad},
    {"static", kNeededToLoad},
    {"pie", kNeededToLoad},
    {"r", kNeededToLoad},
    {"relocatable", kNeededToLoad},
    {"wrapper", kNeededToLoad},
});

void refuse_what_is_for_cuda(const CompileOptions& options) {
  const auto refuse = [](std::string_view option, const std::string& reason) { throw option_error(errc::unsupported, option, reason); };
  if (!options.arch.empty()) {
    refuse("arch", "'" + options.arch + "' is for CUDA; on the CPU leave it empty, or choose a processor with flags (-march=native)");
  }
  if (options.max_registers != 0) refuse("max_registers", "a CPU has the registers it has; leave it 0");
  if (options.lto) refuse("lto", "on the CPU each operator is one object, so there is nothing to optimise when it is linked");
  if (options.flush_denormals.value_or(false)) {
    refuse("flush_denormals",
           "on the CPU that is a mode of the thread, and would change the program's own arithmetic; leave it unset or false");
  }
  const auto refuse_precision = [&](std::string_view option, const std::optional<bool>& precise) {
    if (!precise) return;
    if (!*precise) refuse(option, "the CPU's compilers have no less precise one; leave it unset or true");
    if (options.fast_math) refuse(option, "the CPU's compilers do not promise it under fast_math; leave one of both unset");
  };
  refuse_precision("precise_division", options.precise_division);
  refuse_precision("precise_sqrt", options.precise_sqrt);
}

}  // namespace

std::vector<std::string> host_flags(const CompileOptions& options, const HostTarget& target) {
  check_standard(options);
  check_headers(options);
  check_flags(options, kRefusedByHost);
  refuse_what_is_for_cuda(options);

  std::vector<std::string> flags = {
      "-std=c++" + std::to_string(options.standard),
      options.debug ? "-O0" : "-O3",
      "-fPIC",
      "-shared",
      "-fvisibility=hidden",
      "-fno-plt",
      "-fdiagnostics-color=never",
  };
  // A unique symbol would keep the object from being unloaded.
  if (!target.clang) flags.emplace_back("-fno-gnu-unique");
  if (options.fast_math) {
    // Pass the parts of -ffast-math: the flag itself links in code that sets the denormal mode of the thread that loads the object.
    flags.insert(flags.end(), {"-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math",
                               "-ffinite-math-only"});
  }
  if (options.contract || options.fast_math) {
    flags.emplace_back(options.contract.value_or(true) ? "-ffp-contract=fast" : "-ffp-contract=off");
  }
  if (options.debug) {
    flags.insert(flags.end(), {"-g", "-DDWELL_CHECKED=1"});
  } else if (options.line_info) {
    flags.emplace_back("-g1");
  }
  for (const std::string& define : checked_defines(options)) flags.push_back("-D" + define);
  for (const std::string& path : checked_include_paths(options)) flags.push_back("-I" + path);
  flags.insert(flags.end(), target.flags.begin(), target.flags.end());
  flags.insert(flags.end(), options.flags.begin(), options.flags.end());
  // Report undefined functions here, where the compiler's text reaches the author; not with sanitizers, whose runtime is in the program.
  const auto sanitizes = [](const std::string& flag) { return flag.starts_with("-fsanitize"); };
  if (std::none_of(flags.begin(), flags.end(), sanitizes)) flags.emplace_back("-Wl,-z,defs");
  return flags;
}

bool flags_can_be_told(const CompileOptions& options) {
  constexpr std::string_view known[] = {"-O", "-W", "-w", "-f", "-m", "-U", "-pedantic", "-pthread", "-pipe", "--param"};
  constexpr std::string_view but[] = {
      "-Wl,",     "-Wp,",       "-Wa,",        "-fprofile",  "-fmodule", "-fauto-profile",      "-fcs-profile",
      "-fmemory", "-fprebuilt", "-fbuild",     "-fuse-ld",   "-fplugin", "-fpass-plugin",       "-fload",
      "-fthin",   "-fxray",     "-fsanitize-", "-fopt-info", "-fdump",   "-fsave-optimization", "-mllvm"};
  return std::all_of(options.flags.begin(), options.flags.end(), [&](const std::string& flag) {
    const auto begins = [&](std::string_view start) { return flag.starts_with(start); };
    return std::any_of(std::begin(known), std::end(known), begins) && std::none_of(std::begin(but), std::end(but), begins) &&
           flag.find('/') == std::string::npos && !flag.ends_with("=native");
  });
}

}  // namespace dwell::jit
