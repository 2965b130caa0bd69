#include "backend/cuda/cuda_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "backend/cuda/cuda_device.hpp"
#include "backend/cuda/cuda_image.hpp"
#include "backend/cuda/cuda_launch_graph.hpp"
#include "base/mutex.hpp"

namespace dwell::backend {

namespace {

struct CudaKernel {
  CUfunction function = nullptr;  // null if the driver does not find it, as with internal linkage
  std::uint32_t max_threads = 0;  // per block
  std::uint32_t max_shared = 0;   // dynamic, bytes per block
};

class CudaKernels final : public LoadedModule {
 public:
  CudaKernels(const CudaPlace& place, std::span<const std::byte> cubin, std::span<const std::string> symbols) : place_(place) {
    const Driver& driver = place.driver;
    if (!is_cubin(cubin)) throw Error(errc::link_failed, "the program is not a cubin");
    driver.check(driver.cuModuleLoadData(&module_, cubin.data()), "loading the program");
    try {
      for (const std::string& symbol : symbols) kernels.push_back(load(symbol));
    } catch (...) {
      driver.cuModuleUnload(module_);
      throw;
    }
  }
  ~CudaKernels() override {
    for (const auto& graph : graphs_)
      if (const auto kept = graph.lock()) kept->drop();
    give_back(place_, [this] { place_.driver.cuModuleUnload(module_); });
  }
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  // Keeps the graph of a launch to drop it, if need be, before the kernels.
  void note(const std::shared_ptr<CudaLaunchGraph>& graph) {
    const Lock lock(mutex_);
    std::erase_if(graphs_, [](const auto& one) { return one.expired(); });
    graphs_.push_back(graph);
  }

  std::vector<CudaKernel> kernels;

