#include "bench/cuda_kernels.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

namespace dwell::bench {
namespace {

// Returns whether `cubin` holds the symbol of a kernel.
bool has_kernel(const std::vector<std::byte>& cubin, const char* name) {
  return memmem(cubin.data(), cubin.size(), name, std::strlen(name) + 1) != nullptr;
}

TEST(CudaKernels, Compile) {
  std::vector<std::byte> cubin;
  try {
    cubin = compile_cuda_kernels("sm_90");
  } catch (const std::runtime_error& problem) {
    if (std::strstr(problem.what(), "compile: ") != nullptr) FAIL() << problem.what();
    GTEST_SKIP() << problem.what();
  }
  for (const char* const name :
       {kKernelEmpty, kKernelAdd, kKernelSet, kKernelPingPong, kKernelEmptyOverlapped, kKernelAddOverlapped, kKernelVisit})
    EXPECT_TRUE(has_kernel(cubin, name)) << name;
}

TEST(CudaKernels, ATreeIsLinkedWithTheDeviceRuntime) {
  std::vector<std::byte> cubin;
  try {
    cubin = compile_cuda_tree("sm_90");
  } catch (const std::runtime_error& problem) {
    if (std::strstr(problem.what(), "compile: ") != nullptr || std::strstr(problem.what(), "linking") != nullptr) FAIL() << problem.what();
    GTEST_SKIP() << problem.what();
  }
  EXPECT_TRUE(has_kernel(cubin, kKernelTree));
}

}  // namespace
}  // namespace dwell::bench
