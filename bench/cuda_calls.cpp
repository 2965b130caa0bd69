#ifdef DWELL_WITH_CUDA

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/cuda_work.hpp"

namespace dwell::bench {

namespace {

// Handles and memory that the calls below use.
struct CallState {
  explicit CallState(const CudaDriver& driver) : memory(driver, kBytes), stream(driver), pageable(kBytes), copied(kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) pageable[i] = static_cast<unsigned char>(i * 7 + i / 251);
  }
  static constexpr std::size_t kBytes = 1U << 20U;

  DeviceMemory memory;
  Stream stream;
  std::vector<unsigned char> pageable;
  std::vector<unsigned char> copied;
  CUdeviceptr address = 0;
  void* host = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUstream other = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  std::size_t stack = 0;
  unsigned value = 0;
};

}  // namespace

std::vector<CudaCall> make_cuda_calls(const CudaDriver& driver_, const Kernels& kernels, std::span<const std::byte> cubin) {
  const auto state = std::make_shared<CallState>(driver_);
  CallState* const s = state.get();
  const auto nothing = [] {};
  const auto alloc = [&driver_, s] { CU(cuMemAlloc, &s->address, CallState::kBytes); };
  const auto free = [&driver_, s] { CU(cuMemFree, s->address); };
  const auto host_alloc = [&driver_, s] { CU(cuMemHostAlloc, &s->host, CallState::kBytes, CU_MEMHOSTALLOC_DEVICEMAP); };
  const auto host_free = [&driver_, s] { CU(cuMemFreeHost, s->host); };
  const auto pin = [&driver_, s] { CU(cuMemHostRegister, s->pageable.data(), CallState::kBytes, CU_MEMHOSTREGISTER_DEVICEMAP); };
  const auto unpin = [&driver_, s] { CU(cuMemHostUnregister, s->pageable.data()); };
  const auto load = [&driver_, cubin, s] { CU(cuModuleLoadData, &s->module, cubin.data()); };
  const auto unload = [&driver_, s] { CU(cuModuleUnload, s->module); };
  const auto load_library = [&driver_, cubin, s] {
    CU(cuLibraryLoadData, &s->library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  const auto unload_library = [&driver_, s] { CU(cuLibraryUnload, s->library); };
  const auto set = [&kernels, s](CUfunction function) {
    CUdeviceptr to = s->memory.address();
    unsigned value = ++s->value;
    void* parameters[] = {&to, &value};
    kernels.launch(function, 1, s->stream.get(), parameters);
    s->stream.synchronise();
  };
  const auto check_set = [&driver_, s] {
    unsigned seen = 0;
    CU(cuMemcpyDtoH, &seen, s->memory.address(), sizeof(seen));
    if (seen != s->value) throw std::runtime_error("a kernel left " + std::to_string(seen) + " instead of " + std::to_string(s->value));
  };
  const auto upload = [&driver_, s] { CU(cuMemcpyHtoD, s->memory.address(), s->pageable.data(), CallState::kBytes); };
  const auto download = [&driver_, s] { CU(cuMemcpyDtoH, s->copied.data(), s->memory.address(), CallState::kBytes); };
  const auto check_copied = [s] {
    if (s->copied != s->pageable) throw std::runtime_error("what was copied to the device and back is not what it was");
    std::fill(s->copied.begin(), s->copied.end(), static_cast<unsigned char>(0));
  };

  std::vector<CudaCall> list;
  list.push_back({"cuMemAlloc", false, nothing, alloc, free});
  list.push_back({"cuMemFree", true, alloc, free, nothing});
  list.push_back({"cuMemAllocAsync + synchronise", false, nothing,
                  [&driver_, s] {
                    CU(cuMemAllocAsync, &s->address, CallState::kBytes, s->stream.get());
                    s->stream.synchronise();
                  },
                  [&driver_, s] {
                    CU(cuMemFreeAsync, s->address, s->stream.get());
                    s->stream.synchronise();
                  }});
  list.push_back({"cuMemHostAlloc", false, nothing, host_alloc, host_free});
  list.push_back({"cuMemFreeHost", true, host_alloc, host_free, nothing});
  list.push_back({"cuMemHostRegister", false, nothing, pin, unpin});
  list.push_back({"cuMemHostUnregister", true, pin, unpin, nothing});
  list.push_back({"cuModuleLoadData", true, nothing, load, [&driver_, s, set, check_set, unload] {
                    CU(cuModuleGetFunction, &s->function, s->module, kKernelSet);
                    set(s->function);
                    check_set();
                    unload();
                  }});
  list.push_back({"cuModuleUnload", true, load, unload, nothing});
  list.push_back({"first launch of a kernel + synchronise", true,
                  [&driver_, s, load] {
                    load();
                    CU(cuModuleGetFunction, &s->function, s->module, kKernelSet);
                  },
                  [s, set] { set(s->function); },
                  [check_set, unload] {
                    check_set();
                    unload();
                  }});
  list.push_back({"cuLibraryLoadData", true, nothing, load_library, unload_library});
  list.push_back({"cuKernelGetFunction", true,
                  [&driver_, s, load_library] {
                    load_library();
                    CU(cuLibraryGetKernel, &s->kernel, s->library, kKernelSet);
                  },
                  [&driver_, s] { CU(cuKernelGetFunction, &s->function, s->kernel); },
                  [s, set, check_set, unload_library] {
                    set(s->function);
                    check_set();
                    unload_library();
                  }});
  list.push_back({"cuLibraryUnload", true, load_library, unload_library, nothing});
  list.push_back({"cuCtxSynchronize", true, nothing, [&driver_] { CU(cuCtxSynchronize); }, nothing});
  list.push_back({"cuCtxSetLimit(stack size)", true, [&driver_, s] { CU(cuCtxGetLimit, &s->stack, CU_LIMIT_STACK_SIZE); },
                  [&driver_, s] { CU(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, s->stack + 1024); },
                  [&driver_, s] { CU(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, s->stack); }});
  list.push_back({"launch of a loaded kernel + synchronise", false, nothing, [&kernels, set] { set(kernels.set); }, check_set});
  list.push_back({"cuMemcpyHtoD, 1 MiB pageable", false, nothing, upload, [download, check_copied] {
                    download();
                    check_copied();
                  }});
  list.push_back({"cuMemcpyDtoH, 1 MiB pageable", false, upload, download, check_copied});
  list.push_back({"cuStreamCreate", false, nothing, [&driver_, s] { CU(cuStreamCreate, &s->other, CU_STREAM_NON_BLOCKING); },
                  [&driver_, s] { CU(cuStreamDestroy, s->other); }});
  list.push_back({"cuStreamDestroy", false, [&driver_, s] { CU(cuStreamCreate, &s->other, CU_STREAM_NON_BLOCKING); },
                  [&driver_, s] { CU(cuStreamDestroy, s->other); }, nothing});
  list.push_back({"event: create, record, synchronise, destroy", false, nothing,
                  [&driver_, s] {
                    CU(cuEventCreate, &s->event, CU_EVENT_DEFAULT);
                    CU(cuEventRecord, s->event, s->stream.get());
                    CU(cuEventSynchronize, s->event);
                    CU(cuEventDestroy, s->event);
                  },
                  nothing});
  list.push_back({"graph of one kernel: instantiate, launch, synchronise", false,
                  [&driver_, &kernels, s] {
                    CUdeviceptr to = s->memory.address();
                    unsigned value = ++s->value;
                    void* parameters[] = {&to, &value};
                    CUDA_KERNEL_NODE_PARAMS node{};
                    node.func = kernels.set;
                    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
                    node.blockDimX = node.blockDimY = node.blockDimZ = 1;
                    node.kernelParams = static_cast<void**>(parameters);
                    CUgraphNode made = nullptr;
                    CU(cuGraphCreate, &s->graph, 0);
                    CU(cuGraphAddKernelNode, &made, s->graph, nullptr, 0, &node);
                  },
                  [&driver_, s] {
                    CU(cuGraphInstantiate, &s->executable, s->graph, 0);
                    CU(cuGraphLaunch, s->executable, s->stream.get());
                    s->stream.synchronise();
                  },
                  [&driver_, s, check_set] {
                    check_set();
                    CU(cuGraphExecDestroy, s->executable);
                    CU(cuGraphDestroy, s->graph);
                  }});
  // The last call owns the state.
  for (CudaCall& call : list) call.undo = [state, undo = std::move(call.undo)] { undo(); };
  return list;
}

}  // namespace dwell::bench

#endif
