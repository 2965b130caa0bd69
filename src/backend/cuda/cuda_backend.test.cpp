// The backend's driver calls, its use of the results, and the release of resources, with a driver that runs nothing. tests/gpu uses the
// real one.
#include "backend/cuda/cuda_backend.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/driver.hpp"
#include "tests/unit/driver_library.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::backend {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// The driver's knowledge of an address.
struct Known {
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  std::size_t behind = 1000;  // bytes from the address to the end of its range
  int device = 0;
  bool managed = false;
  CUcontext context = nullptr;
  CUdeviceptr mapped = 0;  // the device's address for it
};

constexpr std::size_t kStep = 1024;  // the granularity of mappings

// The state of the fake driver. There is one instance, because driver functions carry no state.
struct StandIn {
  std::map<std::string, int> alive;          // allocated and not yet released
  std::map<std::string, CUresult> failures;  // results of the next call of a function
  int calls = 0;
  int waits = 0;   // for a stream
  int copies = 0;  // to the host
  int pinned = 0;  // copies to the device from pinned memory
  int shared = 0;  // whether the process already has a context
  int block_threads = 160;
  bool finished = true;            // whether the work in the streams is finished
  std::vector<int> priorities;     // of the streams, which are numbered from 1
  std::vector<CUstream> launches;  // the streams of launched kernels
  int cooperative = 0;             // launches among these
  std::vector<CUstream> graph_launches;
  std::vector<CUstream> ordered;   // streams that were told to wait for an event
  std::vector<CUstream> recorded;  // streams in which events were recorded
  CUstream captured = nullptr;     // a stream that is being captured
  std::uint64_t ids = 0;           // differs from a stream to a later one with its handle
  CUstream slow = nullptr;         // the only stream with unfinished work
  std::vector<CUcontext> current;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;  // the thread's
  bool joins_captures = false;                                       // some call was made outside of the relaxed mode
  std::map<void*, std::unique_ptr<std::byte[]>> memory;              // of the device and the host
  std::map<CUdeviceptr, Known> known;                                // foreign memory
  std::size_t mapped = 0;                                            // bytes of regions

  void* allocate(std::size_t bytes) {
    auto made = std::make_unique<std::byte[]>(bytes);
    std::byte* const address = made.get();
    std::memset(address, 0xCC, bytes);
    memory.emplace(address, std::move(made));
    return address;
  }

  // Counts a call. Returns its result.
  CUresult call(const char* name) {
    ++calls;
    const bool about_contexts = std::strcmp(name, "current") == 0 || std::strcmp(name, "push") == 0 || std::strcmp(name, "pop") == 0;
    joins_captures = joins_captures || (!current.empty() && !about_contexts && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED);
    const auto failure = failures.find(name);
    if (failure == failures.end()) return CUDA_SUCCESS;
    const CUresult result = failure->second;
    failures.erase(failure);
    return result;
  }
  CUresult give(const char* name, const char* what) {
    const CUresult result = call(name);
    if (result == CUDA_SUCCESS) ++alive[what];
    return result;
  }
  template <class Handle>
  CUresult give(const char* name, const char* what, Handle* handle) {
    const CUresult result = give(name, what);
    if (result == CUDA_SUCCESS) *handle = reinterpret_cast<Handle>(0x1000);
    return result;
  }
  CUresult take(const char* name, const char* what) {
    const CUresult result = call(name);
    if (--alive[what] == 0) alive.erase(what);
    return result;
  }
};
StandIn* it = nullptr;