 private:
  CudaKernel load(const std::string& symbol) const {
    const Driver& driver = place_.driver;
    CudaKernel kernel;
    const CUresult found = driver.cuModuleGetFunction(&kernel.function, module_, symbol.c_str());
    if (found == CUDA_ERROR_NOT_FOUND) return {};
    driver.check(found, ("looking for kernel " + symbol).c_str());
    // Load the code now: else the first launch would, and wait for every kernel on the device.
    driver.check(driver.cuFuncLoad(kernel.function), ("loading kernel " + symbol).c_str());
    const auto attribute = [&](CUfunction_attribute of) {
      int value = 0;
      driver.check(driver.cuFuncGetAttribute(&value, of, kernel.function), "reading what a kernel needs");
      return value;
    };
    kernel.max_threads = static_cast<std::uint32_t>(attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    const int most = attribute_of(driver, place_.device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    const int rest = std::max(0, most - attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    // Raise the limit once, to the maximum.
    driver.check(driver.cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, rest),
                 "allowing large shared memory");
    kernel.max_shared = static_cast<std::uint32_t>(rest);
    return kernel;
  }

  const CudaPlace& place_;
  CUmodule module_ = nullptr;
  Mutex mutex_;
  std::vector<std::weak_ptr<CudaLaunchGraph>> graphs_;  // of its kernels; changed under the mutex
};

class CudaCompletion final : public Completion {
 public:
  explicit CudaCompletion(const CudaPlace& place) : place_(place) {
    place.driver.check(place.driver.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "creating an event");
  }
  ~CudaCompletion() override {
    give_back(place_, [this] { place_.driver.cuEventDestroy(event_); });
  }
  CudaCompletion(const CudaCompletion&) = delete;
  CudaCompletion& operator=(const CudaCompletion&) = delete;

  // Records the event after the stream's work so far. The launch stands even if this fails: then done() tries again, and sees the end late,
  // never early.
  void record(CUstream stream) {
    const Lock lock(mutex_);
    stream_ = stream;
    recorded_ = place_.driver.cuEventRecord(event_, stream) == CUDA_SUCCESS;
  }

  bool done() override {
    const Entered entered(place_);
    {
      const Lock lock(mutex_);
      if (!recorded_) {
        fail_if(place_.driver.cuStreamQuery(place_.launches));  // every stream reports a device fault
        recorded_ = place_.driver.cuEventRecord(event_, stream_) == CUDA_SUCCESS;
      }
      if (!recorded_) return false;
    }
    const CUresult result = place_.driver.cuEventQuery(event_);
    fail_if(result);
    return result == CUDA_SUCCESS;
  }

 private:
  void fail_if(CUresult result) const {
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return;
    throw Error(errc::device_lost, "the device failed: " + place_.driver.text(result));
  }

  const CudaPlace& place_;
  CUevent event_ = nullptr;
  Mutex mutex_;
  CUstream stream_ DWELL_GUARDED_BY(mutex_) = nullptr;
  bool recorded_ DWELL_GUARDED_BY(mutex_) = false;
};

void check_limit(std::uint64_t asked, std::uint64_t limit, const std::string& what) {
  if (asked <= limit) return;
  throw Error(errc::invalid_argument, what + " is " + std::to_string(asked) + ", the limit is " + std::to_string(limit),
              {"argument", what, asked, limit});
}

// Reports exceeded limits in the caller's terms; the driver would only report "invalid argument".
void check_limits(const CudaPlace& place, const CudaKernel& kernel, const KernelLaunch& launch) {
  constexpr const char* kAxis[] = {"x", "y", "z"};
  constexpr CUdevice_attribute kMostBlocks[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                                CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  constexpr CUdevice_attribute kMostThreads[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                                 CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
  for (int i = 0; i < 3; ++i) {
    check_limit(launch.grid[i], static_cast<std::uint64_t>(attribute_of(place.driver, place.device, kMostBlocks[i])),
                std::string("the grid's ") + kAxis[i]);
    check_limit(launch.block[i], static_cast<std::uint64_t>(attribute_of(place.driver, place.device, kMostThreads[i])),
                std::string("the block's ") + kAxis[i]);
  }
  const std::uint64_t threads = std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  check_limit(threads, kernel.max_threads, "the number of threads of a block");
  check_limit(launch.shared_bytes, kernel.max_shared, "the dynamic shared memory of a block in bytes");
}

// Blocks of a cooperative launch wait for each other: they must fit on the device at once. The launch is within the other limits.
void check_fits_at_once(const CudaPlace& place, const CudaKernel& kernel, const KernelLaunch& launch) {
  const Driver& driver = place.driver;
  const std::uint64_t asked = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const auto threads = static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  int blocks = 0;
  driver.check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function, threads, launch.shared_bytes),
               "computing how many blocks run at once");
  const int multiprocessors = attribute_of(driver, place.device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const std::uint64_t limit = static_cast<std::uint64_t>(blocks) * static_cast<std::uint64_t>(multiprocessors);
  if (asked <= limit) return;
  throw Error(errc::invalid_argument,
              "the cooperative launch has " + std::to_string(asked) + " blocks, at most " + std::to_string(limit) +
                  " run at once: launch fewer, or blocks of fewer threads or less shared memory",
              {"argument", "the number of blocks of a cooperative launch", asked, limit});
}

// The kernel of a launch that keeps to all limits.
const CudaKernel& checked_kernel(const CudaPlace& place, LoadedModule& kernels, const KernelLaunch& launch) {
  const CudaKernel& kernel = static_cast<CudaKernels&>(kernels).kernels.at(launch.kernel);
  if (kernel.function == nullptr) throw Error(errc::invalid_argument, "the driver does not know it: give it external linkage");
  check_limits(place, kernel, launch);
  if (launch.cooperative) check_fits_at_once(place, kernel, launch);
  return kernel;
}

void enqueue_kernel(const Driver& driver, CUfunction function, const KernelLaunch& launch, CUstream stream, void** parameters) {
  const auto& [across, down, deep] = launch.grid;
  const auto& [x, y, z] = launch.block;
  driver.check(launch.cooperative
                   ? driver.cuLaunchCooperativeKernel(function, across, down, deep, x, y, z, launch.shared_bytes, stream, parameters)
                   : driver.cuLaunchKernel(function, across, down, deep, x, y, z, launch.shared_bytes, stream, parameters, nullptr),
               "the launch");
}

class CudaPreparedLaunch final : public PreparedLaunch {
 public:
  CudaPreparedLaunch(const CudaPlace& place, CUfunction function, const KernelLaunch& launch, std::shared_ptr<CudaLaunchGraph> graph)
      : place_(place), function_(function), launch_(launch), graph_(std::move(graph)) {
    launch_.parameters = {};
  }

  void enqueue(void* stream, std::span<void* const> parameters) override {
    const Entered entered(place_);
    const auto in = stream == nullptr ? place_.launches : static_cast<CUstream>(stream);
    if (graph_ != nullptr && !place_.driver.is_captured(in) && graph_->launch(in)) return;
    enqueue_kernel(place_.driver, function_, launch_, in, const_cast<void**>(parameters.data()));  // the driver only reads from them
  }

 private:
  const CudaPlace& place_;
  CUfunction function_;
  KernelLaunch launch_;
  std::shared_ptr<CudaLaunchGraph> graph_;  // null: launches may overlap
};

}  // namespace

std::unique_ptr<LoadedModule> load_cuda_kernels(const CudaPlace& place, std::span<const std::byte> cubin,
                                                std::span<const std::string> symbols) {
  return std::make_unique<CudaKernels>(place, cubin, symbols);
}

std::unique_ptr<Completion> launch_cuda_kernel(const CudaPlace& place, LoadedModule& kernels, const KernelLaunch& launch) {
  const Driver& driver = place.driver;
  const CudaKernel& kernel = checked_kernel(place, kernels, launch);
  const auto stream = launch.stream == nullptr ? place.launches : static_cast<CUstream>(launch.stream);
  if (launch.stream != nullptr) driver.refuse_captured(stream, "a launch has no end to wait for there");
  auto completion = std::make_unique<CudaCompletion>(place);
  std::vector<void*> parameters;  // the driver only reads from them
  for (const void* const value : launch.parameters) parameters.push_back(const_cast<void*>(value));
  enqueue_kernel(driver, kernel.function, launch, stream, parameters.data());
  completion->record(stream);
  return completion;
}

std::unique_ptr<PreparedLaunch> prepare_cuda_kernel(const CudaPlace& place, LoadedModule& kernels, const KernelLaunch& launch) {
  auto* const function = checked_kernel(place, kernels, launch).function;
  std::shared_ptr<CudaLaunchGraph> graph;
  if (launch.exclusive) {
    std::vector<void*> parameters;  // the driver only reads from them
    for (const void* const value : launch.parameters) parameters.push_back(const_cast<void*>(value));
    graph = std::make_shared<CudaLaunchGraph>(place, function, launch, parameters);
    static_cast<CudaKernels&>(kernels).note(graph);
  }
  return std::make_unique<CudaPreparedLaunch>(place, function, launch, std::move(graph));
}

}  // namespace dwell::backend
