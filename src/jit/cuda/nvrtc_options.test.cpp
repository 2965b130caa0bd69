#include "jit/cuda/nvrtc_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dwell/error.hpp>

namespace dwell::jit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int kKnown[] = {75, 80, 86, 89, 90, 100, 103, 120};
constexpr CudaVersion kVersion{13, 0};

std::vector<std::string> flags_of(const CompileOptions& options) {
  return nvrtc_flags(options, {.arch = "sm_90a", .cuda_includes = "/cuda"});
}

// The flags that `options` adds or removes.
std::vector<std::string> difference(const CompileOptions& options) {
  std::vector<std::string> result;
  const auto before = flags_of({});
  const auto after = flags_of(options);
  for (const std::string& flag : after) {
    if (std::find(before.begin(), before.end(), flag) == before.end()) result.push_back(flag);
  }
  return result;
}

template <class Check>
std::string refusal(Check check) {
  try {
    check();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::invalid_argument) << error.what();
    return error.message();
  }
  return "accepted";
}

TEST(NvrtcOptions, RequiredFlagsArePresent) {
  EXPECT_THAT(flags_of({}), ElementsAre("--gpu-architecture=sm_90a", "--relocatable-device-code=true", "--std=c++20",
                                        "--device-as-default-execution-space", "--minimal", "--diag-suppress=177", "--include-path=/cuda"));
  EXPECT_THAT(nvrtc_flags({}, {.arch = "sm_80", .relocatable = false, .cuda_includes = {}}),
              testing::AllOf(testing::Contains("--relocatable-device-code=false"), Not(testing::Contains(HasSubstr("include-path"))),
                             Not(testing::Contains("--minimal")), Not(testing::Contains("--device-as-default-execution-space"))));
}

TEST(NvrtcOptions, EachOptionHasItsFlag) {
  EXPECT_THAT(difference({.standard = 14}), ElementsAre("--std=c++14"));
  EXPECT_THAT(difference({.fast_math = true}), ElementsAre("--use_fast_math"));
  EXPECT_THAT(difference({.fast_math = true, .precise_division = true}), ElementsAre("--use_fast_math", "--prec-div=true"));
  EXPECT_THAT(difference({.flush_denormals = true, .contract = false, .precise_division = false, .precise_sqrt = true}),
              ElementsAre("--ftz=true", "--fmad=false", "--prec-div=false", "--prec-sqrt=true"));
  EXPECT_THAT(difference({.max_registers = 64}), ElementsAre("--maxrregcount=64"));
  EXPECT_THAT(nvrtc_flags({}, {.arch = "sm_90a", .form = Form::lto, .cuda_includes = {}}), testing::Contains("--dlink-time-opt"));
  EXPECT_THAT(difference({.line_info = true}), ElementsAre("--generate-line-info"));
  EXPECT_THAT(difference({.line_info = true, .debug = true}), ElementsAre("--device-debug", "--dopt=on", "--define-macro=DWELL_CHECKED=1"));
  EXPECT_THAT(difference({.defines = {{"TILE", "32"}, {"NAME", "\"a b\""}}}),
              ElementsAre("--define-macro=NAME=\"a b\"", "--define-macro=TILE=32"));
  EXPECT_THAT(difference({.include_paths = {"/usr", "/tmp"}}), ElementsAre("--include-path=/usr", "--include-path=/tmp"));
  EXPECT_EQ(flags_of({.include_paths = {"/usr"}}).back(), "--include-path=/cuda") << "CUDA's own come last";
  EXPECT_EQ(flags_of({.flags = {"--restrict"}}).back(), "--restrict");
}

