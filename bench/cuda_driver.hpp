// libcuda, opened at run time. Separate from dwell's: a peer must not share the library's code.
#pragma once

#include <cuda.h>

#include <string>

// cuda.h renames many of these (cuMemFree is cuMemFree_v2), so the list is expanded before a name becomes text.
#define DWELL_BENCH_CUDA_FUNCTIONS(X) \
  X(cuInit)                           \
  X(cuDriverGetVersion)               \
  X(cuGetErrorName)                   \
  X(cuDeviceGet)                      \
  X(cuDeviceGetAttribute)             \
  X(cuDeviceGetPCIBusId)              \
  X(cuDevicePrimaryCtxRetain)         \
  X(cuDevicePrimaryCtxRelease)        \
  X(cuCtxSetCurrent)                  \
  X(cuCtxSynchronize)                 \
  X(cuCtxGetLimit)                    \
  X(cuCtxSetLimit)                    \
  X(cuStreamCreate)                   \
  X(cuStreamDestroy)                  \
  X(cuStreamSynchronize)              \
  X(cuStreamWaitEvent)                \
  X(cuStreamBeginCapture)             \
  X(cuStreamEndCapture)               \
  X(cuEventCreate)                    \
  X(cuEventRecord)                    \
  X(cuEventSynchronize)               \
  X(cuEventDestroy)                   \
  X(cuMemGetInfo)                     \
  X(cuMemAlloc)                       \
  X(cuMemFree)                        \
  X(cuMemAllocAsync)                  \
  X(cuMemFreeAsync)                   \
  X(cuMemHostAlloc)                   \
  X(cuMemHostGetDevicePointer)        \
  X(cuMemFreeHost)                    \
  X(cuMemHostRegister)                \
  X(cuMemHostUnregister)              \
  X(cuMemcpyHtoD)                     \
  X(cuMemcpyDtoH)                     \
  X(cuMemcpyHtoDAsync)                \
  X(cuMemcpyDtoHAsync)                \
  X(cuMemcpyDtoDAsync)                \
  X(cuModuleLoadData)                 \
  X(cuModuleUnload)                   \
  X(cuModuleGetFunction)              \
  X(cuLibraryLoadData)                \
  X(cuLibraryUnload)                  \
  X(cuLibraryGetKernel)               \
  X(cuKernelGetFunction)              \
  X(cuFuncLoad)                       \
  X(cuLaunchKernel)                   \
  X(cuLaunchCooperativeKernel)        \
  X(cuGraphCreate)                    \
  X(cuGraphDestroy)                   \
  X(cuGraphAddKernelNode)             \
  X(cuGraphAddDependencies)           \
  X(cuGraphInstantiate)               \
  X(cuGraphUpload)                    \
  X(cuGraphLaunch)                    \
  X(cuGraphExecDestroy)

namespace dwell::bench {

struct CudaDriver {
  // Returns the process's instance, initialised. Throws std::runtime_error.
  static const CudaDriver& get();

#define DWELL_BENCH_CUDA_DECLARE(name) decltype(::name)* name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  DWELL_BENCH_CUDA_FUNCTIONS(DWELL_BENCH_CUDA_DECLARE)
#undef DWELL_BENCH_CUDA_DECLARE

  // Throws std::runtime_error naming `what`, unless `result` is success.
  void check(CUresult result, const char* what) const {
    if (result != CUDA_SUCCESS) fail(result, what);
  }

 private:
  CudaDriver();
  [[noreturn]] void fail(CUresult result, const char* what) const;
};

}  // namespace dwell::bench

// Calls a function of `driver` and throws unless it succeeds.
#define DWELL_BENCH_CUDA(driver, function, ...) \
  (driver).check((driver).function(__VA_ARGS__), #function)  // NOLINT(bugprone-macro-parentheses): the name of a member
