// libcuda, opened at run time: uses CUDA's headers for types, links nothing of CUDA.
#pragma once

#include <cuda.h>

#include <string>

#include <dwell/error.hpp>

static_assert(CUDA_VERSION >= 12040, "cuFuncLoad came with CUDA 12.4");

// The driver functions in use, except the one that is looked up by hand. cuda.h renames many of them (cuMemFree is cuMemFree_v2), so
// the list must be expanded before a name is turned into text: then symbol, type and version always agree with the header.
#define DWELL_CUDA_FUNCTIONS(X)                  \
  X(cuInit)                                      \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGetName)                             \
  X(cuDeviceGetAttribute)                        \
  X(cuDeviceTotalMem)                            \
  X(cuDevicePrimaryCtxGetState)                  \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuDevicePrimaryCtxRelease)                   \
  X(cuCtxGetCurrent)                             \
  X(cuCtxPushCurrent)                            \
  X(cuCtxPopCurrent)                             \
  X(cuThreadExchangeStreamCaptureMode)           \
  X(cuCtxGetStreamPriorityRange)                 \
  X(cuStreamCreateWithPriority)                  \
  X(cuStreamDestroy)                             \
  X(cuStreamQuery)                               \
  X(cuStreamSynchronize)                         \
  X(cuStreamIsCapturing)                         \
  X(cuStreamGetId)                               \
  X(cuEventCreate)                               \
  X(cuEventDestroy)                              \
  X(cuEventRecord)                               \
  X(cuEventQuery)                                \
  X(cuEventSynchronize)                          \
  X(cuStreamWaitEvent)                           \
  X(cuMemPoolCreate)                             \
  X(cuMemPoolDestroy)                            \
  X(cuMemPoolSetAttribute)                       \
  X(cuMemPoolTrimTo)                             \
  X(cuMemAllocFromPoolAsync)                     \
  X(cuMemFreeAsync)                              \
  X(cuMemAddressReserve)                         \
  X(cuMemAddressFree)                            \
  X(cuMemCreate)                                 \
  X(cuMemRelease)                                \
  X(cuMemMap)                                    \
  X(cuMemUnmap)                                  \
  X(cuMemSetAccess)                              \
  X(cuMemGetAllocationGranularity)               \
  X(cuMemHostAlloc)                              \
  X(cuMemHostGetDevicePointer)                   \
  X(cuMemFreeHost)                               \
  X(cuMemHostRegister)                           \
  X(cuMemHostUnregister)                         \
  X(cuPointerGetAttribute)                       \
  X(cuMemsetD8Async)                             \
  X(cuMemcpyHtoDAsync)                           \
  X(cuMemcpyDtoHAsync)                           \
  X(cuMemcpyDtoDAsync)                           \
  X(cuModuleLoadData)                            \
  X(cuModuleUnload)                              \
  X(cuModuleGetFunction)                         \
  X(cuModuleGetGlobal)                           \
  X(cuFuncLoad)                                  \
  X(cuFuncGetAttribute)                          \
  X(cuFuncSetAttribute)                          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuLaunchKernel)                              \
  X(cuLaunchCooperativeKernel)                   \
  X(cuGraphCreate)                               \
  X(cuGraphAddKernelNode)                        \
  X(cuGraphKernelNodeSetAttribute)               \
  X(cuGraphInstantiate)                          \
  X(cuGraphLaunch)                               \
  X(cuGraphDestroy)                              \
  X(cuGraphExecDestroy)

namespace dwell::backend {

// The functions of libcuda, initialised. Stays open for the life of the process, because CUDA's own exit handlers and those of others
// (PyTorch) still run in it. All members may be used from several threads.
struct Driver {
  static constexpr int kOldest = 12040;  // cuFuncLoad, and what images made by CUDA 12.4 and newer need

  // Returns the process's driver. Throws dwell::Error with errc::device_unavailable, naming the file, its fault and the required version; a
  // later call tries again.
  static const Driver& get();
  // Opens `library`, a file or a name for the loader to search. Throws as get() does.
  explicit Driver(const std::string& library);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  std::string file;  // the path that the loader found
  int version = 0;   // of CUDA: 13020 is 13.2

#define DWELL_CUDA_DECLARE(name) decltype(::name)* name = nullptr;
  DWELL_CUDA_FUNCTIONS(DWELL_CUDA_DECLARE)
#undef DWELL_CUDA_DECLARE

  // Formats a result: "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
  std::string text(CUresult result) const;
  // Throws dwell::Error unless `result` is success; the message says `what` failed and why. The code is out_of_memory,
  // invalid_argument, device_unavailable, link_failed or unsupported where the result says so, else device_lost.
  void check(CUresult result, const char* what) const {
    if (result != CUDA_SUCCESS) fail(result, what);
  }
  // Returns whether the stream is being captured. Throws as check.
  bool is_captured(CUstream stream) const {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    check(cuStreamIsCapturing(stream, &capture), "looking at the stream");
    return capture != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  // Throws errc::invalid_argument if the stream is being captured; the message ends with `why`.
  void refuse_captured(CUstream stream, const char* why) const;

 private:
  [[noreturn]] void fail(CUresult result, const std::string& what) const;
};

// 12040 as "12.4".
std::string cuda_version_text(int version);

// Makes a context current while it lives, and then restores the previous one. Costs one query if it is current already.
//
// During a capture in CUDA's global mode, as PyTorch's, unsafe calls fail in every thread, and end the capture with an error. The runtime's
// own calls use captured streams only on request, so it exempts them from this check.
class Current {
 public:
  Current(const Driver& driver, CUcontext context) noexcept : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&capture_mode_);
    CUcontext now = nullptr;
    result_ = driver_.cuCtxGetCurrent(&now);
    if (result_ != CUDA_SUCCESS || now == context) return;
    result_ = driver_.cuCtxPushCurrent(context);
    pushed_ = result_ == CUDA_SUCCESS;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
    driver_.cuThreadExchangeStreamCaptureMode(&capture_mode_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  // Returns whether the context is current. Fails once CUDA has shut down.
  CUresult result() const noexcept { return result_; }

 private:
  const Driver& driver_;
  CUresult result_;
  bool pushed_ = false;
  CUstreamCaptureMode capture_mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace dwell::backend
