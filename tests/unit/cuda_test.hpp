// Shared by tests that compile for CUDA. They need NVRTC and nvJitLink but no GPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include <dwell/error.hpp>

#include "jit/cuda/cuda_compiler.hpp"
#include "jit/cuda/nvjitlink.hpp"
#include "jit/cuda/nvrtc.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::jit {

// Skips its tests, with the reason, if there is no compiler.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      Nvrtc::get();
      NvJitLink::get();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  // Returns whether the installed NVRTC supports `arch`: "sm_90", "sm_90a".
  static bool compiles_for(const std::string& arch) {
    return std::ranges::count(Nvrtc::get().architectures(), std::stoi(arch.substr(3))) != 0;
  }
  // A compiler with the real loop: one for each architecture in all tests, with the user's cache, because compiling the loop takes most of
  // the time.
  static CudaCompiler& compiler_for(const std::string& arch) {
    static std::map<std::string, CudaCompiler> all;
    return all.try_emplace(arch, CudaCompiler::Options{.arch = arch, .cache = FileCache::from_environment({})}).first->second;
  }
  static CudaCompiler& compiler() { return compiler_for("sm_90"); }
};

// Tests of resource figures. They run no code of dwell that other tests do not run, so sanitized builds omit them.
class CudaFiguresTest : public CudaTest {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "checks figures of NVIDIA's compilers, which no sanitizer sees into";
    CudaTest::SetUp();
  }
};

}  // namespace dwell::jit
