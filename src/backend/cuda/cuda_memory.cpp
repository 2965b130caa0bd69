#include "backend/cuda/cuda_memory.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace dwell::backend {

namespace {

class CudaMemory final : public Allocation {
 public:
  enum class Kind { device, host };

  CudaMemory(const CudaPlace& place, Kind kind, std::size_t bytes) : place_(place) {
    if (kind == Kind::device)
      allocate_device(bytes);
    else
      allocate_host(bytes);
    bytes_ = bytes;
  }
  ~CudaMemory() override {
    give_back(place_, [this] { free(); });
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

 private:
  void allocate_device(std::size_t bytes) {
    const Driver& driver = place_.driver;
    const std::size_t taken = std::max<std::size_t>(bytes, 1);
    CUdeviceptr address = 0;
    // Out of a pool: cuMemFree would wait for every kernel on the device to end.
    CUresult result = driver.cuMemAllocFromPoolAsync(&address, taken, place_.pool, place_.copies);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && driver.cuMemPoolTrimTo(place_.pool, 0) == CUDA_SUCCESS)
      result = driver.cuMemAllocFromPoolAsync(&address, taken, place_.pool, place_.copies);
    driver.check(result, ("allocating " + std::to_string(bytes) + " bytes on the device").c_str());
    device_ = address;
    if (bytes == 0) return;
    try {
      driver.check(driver.cuMemsetD8Async(device_, 0, bytes, place_.copies), "clearing memory");
      driver.check(driver.cuStreamSynchronize(place_.copies), "clearing memory");
    } catch (...) {
      free();
      throw;
    }
  }
  void allocate_host(std::size_t bytes) {
    const Driver& driver = place_.driver;
    const std::size_t taken = std::max<std::size_t>(bytes, 1);
    driver.check(driver.cuMemHostAlloc(&host_, taken, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                 ("allocating " + std::to_string(bytes) + " bytes of pinned host memory").c_str());
    CUdeviceptr address = 0;
    if (const CUresult result = driver.cuMemHostGetDevicePointer(&address, host_, 0); result != CUDA_SUCCESS) {
      free();
      driver.check(result, "mapping host memory into the device");
    }
    device_ = address;
    std::memset(host_, 0, taken);
  }
  void free() const {
    if (host_ != nullptr)
      place_.driver.cuMemFreeHost(host_);
    else
      place_.driver.cuMemFreeAsync(device_, place_.copies);
  }

  const CudaPlace& place_;
};

}  // namespace

std::unique_ptr<Allocation> allocate_cuda(const CudaPlace& place, std::size_t bytes) {
  return std::make_unique<CudaMemory>(place, CudaMemory::Kind::device, bytes);
}

std::unique_ptr<Allocation> allocate_cuda_host(const CudaPlace& place, std::size_t bytes) {
  return std::make_unique<CudaMemory>(place, CudaMemory::Kind::host, bytes);
}

}  // namespace dwell::backend