TEST(NvrtcOptions, UnsupportedOptionsAreNamed) {
  EXPECT_THAT(refusal([] { flags_of({.standard = 11}); }), HasSubstr("C++11"));
  for (const unsigned count : {1U, 23U, 256U}) {
    EXPECT_THAT(refusal([&] { flags_of({.max_registers = count}); }),
                testing::AllOf(HasSubstr("max_registers"), HasSubstr(std::to_string(count)), HasSubstr("24 to 255")));
  }
  for (const char* const flag : {"-rdc=false", "--relocatable-device-code=false", "-arch=sm_80", "--gpu-architecture=sm_80", "-std=c++17",
                                 "--std=c++17", "-dc", "-dlto", "--use_fast_math", "-G", "-DA", "-I/x", "--pch", "--pre-include=x"}) {
    EXPECT_THAT(refusal([&] { flags_of({.flags = {flag}}); }), HasSubstr(flag));
  }
}

TEST(NvrtcOptions, ArchitecturesByForm) {
  EXPECT_EQ(architecture_number("sm_90"), 90);
  EXPECT_EQ(architecture_number("sm_90a"), 90);
  EXPECT_EQ(architecture_number("sm_100f"), 100);
  for (const char* const arch :
       {"", "sm_", "sm_a", "sm_9", "90", "gfx90a", "sm_90x", "sm_90aa", "sm_90 ", "sm_1000a", "compute_90", "sm_-9"}) {
    EXPECT_EQ(architecture_number(arch), 0) << arch;
  }
  EXPECT_THAT(known_architectures(kKnown, kVersion),
              ElementsAre("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a",
                          "sm_103f", "sm_120", "sm_120a", "sm_120f"));
  EXPECT_THAT(known_architectures(kKnown, {12, 8}), Not(testing::Contains("sm_100f")));
}

TEST(NvrtcOptions, ImagesUseTheDevicesOwnInstructions) {
  EXPECT_EQ(image_architecture("sm_90", kKnown), "sm_90a");
  EXPECT_EQ(image_architecture("sm_120", kKnown), "sm_120a");
  EXPECT_EQ(image_architecture("sm_89", kKnown), "sm_89") << "has no variant";
  EXPECT_EQ(image_architecture("sm_90a", kKnown), "sm_90a");
  EXPECT_EQ(image_architecture("sm_121", kKnown), "sm_121") << "which this NVRTC does not know";
}

TEST(NvrtcOptions, OperatorArchitecturesMatchTheImage) {
  const auto chosen = [](const std::string& asked) { return operator_architecture(asked, "sm_90a", kKnown, kVersion); };
  EXPECT_EQ(chosen(""), "sm_90a");
  EXPECT_EQ(chosen("sm_90"), "sm_90");
  EXPECT_EQ(chosen("sm_90a"), "sm_90a");
  EXPECT_THAT(refusal([&] { chosen("sm_80"); }), testing::AllOf(HasSubstr("sm_80"), HasSubstr("use sm_90, sm_90a, or")));
  for (const char* const arch : {"sm_91", "sm_90f", "sm_90b", "x"}) {
    EXPECT_THAT(refusal([&] { chosen(arch); }), testing::AllOf(HasSubstr(arch), HasSubstr("NVRTC 13.0"), HasSubstr("sm_75, sm_80")));
  }
}

TEST(NvrtcOptions, ModuleArchitecturesRunOnTheDevice) {
  const auto chosen = [](const std::string& asked, const std::string& image = "sm_103a") {
    return module_architecture(asked, image, kKnown, kVersion);
  };
  EXPECT_EQ(chosen(""), "sm_103a");
  for (const char* const arch : {"sm_100", "sm_100f", "sm_103", "sm_103a"}) EXPECT_EQ(chosen(arch), arch);
  EXPECT_EQ(chosen("sm_80", "sm_86"), "sm_80");
  EXPECT_THAT(refusal([&] { chosen("sm_100a"); }), HasSubstr("use sm_100, sm_100f, sm_103, sm_103a, sm_103f, or"));
  EXPECT_THAT(refusal([&] { chosen("sm_90"); }), HasSubstr("sm_90"));
  EXPECT_THAT(refusal([&] { chosen("sm_89", "sm_86"); }), HasSubstr("use sm_80, sm_86, or"));
  EXPECT_THAT(refusal([&] { chosen("nonsense"); }), HasSubstr("NVRTC 13.0"));
}

}  // namespace
}  // namespace dwell::jit