CUresult pointer_attribute(void* to, CUpointer_attribute asked, CUdeviceptr address) {
  const auto at = it->known.find(address);
  if (const CUresult result = it->call("pointer"); result != CUDA_SUCCESS) return result;
  if (at == it->known.end()) return CUDA_ERROR_INVALID_VALUE;
  const Known& known = at->second;
  const auto answer = [to](auto value) {
    *static_cast<decltype(value)*>(to) = value;
    return CUDA_SUCCESS;
  };
  switch (asked) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return answer(static_cast<unsigned>(known.type));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return answer(known.managed ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return answer(known.device);
    case CU_POINTER_ATTRIBUTE_CONTEXT: return answer(known.context);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return answer(address - 24);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return answer(known.behind + 24);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return known.mapped == 0 ? CUDA_ERROR_INVALID_VALUE : answer(known.mapped);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return known.type == CU_MEMORYTYPE_HOST ? answer(reinterpret_cast<void*>(address)) : CUDA_ERROR_INVALID_VALUE;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

int attribute(CUdevice_attribute asked) {
  switch (asked) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 10;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 200'000;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 1024;
    default: return 0;
  }
}

class CudaBackendTest : public testing::Test {
 protected:
  CudaBackendTest() : driver_(library().file()) {
    it = &stand_in_;
    driver_.cuGetErrorName = [](CUresult, const char** name) { return *name = "CUDA_ERROR", CUDA_SUCCESS; };
    driver_.cuGetErrorString = [](CUresult, const char** text) { return *text = "it failed", CUDA_SUCCESS; };
    driver_.cuDeviceGetCount = [](int* count) { return *count = 1, CUDA_SUCCESS; };
    driver_.cuDeviceGetName = [](char* name, int, CUdevice) { return std::strcpy(name, "stand-in"), CUDA_SUCCESS; };
    driver_.cuDeviceGetAttribute = [](int* value, CUdevice_attribute asked, CUdevice) { return *value = attribute(asked), CUDA_SUCCESS; };
    driver_.cuDevicePrimaryCtxGetState = [](CUdevice, unsigned*, int* active) { return *active = it->shared, CUDA_SUCCESS; };
    driver_.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) { return it->give("retain", "context", context); };
    driver_.cuDevicePrimaryCtxRelease = [](CUdevice) { return it->take("release", "context"); };
    driver_.cuCtxGetCurrent = [](CUcontext* context) {
      *context = it->current.empty() ? nullptr : it->current.back();
      return it->call("current");
    };
    driver_.cuCtxPushCurrent = [](CUcontext context) { return it->current.push_back(context), it->call("push"); };
    driver_.cuCtxPopCurrent = [](CUcontext*) { return it->current.pop_back(), it->call("pop"); };
    driver_.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
      std::swap(*mode, it->capture_mode);
      return CUDA_SUCCESS;
    };
    driver_.cuCtxGetStreamPriorityRange = [](int* lowest, int* highest) { return *lowest = 0, *highest = -5, CUDA_SUCCESS; };
    driver_.cuStreamCreateWithPriority = [](CUstream* stream, unsigned, int priority) {
      const CUresult result = it->give("stream", "stream", stream);
      it->priorities.push_back(priority);
      if (result == CUDA_SUCCESS) *stream = reinterpret_cast<CUstream>(it->priorities.size());
      return result;
    };
    driver_.cuStreamDestroy = [](CUstream) { return it->take("stream destroy", "stream"); };
    driver_.cuStreamSynchronize = [](CUstream) { return ++it->waits, it->call("synchronise"); };
    driver_.cuStreamQuery = [](CUstream stream) {
      const CUresult result = it->call("query");
      return result == CUDA_SUCCESS && (!it->finished || stream == it->slow) ? CUDA_ERROR_NOT_READY : result;
    };
    driver_.cuEventCreate = [](CUevent* event, unsigned) { return it->give("event", "event", event); };
    driver_.cuEventDestroy = [](CUevent) { return it->take("event destroy", "event"); };
    driver_.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* capture) {
      *capture = stream == it->captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
      return it->call("capturing");
    };
    driver_.cuStreamGetId = [](CUstream stream, unsigned long long* id) {
      *id = reinterpret_cast<std::uintptr_t>(stream) + it->ids;
      return it->call("id");
    };
    driver_.cuStreamWaitEvent = [](CUstream stream, CUevent, unsigned) { return it->ordered.push_back(stream), it->call("order"); };
    driver_.cuEventSynchronize = [](CUevent) { return ++it->waits, it->call("event synchronise"); };
    driver_.cuEventRecord = [](CUevent, CUstream stream) { return it->recorded.push_back(stream), it->call("record"); };
    driver_.cuEventQuery = [](CUevent) { return it->finished ? it->call("event query") : CUDA_ERROR_NOT_READY; };
    driver_.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps*) { return it->give("pool", "pool", pool); };
    driver_.cuMemPoolDestroy = [](CUmemoryPool) { return it->take("pool destroy", "pool"); };
    driver_.cuMemPoolTrimTo = [](CUmemoryPool, std::size_t) { return it->call("trim"); };
    driver_.cuMemAllocFromPoolAsync = [](CUdeviceptr* address, std::size_t bytes, CUmemoryPool, CUstream) {
      const CUresult result = it->give("allocate", "device memory");
      if (result == CUDA_SUCCESS) *address = reinterpret_cast<CUdeviceptr>(it->allocate(bytes));
      return result;
    };
    driver_.cuMemFreeAsync = [](CUdeviceptr address, CUstream) {
      it->memory.erase(reinterpret_cast<void*>(address));
      return it->take("free", "device memory");
    };
    driver_.cuMemHostAlloc = [](void** address, std::size_t bytes, unsigned) {
      const CUresult result = it->give("host allocate", "host memory");
      if (result == CUDA_SUCCESS) *address = it->allocate(bytes);
      return result;
    };
    driver_.cuMemHostGetDevicePointer = [](CUdeviceptr* address, void* host, unsigned) {
      return *address = reinterpret_cast<CUdeviceptr>(host), it->call("map");
    };
    driver_.cuMemFreeHost = [](void* address) { return it->memory.erase(address), it->take("free host", "host memory"); };
    driver_.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
      return std::memset(reinterpret_cast<void*>(to), value, bytes), it->call("clear");
    };
    driver_.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
      it->pinned += it->memory.contains(const_cast<void*>(from)) ? 1 : 0;
      return std::memcpy(reinterpret_cast<void*>(to), from, bytes), it->call("to device");
    };
    driver_.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
      return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), ++it->copies, it->call("to host");
    };
    driver_.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
      return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), it->call("on device");
    };
    // A range is backed entirely from the start; `mapped` counts the bytes in use.
    driver_.cuMemGetAllocationGranularity = [](std::size_t* step, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
      return *step = kStep, CUDA_SUCCESS;
    };
    driver_.cuMemAddressReserve = [](CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
      const CUresult result = it->give("reserve", "addresses");
      if (result == CUDA_SUCCESS) *address = reinterpret_cast<CUdeviceptr>(it->allocate(bytes));
      return result;
    };
    driver_.cuMemAddressFree = [](CUdeviceptr address, std::size_t) {
      it->memory.erase(reinterpret_cast<void*>(address));
      return it->take("free addresses", "addresses");
    };
    driver_.cuMemCreate = [](CUmemGenericAllocationHandle* memory, std::size_t, const CUmemAllocationProp*, unsigned long long) {
      return *memory = 1, it->give("create", "mapped memory");
    };
    driver_.cuMemRelease = [](CUmemGenericAllocationHandle) { return it->take("release memory", "mapped memory"); };
    driver_.cuMemMap = [](CUdeviceptr, std::size_t bytes, std::size_t, CUmemGenericAllocationHandle, unsigned long long) {
      const CUresult result = it->call("map memory");
      if (result == CUDA_SUCCESS) it->mapped += bytes;
      return result;
    };
    driver_.cuMemUnmap = [](CUdeviceptr, std::size_t bytes) { return it->mapped -= bytes, it->call("unmap"); };
    driver_.cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) { return it->call("access"); };
    driver_.cuPointerGetAttribute = pointer_attribute;
    driver_.cuModuleLoadData = [](CUmodule* module, const void*) { return it->give("load", "module", module); };
    driver_.cuModuleUnload = [](CUmodule) { return it->take("unload", "module"); };
    driver_.cuModuleGetFunction = [](CUfunction* function, CUmodule, const char*) {
      return *function = reinterpret_cast<CUfunction>(0x2000), it->call("function");
    };
    driver_.cuFuncGetAttribute = [](int* value, CUfunction_attribute asked, CUfunction) {
      return *value = asked == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? it->block_threads : 1000, it->call("attribute");
    };
    driver_.cuOccupancyMaxActiveBlocksPerMultiprocessor = [](int* blocks, CUfunction, int, std::size_t) {
      return *blocks = 6, it->call("occupancy");
    };
    driver_.cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream stream, void**,
                                void**) { return it->launches.push_back(stream), it->call("launch"); };
    driver_.cuLaunchCooperativeKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                           CUstream stream,
                                           void**) { return ++it->cooperative, it->launches.push_back(stream), it->call("launch"); };
    driver_.cuGraphCreate = [](CUgraph* graph, unsigned) { return it->give("graph", "graph", graph); };
    driver_.cuGraphAddKernelNode = [](CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CUDA_KERNEL_NODE_PARAMS*) {
      return it->call("node");
    };
    driver_.cuGraphKernelNodeSetAttribute = [](CUgraphNode, CUkernelNodeAttrID, const CUkernelNodeAttrValue* value) {
      return it->cooperative += value->cooperative, it->call("node attribute");
    };
    driver_.cuGraphInstantiate = [](CUgraphExec* graph, CUgraph, unsigned long long) { return it->give("instantiate", "exec", graph); };
    driver_.cuGraphLaunch = [](CUgraphExec, CUstream stream) { return it->graph_launches.push_back(stream), it->call("graph launch"); };
    driver_.cuGraphDestroy = [](CUgraph) { return it->take("graph destroy", "graph"); };
    driver_.cuGraphExecDestroy = [](CUgraphExec) { return it->take("exec destroy", "exec"); };
  }
  static const test::DriverLibrary& library() {
    static const test::DriverLibrary answers_nothing(test::driver_that_answers(0));
    return answers_nothing;
  }
  // The header of a cubin: all that the backend reads.
  static std::vector<std::byte> cubin() {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = 190;
    std::vector<std::byte> bytes(sizeof(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes;
  }
  std::unique_ptr<Backend> open() const { return open_cuda(driver_, 0); }
  // One of each resource of a backend: 8 bytes on the device and on the host, an image, kernels, a launch in flight.
  struct Held {
    std::unique_ptr<Allocation> memory;
    std::unique_ptr<Allocation> host;
    std::unique_ptr<LoadedImage> image;
    std::unique_ptr<LoadedModule> kernels;
    std::unique_ptr<Completion> completion;
  };
  static Held one_of_each(Backend& backend) {
    const std::string symbols[] = {"kernel"};
    Held held{backend.allocate(8), backend.allocate_host(8), backend.load(cubin()), backend.load_kernels(cubin(), symbols), {}};
    held.completion = backend.launch(*held.kernels, {});
    return held;
  }

  StandIn stand_in_;
  Driver driver_;
};

TEST_F(CudaBackendTest, ABurstRunsInTheStreamItIsOrderedIn) {
  const auto backend = open_cuda(driver_, 0);
  const auto image = backend->load(cubin());
  auto* const first = reinterpret_cast<CUstream>(0x100);
  auto* const second = reinterpret_cast<CUstream>(0x200);
  const auto burst = [&](CUstream stream) {
    backend->start_burst(*image, {}, stream);
    backend->order_behind_burst();
  };
  burst(first);
  burst(first);
  EXPECT_THAT(stand_in_.launches, testing::ElementsAre(first, first));
  EXPECT_THAT(stand_in_.recorded, testing::ElementsAre(first, first));
  EXPECT_THAT(stand_in_.ordered, testing::IsEmpty()) << "the stream orders its own bursts";
  burst(second);
  EXPECT_THAT(stand_in_.ordered, testing::ElementsAre(second));
  burst(nullptr);
  EXPECT_EQ(stand_in_.ordered.size(), 2U);
  EXPECT_EQ(stand_in_.ordered.back(), stand_in_.launches.back()) << "a burst of no stream follows the others, too";
  burst(second);
  stand_in_.ids = 1;
  burst(second);
  EXPECT_EQ(stand_in_.ordered.size(), 4U) << "a new stream may have the handle of one that was destroyed";
}

TEST_F(CudaBackendTest, NoBurstRunsInAStreamThatIsCaptured) {
  const auto backend = open_cuda(driver_, 0);
  auto* const stream = reinterpret_cast<CUstream>(0x100);
  EXPECT_NO_THROW(backend->check_burst(stream));
  EXPECT_NO_THROW(backend->check_burst(nullptr));
  stand_in_.captured = stream;
  DWELL_EXPECT_ERROR(backend->check_burst(stream), errc::invalid_argument, HasSubstr("captured"));
}

TEST_F(CudaBackendTest, ReleasesAllResources) {
  {
    const auto backend = open();
    const auto [memory, host, image, kernels, completion] = one_of_each(*backend);
    EXPECT_EQ(backend->info().target, "sm_90");
    EXPECT_EQ(backend->info().default_workers, 40U);
    EXPECT_THAT(stand_in_.alive, testing::SizeIs(7));
    EXPECT_THAT(stand_in_.current, IsEmpty()) << "no call leaves the context current";

    const std::uint64_t sent = 0x0123456789ABCDEF;
    std::uint64_t received = 1;
    backend->copy_to_host(&received, memory->device(), sizeof(received));
    EXPECT_EQ(received, 0U) << "memory is cleared";
    backend->copy_to_device(memory->device(), &sent, sizeof(sent));
    backend->copy_to_host(&received, memory->device(), sizeof(received));
    EXPECT_EQ(received, sent);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(host->host()), host->device());
    EXPECT_EQ(image->max_workers(1024), 60U);
    EXPECT_EQ(image->max_workers(199'001), 0U) << "beyond what a block may have";
    backend->start(*image, {});
    backend->finish();
    EXPECT_EQ(backend->fault(), "");
    EXPECT_TRUE(completion->done());
  }
  EXPECT_THAT(stand_in_.alive, IsEmpty());
  EXPECT_THAT(stand_in_.current, IsEmpty());
  EXPECT_EQ(stand_in_.capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "calls of others are looked at as before";
  EXPECT_FALSE(stand_in_.joins_captures) << "a call would end the capture of another thread";
}

TEST_F(CudaBackendTest, CopiesShareOneWait) {
  const auto backend = open();
  const std::uint64_t sent[] = {1, 2, 3};
  std::vector<std::unique_ptr<Allocation>> memory;
  for (const std::uint64_t& word : sent) {
    memory.push_back(backend->allocate(sizeof(word)));
    backend->copy_to_device(memory.back()->device(), &word, sizeof(word));
  }
  std::uint64_t received[3] = {};
  std::vector<HostCopy> copies;
  for (std::size_t i = 0; i < 3; ++i) copies.push_back({&received[i], memory[i]->device(), sizeof(received[i])});
  copies.push_back({nullptr, memory[0]->device(), 0});
  const int waits = stand_in_.waits;
  backend->copy_all_to_host(copies);
  EXPECT_THAT(received, testing::ElementsAreArray(sent));
  EXPECT_EQ(stand_in_.waits, waits + 1);
  EXPECT_EQ(stand_in_.copies, 3) << "nothing is to be done for an empty one";
  // Copies queued before the refused one write into the caller's memory, so the backend waits for them.
  stand_in_.failures["to host"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  DWELL_EXPECT_ERROR(backend->copy_all_to_host(copies), errc::device_lost, HasSubstr("copying to the host"));
  EXPECT_EQ(stand_in_.waits, waits + 2);
  stand_in_.failures["synchronise"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  DWELL_EXPECT_ERROR(backend->copy_all_to_host(copies), errc::device_lost, HasSubstr("copying to the host"));
  EXPECT_THAT(stand_in_.current, IsEmpty());
}

TEST_F(CudaBackendTest, RegionsGrowInPlace) {
  const auto backend = open();
  {
    const auto region = backend->reserve(3 * kStep - 1, 10 * kStep);
    EXPECT_EQ(region->bytes(), 3 * kStep);
    EXPECT_EQ(region->host(), nullptr);
    std::uint64_t word = 1;
    backend->copy_to_host(&word, region->device(), sizeof(word));
    EXPECT_EQ(word, 0U) << "it is cleared";
    const CUdeviceptr address = region->device();
    region->grow(2 * kStep);
    EXPECT_EQ(region->bytes(), 3 * kStep);
    region->grow(8 * kStep);
    EXPECT_EQ(region->bytes(), 8 * kStep);
    region->grow(8 * kStep + 1);
    EXPECT_EQ(region->bytes(), 10 * kStep) << "a quarter more at once";
    EXPECT_EQ(region->device(), address);
    DWELL_EXPECT_ERROR(region->grow(10 * kStep + 1), errc::out_of_memory, HasSubstr("it ends at 10240"));
    EXPECT_EQ(stand_in_.mapped, 10 * kStep);
    backend->copy_on_device(region->device() + 16, region->device(), 16);
    word = 7;
    backend->copy_to_device(region->device(), &word, sizeof(word));
    backend->clear(region->device(), sizeof(word));
    backend->copy_to_host(&word, region->device(), sizeof(word));
    EXPECT_EQ(word, 0U);
  }
  EXPECT_EQ(stand_in_.mapped, 0U);
  EXPECT_FALSE(stand_in_.alive.contains("addresses"));
  EXPECT_FALSE(stand_in_.alive.contains("mapped memory")) << "it goes when it is not mapped any more";
}

TEST_F(CudaBackendTest, FailedGrowthLeavesTheRegionUnchanged) {
  const auto backend = open();
  const auto region = backend->reserve(4 * kStep, 100 * kStep);
  // The pool releases its cached memory.
  stand_in_.failures["create"] = CUDA_ERROR_OUT_OF_MEMORY;
  region->grow(6 * kStep);
  EXPECT_EQ(region->bytes(), 6 * kStep);
  for (const char* const step : {"map memory", "access"}) {
    stand_in_.failures[step] = CUDA_ERROR_OUT_OF_MEMORY;
    DWELL_EXPECT_ERROR(region->grow(20 * kStep), errc::out_of_memory, HasSubstr("growing an arena to 20480 bytes"));
    EXPECT_EQ(region->bytes(), 6 * kStep) << step;
    EXPECT_EQ(stand_in_.mapped, 6 * kStep) << step;
  }
  // Memory suffices for the requested bytes, but not for the spare ones.
  stand_in_.failures["map memory"] = CUDA_ERROR_OUT_OF_MEMORY;
  region->grow(6 * kStep + 1);
  EXPECT_EQ(region->bytes(), 7 * kStep);
  EXPECT_EQ(stand_in_.mapped, 7 * kStep);
  stand_in_.failures["create"] = CUDA_ERROR_OUT_OF_MEMORY;
  stand_in_.failures["trim"] = CUDA_ERROR_INVALID_VALUE;
  EXPECT_THROW(backend->reserve(kStep, kStep), Error);
  EXPECT_EQ(stand_in_.alive["addresses"], 1) << "those of the first";
}

TEST_F(CudaBackendTest, DeviceDataArrivesInOneCopy) {
  const auto backend = open();
  for (const std::size_t bytes : {8UL, 100'000UL, 1'000'000UL}) {
    const auto memory = backend->allocate(bytes);
    const int waits = stand_in_.waits;
    const int pinned = stand_in_.pinned;
    backend->write_to_device(memory->device(), bytes, [&](std::byte* to) { std::memset(to, 0x17, bytes); });
    EXPECT_EQ(stand_in_.waits, waits + 1);
    EXPECT_EQ(stand_in_.pinned, pinned + (bytes <= 100'000 ? 1 : 0)) << "what is large is not held twice";
    std::vector<std::byte> received(bytes);
    backend->copy_to_host(received.data(), memory->device(), bytes);
    EXPECT_THAT(received, testing::Each(std::byte{0x17})) << bytes;
    EXPECT_THROW(backend->write_to_device(memory->device(), bytes, [](std::byte*) { throw Error(errc::invalid_argument, "", {}); }), Error);
    EXPECT_EQ(stand_in_.waits, waits + 2) << "nothing is copied that was not made";
  }
}

TEST_F(CudaBackendTest, ForeignMemoryKeepsItsAddress) {
  const auto backend = open();
  const auto wrap = [&](Known known, std::size_t bytes, std::shared_ptr<void> keep_alive = {}) {
    stand_in_.known[0x7000] = known;
    return backend->wrap(reinterpret_cast<void*>(0x7000), bytes, std::move(keep_alive));
  };
  auto kept = std::make_shared<int>(1);
  {
    const auto device = wrap({.mapped = 0x7000}, 1000, kept);
    EXPECT_EQ(device->device(), 0x7000U);
    EXPECT_EQ(device->host(), nullptr) << "no task that names it needs a system fence";
    EXPECT_EQ(device->bytes(), 1000U);
    EXPECT_EQ(kept.use_count(), 2);
  }
  EXPECT_EQ(kept.use_count(), 1);
  const auto of_the_context = wrap({.context = reinterpret_cast<CUcontext>(0x1000), .mapped = 0x7000}, 1);
  EXPECT_EQ(of_the_context->host(), nullptr);
  const auto host = wrap({.type = CU_MEMORYTYPE_HOST, .mapped = 0x9000}, 8);
  EXPECT_EQ(host->device(), 0x9000U);
  EXPECT_EQ(host->host(), reinterpret_cast<void*>(0x7000));
  const auto managed = wrap({.device = 3, .managed = true, .mapped = 0x7000}, 8);
  EXPECT_EQ(managed->host(), reinterpret_cast<void*>(0x7000));

  DWELL_EXPECT_ERROR(wrap({.mapped = 0x7000}, 1001), errc::invalid_argument, HasSubstr("it has 1000 bytes, not 1001"));
  DWELL_EXPECT_ERROR(wrap({.device = 1, .mapped = 0x7000}, 8), errc::invalid_argument, HasSubstr("memory of cuda:1"));
  DWELL_EXPECT_ERROR(wrap({.context = reinterpret_cast<CUcontext>(0x5000), .mapped = 0x7000}, 8), errc::invalid_argument,
                     HasSubstr("context"));
  DWELL_EXPECT_ERROR(wrap({.type = CU_MEMORYTYPE_HOST}, 8), errc::invalid_argument, HasSubstr("not mapped"));
  DWELL_EXPECT_ERROR(backend->wrap(reinterpret_cast<void*>(0x8000), 8, kept), errc::invalid_argument, HasSubstr("cudaHostRegister"));
  EXPECT_EQ(kept.use_count(), 1);
  stand_in_.failures["pointer"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  DWELL_EXPECT_ERROR(wrap({.mapped = 0x7000}, 8), errc::device_lost, HasSubstr("whose memory"));
  EXPECT_THAT(stand_in_.current, IsEmpty());
}

TEST_F(CudaBackendTest, EachSlotOfLeasesHasAStreamOfTheLowestPriority) {
  const auto backend = open();
  EXPECT_THAT(stand_in_.priorities, testing::ElementsAre(0, 0, 0, 0, 0, 0)) << "leases, copies and launches: the lowest priority";
  const auto image = backend->load(cubin());
  for (u32 slot = 0; slot < device::kMostLeases; ++slot) {
    device::Lease lease{};
    lease.slot = slot;
    backend->start(*image, lease);
  }
  std::sort(stand_in_.launches.begin(), stand_in_.launches.end());
  EXPECT_EQ(std::unique(stand_in_.launches.begin(), stand_in_.launches.end()), stand_in_.launches.end());
  EXPECT_EQ(stand_in_.launches.size(), device::kMostLeases);
}

TEST_F(CudaBackendTest, StreamsOfUsersEndWhenTheyAreDroppedOrWithTheBackend) {
  {
    const auto backend = open();
    const auto streams = [&] { return std::ranges::count(stand_in_.priorities, 0); };
    const auto before = streams();
    void* const dropped = backend->make_stream();
    EXPECT_NE(dropped, backend->make_stream());
    EXPECT_EQ(streams(), before + 2) << "of the lowest priority";
    const int alive = stand_in_.alive.at("stream");
    backend->drop_stream(dropped);
    EXPECT_EQ(stand_in_.alive.at("stream"), alive - 1);
    backend->drop_stream(dropped);
    EXPECT_EQ(stand_in_.alive.at("stream"), alive - 1) << "a stream is ended once";
  }
  EXPECT_THAT(stand_in_.alive, IsEmpty());
}

TEST_F(CudaBackendTest, FaultsOfEveryLeaseAreChecked) {
  const auto backend = open();
  const auto image = backend->load(cubin());
  for (u32 slot = 0; slot < device::kMostLeases; ++slot) {
    device::Lease lease{};
    lease.slot = slot;
    backend->start(*image, lease);
  }
  const int calls = stand_in_.calls;
  EXPECT_EQ(backend->fault(), "");
  EXPECT_GE(stand_in_.calls, calls + static_cast<int>(device::kMostLeases));
  stand_in_.slow = stand_in_.launches.front();
  EXPECT_EQ(backend->fault(), "") << "a lease that runs is no fault";
  stand_in_.failures = {{"query", CUDA_ERROR_ILLEGAL_ADDRESS}};
  EXPECT_EQ(backend->fault(), "it failed (CUDA_ERROR)");
  backend->abandon();
  for (auto* stream : stand_in_.launches) {
    stand_in_.slow = stream;
    EXPECT_THAT(backend->stuck(), HasSubstr("a new process is needed"));
  }
  stand_in_.slow = nullptr;
  EXPECT_EQ(backend->stuck(), "");
}

TEST_F(CudaBackendTest, FailedOpenReleasesEverything) {
  for (const char* const function : {"stream", "pool", "host allocate", "synchronise"}) {
    stand_in_.failures = {{function, CUDA_ERROR_OUT_OF_MEMORY}};
    DWELL_EXPECT_ERROR(open(), errc::out_of_memory, HasSubstr("it failed"));
    EXPECT_THAT(stand_in_.alive, IsEmpty()) << function;
  }
  {
    const auto backend = open();
    const auto before = stand_in_.alive;
    for (const char* const function : {"clear", "synchronise"}) {
      stand_in_.failures = {{function, CUDA_ERROR_OUT_OF_MEMORY}};
      DWELL_EXPECT_ERROR(backend->allocate(8), errc::out_of_memory, HasSubstr("clearing memory"));
      EXPECT_EQ(stand_in_.alive, before) << function;
    }
    stand_in_.failures = {{"map", CUDA_ERROR_OUT_OF_MEMORY}};
    EXPECT_THROW(backend->allocate_host(8), Error);
    for (const char* const function : {"function", "attribute"}) {
      stand_in_.failures = {{function, CUDA_ERROR_NOT_FOUND}};
      DWELL_EXPECT_ERROR(backend->load(cubin()), errc::link_failed, HasSubstr("image"));
    }
    stand_in_.block_threads = 128;
    DWELL_EXPECT_ERROR(backend->load(cubin()), errc::link_failed, AllOf(HasSubstr("128"), HasSubstr("160")));
    EXPECT_EQ(stand_in_.alive, before);
    const int calls = stand_in_.calls;
    EXPECT_THROW(backend->load(std::vector<std::byte>(100)), Error);
    EXPECT_THROW(backend->load_kernels(std::vector<std::byte>(100), {}), Error);
    EXPECT_LE(stand_in_.calls, calls + 6) << "the driver trusts what it is given: it must not see what is no cubin";
    EXPECT_EQ(stand_in_.alive, before);
  }
  EXPECT_THAT(stand_in_.alive, IsEmpty());
}

TEST_F(CudaBackendTest, AFullPoolIsTrimmedOnce) {
  const auto backend = open();
  stand_in_.failures = {{"allocate", CUDA_ERROR_OUT_OF_MEMORY}};
  EXPECT_NO_THROW(backend->allocate(8));
  stand_in_.failures = {{"allocate", CUDA_ERROR_OUT_OF_MEMORY}, {"trim", CUDA_ERROR_INVALID_VALUE}};
  DWELL_EXPECT_ERROR(backend->allocate(8), errc::out_of_memory, HasSubstr("allocating 8 bytes on the device"));
}

TEST_F(CudaBackendTest, NothingWaitsForAnAbandonedDevice) {
  int calls = 0;
  {
    const auto backend = open();
    const auto [memory, host, image, kernels, completion] = one_of_each(*backend);
    stand_in_.finished = false;
    EXPECT_FALSE(completion->done());
    backend->abandon();
    DWELL_EXPECT_ERROR(completion->done(), errc::device_lost, HasSubstr("given up"));
    DWELL_EXPECT_ERROR(backend->allocate(8), errc::device_lost, HasSubstr("given up"));
    DWELL_EXPECT_ERROR(backend->finish(), errc::device_lost, HasSubstr("given up"));
    EXPECT_THAT(backend->stuck(), HasSubstr("a new process is needed"));
    calls = stand_in_.calls;
  }
  EXPECT_EQ(stand_in_.calls, calls) << "any call might wait for what hangs";
}

TEST_F(CudaBackendTest, HangingLeaseIsReleasedWhenItEnds) {
  {
    const auto backend = open();
    const auto memory = backend->allocate(8);
    backend->abandon();
    EXPECT_EQ(backend->stuck(), "");
  }
  EXPECT_THAT(stand_in_.alive, IsEmpty());
}

TEST_F(CudaBackendTest, TheMessageNamesAContextTakenDownByAFault) {
  stand_in_.failures = {{"retain", CUDA_ERROR_ILLEGAL_ADDRESS}};
  DWELL_EXPECT_ERROR(open(), errc::device_lost, HasSubstr("gives the process no new context"));
  stand_in_.shared = 1;
  stand_in_.failures = {{"synchronise", CUDA_ERROR_ILLEGAL_ADDRESS}};
  DWELL_EXPECT_ERROR(open(), errc::device_lost, HasSubstr("others (a Runtime, PyTorch) share the context"));
  EXPECT_THAT(stand_in_.alive, IsEmpty());
  const auto backend = open();
  stand_in_.failures = {{"query", CUDA_ERROR_ILLEGAL_ADDRESS}};
  EXPECT_EQ(backend->fault(), "it failed (CUDA_ERROR)");
}

TEST_F(CudaBackendTest, LaunchesWorkWithoutEvents) {
  const auto backend = open();
  const std::string symbols[] = {"kernel"};
  const auto kernels = backend->load_kernels(cubin(), symbols);
  stand_in_.failures = {{"record", CUDA_ERROR_OUT_OF_MEMORY}};
  const auto completion = backend->launch(*kernels, {});
  stand_in_.failures = {{"record", CUDA_ERROR_OUT_OF_MEMORY}};
  EXPECT_FALSE(completion->done()) << "nobody knows yet";
  EXPECT_TRUE(completion->done()) << "a later event has been recorded";
  stand_in_.failures = {{"record", CUDA_ERROR_ILLEGAL_ADDRESS}};
  const auto lost = backend->launch(*kernels, {});
  stand_in_.failures = {{"query", CUDA_ERROR_ILLEGAL_ADDRESS}};
  DWELL_EXPECT_ERROR(lost->done(), errc::device_lost, HasSubstr("it failed"));
}

TEST_F(CudaBackendTest, AnExclusiveLaunchIsAGraph) {
  auto* const stream = reinterpret_cast<CUstream>(0x100);
  {
    const auto backend = open();
    const std::string symbols[] = {"kernel"};
    auto kernels = backend->load_kernels(cubin(), symbols);
    KernelLaunch asked;
    asked.cooperative = true;
    const auto plain = backend->prepare(*kernels, asked);
    EXPECT_EQ(stand_in_.alive.count("exec"), 0U) << "launches of it may overlap";
    asked.exclusive = true;
    auto first = backend->prepare(*kernels, asked);
    const auto second = backend->prepare(*kernels, asked);
    EXPECT_EQ(stand_in_.alive["exec"], 2);
    EXPECT_EQ(stand_in_.alive.count("graph"), 0U);
    EXPECT_EQ(stand_in_.cooperative, 2);
    second->enqueue(stream, {});
    EXPECT_THAT(stand_in_.graph_launches, testing::ElementsAre(stream));
    stand_in_.captured = stream;
    second->enqueue(stream, {});
    EXPECT_THAT(stand_in_.launches, testing::ElementsAre(stream)) << "a capture gets the kernel itself";
    EXPECT_EQ(stand_in_.graph_launches.size(), 1U);
    first.reset();
    EXPECT_EQ(stand_in_.alive["exec"], 1);
    kernels.reset();
    EXPECT_EQ(stand_in_.alive.count("exec"), 0U) << "a graph is gone before its kernel";
  }
  EXPECT_THAT(stand_in_.alive, IsEmpty());
}

TEST_F(CudaBackendTest, AnExclusiveLaunchNeedsNoGraph) {
  const auto backend = open();
  const std::string symbols[] = {"kernel"};
  const auto kernels = backend->load_kernels(cubin(), symbols);
  KernelLaunch asked;
  asked.exclusive = true;
  for (const char* const call : {"graph", "node", "instantiate"}) {
    stand_in_.launches.clear();
    stand_in_.failures = {{call, CUDA_ERROR_NOT_SUPPORTED}};
    backend->prepare(*kernels, asked)->enqueue(nullptr, {});
    EXPECT_EQ(stand_in_.launches.size(), 1U) << call;
  }
  EXPECT_THAT(stand_in_.graph_launches, IsEmpty());
  EXPECT_EQ(stand_in_.alive.count("graph") + stand_in_.alive.count("exec"), 0U);
}

TEST_F(CudaBackendTest, LimitsOfALaunchAreNamed) {
  const auto backend = open();
  const std::string symbols[] = {"kernel"};
  const auto kernels = backend->load_kernels(cubin(), symbols);
  const auto launch = [&](const std::function<void(KernelLaunch&)>& change) {
    KernelLaunch asked;
    change(asked);
    backend->launch(*kernels, asked);
  };
  EXPECT_NO_THROW(launch([](KernelLaunch&) {}));
  DWELL_EXPECT_ERROR_FIELDS(launch([](KernelLaunch& one) { one.grid[1] = 2000; }), errc::invalid_argument, "argument", "the grid's y", 2000,
                            1024);
  DWELL_EXPECT_ERROR_FIELDS(launch([](KernelLaunch& one) { one.block[0] = 161; }), errc::invalid_argument, "argument",
                            "the number of threads of a block", 161, 160);
  DWELL_EXPECT_ERROR_FIELDS(launch([](KernelLaunch& one) { one.shared_bytes = 200'000; }), errc::invalid_argument, "argument",
                            "the dynamic shared memory of a block in bytes", 200'000, 199'000);
  EXPECT_EQ(stand_in_.alive["event"], 1) << "that of bursts";
}

TEST_F(CudaBackendTest, CooperativeLaunchIsRefusedUnlessItFitsAtOnce) {
  const auto backend = open();
  const std::string symbols[] = {"kernel"};
  const auto kernels = backend->load_kernels(cubin(), symbols);
  const auto launch = [&](bool cooperative, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    KernelLaunch asked;
    asked.grid[0] = x;
    asked.grid[1] = y;
    asked.grid[2] = z;
    asked.cooperative = cooperative;
    backend->launch(*kernels, asked);
  };
  // 6 blocks on each of 10 multiprocessors.
  launch(true, 5, 4, 3);
  EXPECT_EQ(stand_in_.cooperative, 1);
  DWELL_EXPECT_ERROR(launch(true, 61, 1, 1), errc::invalid_argument,
                     testing::AllOf(HasSubstr("has 61 blocks, at most 60"), HasSubstr("launch fewer")));
  DWELL_EXPECT_ERROR_FIELDS(launch(true, 1024, 1024, 1024), errc::invalid_argument, "argument",
                            "the number of blocks of a cooperative launch", 1U << 30U, 60);
  EXPECT_EQ(stand_in_.launches.size(), 1U);
  stand_in_.failures = {{"occupancy", CUDA_ERROR_INVALID_VALUE}};
  launch(false, 61, 1, 1);
  EXPECT_EQ(stand_in_.failures.size(), 1U) << "only cooperative launches ask for the occupancy";
  EXPECT_EQ(stand_in_.cooperative, 1);
  EXPECT_THROW(launch(true, 1, 1, 1), Error);
  stand_in_.failures = {{"launch", CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE}};
  DWELL_EXPECT_ERROR(launch(true, 1, 1, 1), errc::invalid_argument, HasSubstr("the launch"));
  EXPECT_EQ(stand_in_.alive["event"], 1) << "that of bursts";
}

}  // namespace
}  // namespace dwell::backend
